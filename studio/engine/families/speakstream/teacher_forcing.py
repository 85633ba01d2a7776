"""Teacher forcing of SpeakStream."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay_frames,
    sum_by_word,
    with_predicted_eos,
)
from studio.engine.families.speakstream.inputs import SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.families.speakstream.policy import SPACE, W_EOS
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder
from studio.engine.tokenizers import dmel

ATTENDS_TO = "self-attention to the characters of each word that the segment saw, wherever they were fed"
_NO_WORD = -1


class SpeakStreamTeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; the row limits the context as in synthesis."""

    def __init__(self, net: SpeakStream, row: SpeakStreamRow, given: TeacherForcingInput) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([given.speaker], device=self._device)
        self._decoder = ReferenceDecoder(net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens in the decoder's cache

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: SegmentPrefill) -> tuple[TeacherForcedSegment, Sequence[Event]]:
        assert isinstance(fed, SegmentPrefill), "a segment begins with its text"
        (segment_input,) = fed.segments  # no revisions here
        if fed.start > self._decoder.start:
            self._token_words = self._token_words[fed.start - self._decoder.start :]
            self._decoder.forget(fed.start)
        plan = self._row.planned
        stop = self._schedule.stop(first, plan.speak)
        frames = self._frames(first, stop, self._net.config.longest_word_frames * len(plan.speak))
        text, text_words = self._text(segment_input, plan.feed.start)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        x = torch.cat((text, self._net.embed_frames(levels, self._speaker.expand(len(levels)))))
        hidden, shares = self._decoder.extend(x)
        logits, eos = self._net.heads(hidden[len(text) - 1 :])
        p_eos = eos_probabilities(eos[1:])
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        likelihood = log_likelihood(logits[:-1], levels)[:count].cpu().numpy()
        self._decoder.cut(self._decoder.length - (len(frames) - count))
        self._token_words = np.concatenate((self._token_words, text_words, np.full(count, _NO_WORD)))
        events = replay_frames(self._row, frames[:count])
        attended = shares[:, len(text) - 1 : len(text) - 1 + count, : len(self._token_words)].float().cpu().numpy()
        by_layer = sum_by_word(attended, self._token_words, plan.seen)
        forced = bool(p_eos[count - 1] < EOS_AT)
        ended = with_predicted_eos(events, float(p_eos[count - 1]), forced=forced)
        segment = TeacherForcedSegment(
            index, first, plan.seen.start, by_layer, p_eos[:count], likelihood, forced, ended
        )
        return segment, events

    def _text(self, given: SegmentInput, word: int) -> tuple[Tensor, np.ndarray]:
        """The embedded input of a segment [T, D], and the spoken word of each token; ``word`` is the first one fed."""
        net, device, words = self._net, self._device, list[int]()
        pieces: list[Tensor] = []
        if given.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(net.embed_frames(eos, self._speaker))
            words.append(_NO_WORD)
        if given.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*given.symbols]], device=device), self._speaker)[0])
            for symbol in given.symbols:
                words.append(_NO_WORD if symbol == W_EOS else word)
                word += symbol == SPACE
        pieces.append(net.embed_bos(torch.tensor([given.window], device=device), self._speaker))
        if len(given.frames):
            frames = torch.from_numpy(given.frames).to(device)
            pieces.append(net.embed_frames(frames, self._speaker.expand(len(frames))))
        words += [_NO_WORD] * (1 + len(given.frames))
        return torch.cat(pieces), np.array(words)
