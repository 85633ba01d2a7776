"""SpeakStream over frames that are given: p_eos, likelihood and the text that each frame attended to."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Eos, Event
from studio.engine import dmel
from studio.engine.families.base import Turn
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.forcing import Arrivals, ForcedSegment, Given, by_word
from studio.engine.families.speakstream.net import SpeakStream
from studio.engine.families.speakstream.row import Prefill, SpeakStreamRow, Stretch
from studio.engine.families.speakstream.rule import SPACE, W_EOS
from studio.engine.nets.opened import OpenDecoder

ATTENDS_TO = "self-attention to the characters of each word that the segment saw, wherever they were fed"
_NO_WORD = -1


class SpeakStreamForcing:
    """One pass over given frames; the row says what is fed, and remembers as much as when it speaks.

    Args:
        row: of no slots, and without a limit of a segment's frames: ``given`` may hold a long pause.
    """

    def __init__(self, net: SpeakStream, row: SpeakStreamRow, given: Given) -> None:
        self._net, self._row, self._given = net, row, given
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([given.speaker], device=self._device)
        self._memory = OpenDecoder(net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens held

    @torch.inference_mode()
    def segments(self) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        arrivals = Arrivals(self._row, self._given)
        first, index = 0, 0
        while first < len(self._given.frames) and (want := arrivals.want()) is not None:
            assert isinstance(want.inputs, Prefill), "a segment begins with its text"
            stop = arrivals.stop(first, self._row.planned.speak)
            one, begun = self._segment(index, first, stop, want.inputs)
            arrivals.begun(begun)
            yield one
            first, index = first + len(one.p_eos), index + 1

    def _segment(self, index: int, first: int, stop: int | None, fed: Prefill) -> tuple[ForcedSegment, Sequence[Event]]:
        (stretch,) = fed.stretches  # nothing is revised here
        if fed.start > self._memory.start:
            self._token_words = self._token_words[fed.start - self._memory.start :]
            self._memory.forget(fed.start)
        plan = self._row.planned
        longest = self._net.config.longest_word_frames * len(plan.speak) if stop is None else stop - first
        frames = self._given.frames[first : first + longest]
        text, text_words = self._text(stretch, plan.feed.start)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        x = torch.cat((text, self._net.embed_frames(levels, self._speaker.expand(len(levels)))))
        hidden, shares = self._memory.extend(x)
        logits, eos = self._net.heads(hidden[len(text) - 1 :])
        p_eos = np.array([probability(one) for one in eos[1:].float().cpu().numpy()], np.float32)
        count = len(frames) if stop is not None else self._end(p_eos, first)
        likely = logits[:-1].float().log_softmax(-1).gather(-1, levels.long().unsqueeze(-1))[..., 0].sum(-1)
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
            events=[
                replace(one, p=float(p_eos[count - 1]), forced=forced) if isinstance(one, Eos) else one
                for one in events
            ],
        )
        return found, events

    def _end(self, p_eos: np.ndarray, first: int) -> int:
        """How many frames the segment takes where the net decides."""
        may = np.flatnonzero((p_eos >= EOS_AT) & (np.arange(first, first + len(p_eos)) >= self._given.lead))
        return int(may[0]) + 1 if len(may) else len(p_eos)

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
