"""SpeakStream over frames that are given: p_eos, likelihood and the text that each frame attended to."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event
from studio.engine.alphabets import dmel
from studio.engine.families.base import Turn
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.speakstream.fed import Prefill, Stretch
from studio.engine.families.speakstream.net import SpeakStream
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.rule import SPACE, W_EOS
from studio.engine.nets.opened import OpenDecoder
from studio.engine.noise.sampling import log_likelihood

ATTENDS_TO = "self-attention to the characters of each word that the segment saw, wherever they were fed"
_NO_WORD = -1


class SpeakStreamForcing(ForcedPass):
    """See ``ForcedPass``; the row remembers as much as when it speaks."""

    def __init__(self, net: SpeakStream, row: SpeakStreamRow, given: Given) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([given.speaker], device=self._device)
        self._memory = OpenDecoder(net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens held

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: Prefill) -> tuple[ForcedSegment, Sequence[Event]]:
        assert isinstance(fed, Prefill), "a segment begins with its text"
        (stretch,) = fed.stretches  # nothing is revised here
        if fed.start > self._memory.start:
            self._token_words = self._token_words[fed.start - self._memory.start :]
            self._memory.forget(fed.start)
        plan = self._row.planned
        stop = self._arrivals.stop(first, plan.speak)
        frames = self._frames(first, stop, self._net.config.longest_word_frames * len(plan.speak))
        text, text_words = self._text(stretch, plan.feed.start)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        x = torch.cat((text, self._net.embed_frames(levels, self._speaker.expand(len(levels)))))
        hidden, shares = self._memory.extend(x)
        logits, eos = self._net.heads(hidden[len(text) - 1 :])
        p_eos = np.array([probability(one) for one in eos[1:].float().cpu().numpy()], np.float32)
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        likely = log_likelihood(logits[:-1], levels)
        self._memory.cut(self._memory.length - (len(frames) - count))
        self._token_words = np.concatenate((self._token_words, text_words, np.full(count, _NO_WORD)))
        events = self._told(frames[:count])
        asked = shares[:, len(text) - 1 : len(text) - 1 + count, : len(self._token_words)].float().cpu().numpy()
        forced = bool(p_eos[count - 1] < EOS_AT)
        found = ForcedSegment(
            index=index,
            first=first,
            word=plan.seen.start,
            by_layer=by_word(asked, self._token_words, plan.seen),
            p_eos=p_eos[:count],
            log_likelihood=likely[:count].cpu().numpy(),
            forced=forced,
            events=with_end(events, float(p_eos[count - 1]), forced=forced),
        )
        return found, events

    def _told(self, frames: np.ndarray) -> list[Event]:
        """What the row says of a segment that takes these frames."""

        def took(frame: np.ndarray, p: float) -> Turn:
            self._row.want()
            return self._row.took(Drawn(frame[None], p, True))

        before = took(frames[0], 0.0).before
        for frame in frames[1:]:
            took(frame, 0.0)
        return [*before, *took(frames[0], 1.0).after]

    def _text(self, given: Stretch, word: int) -> tuple[Tensor, np.ndarray]:
        """What a segment begins with [T, D], and the spoken word of each token; ``word`` is the first that is fed."""
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
