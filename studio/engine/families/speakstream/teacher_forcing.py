"""Teacher forcing of SpeakStream, and what RichTTS shares with it."""

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT
from studio.engine.families.base import Row
from studio.engine.families.common.teacher_forcing import (
    NO_WORD,
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay_frames,
    sum_by_word,
)
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.families.speakstream.policy import SPACE, W_EOS, SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder
from studio.engine.tokenizers import dmel

ATTENDS_TO = "self-attention to the characters of each word that the segment saw, wherever they were fed"


class FrameDecoderForcing(TeacherForcingRun):
    """One pass of a ``FrameDecoder``; see ``TeacherForcingRun``."""

    def __init__(self, net: FrameDecoder, row: Row, recording: TeacherForcingInput) -> None:
        super().__init__(row, recording)
        self._decoder_net, self._replayed = net, row
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([recording.speaker], device=self._device)
        self.restart()

    def restart(self) -> None:
        """Empty the context."""
        self._decoder = ReferenceDecoder(self._decoder_net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens in the decoder's cache

    def embed_frames(self, frames: np.ndarray) -> Tensor:
        """Frames uint8 [n, 80] -> [n, D]."""
        levels = torch.from_numpy(frames.copy()).to(self._device)
        return self._decoder_net.embed_frames(levels, self._speaker.expand(len(levels)))

    def decode(
        self, first: int, seen: range, x: Tensor, text_words: np.ndarray, frames: np.ndarray, stop: int | None
    ) -> TeacherForcedSegment:
        """Run a segment.

        Args:
            seen: words in view.
            x: embedded tokens [T, D]; the last ones are ``frames``, uint8 [n, 80], and ``text_words`` int [T - n] are
                the spoken words of the others.
            stop: see ``TextSchedule.stop``.
        """
        last = len(x) - len(frames) - 1  # the token that the first frame is sampled from
        hidden, shares = self._decoder.extend(x)
        logits, eos = self._decoder_net.heads(hidden[last:])
        p_eos = eos_probabilities(eos[1:])
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        self._decoder.cut(self._decoder.length - (len(frames) - count))
        self._token_words = np.concatenate((self._token_words, text_words, np.full(count, NO_WORD)))
        attended = shares[:, last : last + count, : len(self._token_words)].float().cpu().numpy()
        levels = torch.from_numpy(frames.copy()).to(self._device)
        return self._result(
            first,
            seen.start,
            sum_by_word(attended, self._token_words, seen),
            p_eos[:count],
            log_likelihood(logits[:-1], levels)[:count].cpu().numpy(),
            replay_frames(self._replayed, frames[:count]),
            forced=bool(p_eos[count - 1] < EOS_AT),
        )


class SpeakStreamTeacherForcing(FrameDecoderForcing):
    """See ``TeacherForcingRun``; the row limits the context as in synthesis."""

    def __init__(self, net: SpeakStream, row: SpeakStreamRow, recording: TeacherForcingInput) -> None:
        super().__init__(net, row, recording)
        self._net, self._row = net, row

    @torch.inference_mode()
    def _segment(self, first: int, fed: SegmentPrefill) -> TeacherForcedSegment:
        assert isinstance(fed, SegmentPrefill), "a segment begins with its text"
        (segment_input,) = fed.segments  # no revisions here
        if fed.start > self._decoder.start:
            self._token_words = self._token_words[fed.start - self._decoder.start :]
            self._decoder.forget(fed.start)
        plan = self._row.planned
        frames, stop = self._planned_frames(first, plan.speak, self._net.config.longest_word_frames)
        text, text_words = self._text(segment_input, plan.feed.start)
        x = torch.cat((text, self.embed_frames(frames)))
        return self.decode(first, plan.seen, x, text_words, frames, stop)

    def _text(self, segment: SegmentInput, word: int) -> tuple[Tensor, np.ndarray]:
        """The embedded input of a segment [T, D], and the spoken word of each token; ``word`` is the first one fed."""
        net, device, words = self._net, self._device, list[int]()
        pieces: list[Tensor] = []
        if segment.after_eos:
            pieces.append(self.embed_frames(np.full((1, dmel.CHANNELS), dmel.EOS, np.uint8)))
            words.append(NO_WORD)
        if segment.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*segment.symbols]], device=device), self._speaker)[0])
            for symbol in segment.symbols:
                words.append(NO_WORD if symbol == W_EOS else word)
                word += symbol == SPACE
        pieces.append(net.embed_bos(torch.tensor([segment.window], device=device), self._speaker))
        if len(segment.frames):
            pieces.append(self.embed_frames(segment.frames))
        words += [NO_WORD] * (1 + len(segment.frames))
        return torch.cat(pieces), np.array(words)
