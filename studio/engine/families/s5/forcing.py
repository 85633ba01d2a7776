"""S5-TTS over frames that are given: completion, likelihood and the words whose phonemes each frame attended to."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event
from studio.engine.families.base import Turn
from studio.engine.families.drawn import probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.s5.net import S5, seen_steps
from studio.engine.families.s5.row import S5Row
from studio.engine.families.s5.rule import Plan
from studio.engine.families.s5.step import Drawn, WordStep
from studio.engine.nets.opened import OpenDecoder
from studio.engine.noise.sampling import log_likelihood

ATTENDS_TO = "cross-attention to the phonemes of each word that the step saw"


class OpenS5:
    """The net of S5-TTS, or of T5-TTS, given frames step after step, so that one sees where it attends.

    Attributes:
        longest_word_frames: of its configuration.
    """

    def __init__(self, net: S5, speaker: int) -> None:
        self._net, self._device = net, next(net.parameters()).device
        self._speaker = torch.tensor([speaker], device=self._device)
        self._memory = OpenDecoder(net.decoder)
        self._given = 0
        self.longest_word_frames = net.config.longest_word_frames

    def run(self, fed: WordStep, frames: np.ndarray) -> tuple[Tensor, Tensor, np.ndarray]:
        """A step's beginning and n frames, uint8 [n, 80].

        Returns:
            Logits [n + 1, 80, 16] and those of the end [n + 1] after the beginning and after each frame, and their
            shares of the step's symbols, [L, n + 1, T].
        """
        net, device = self._net, self._device
        if fed.start > self._memory.start:
            self._memory.forget(fed.start)
        self._memory.cut(fed.at)
        symbols, words = (torch.tensor([[*values]], device=device) for values in (fed.symbols, fed.words))
        k = torch.tensor([fed.k], device=device)
        seen = seen_steps(words, words, k)
        if not net.config.encoder_mask:
            seen = torch.ones_like(seen)
        places = fed.place + torch.arange(symbols.shape[1], device=device).unsqueeze(0)
        memory = net.encode(net.embed_symbols(symbols), places, seen)
        x = net.embed_frames(torch.from_numpy(np.concatenate((fed.frames, frames))).to(device))
        if fed.begins:
            x = torch.cat((net.bos.unsqueeze(0), x))
        x = x + net.embed_row(self._speaker, k)
        allowed = torch.ones(1, len(x), symbols.shape[1], dtype=torch.bool, device=device)
        if net.config.decoder_mask and fed.spoken:
            asking = torch.tensor([[*fed.spoken]], device=device)
            allowed[:, : fed.tokens] = seen_steps(asking, words, k)
        found: list[Tensor] = []
        crossings = net.crossings()

        def between(layer: int, h: Tensor) -> Tensor:
            h, shares = crossings[layer](h, memory, allowed)
            found.append(shares[0])
            return h

        hidden, _ = self._memory.extend(x, between)
        self._given = len(frames)
        shares = torch.stack(found)[:, fed.tokens - 1 :].float().cpu().numpy()
        return *net.heads(hidden[fed.tokens - 1 :]), shares

    def likely(self, logits: Tensor, frames: np.ndarray) -> np.ndarray:
        """The log-likelihood of each frame, float32 [n], by what ``run`` answered."""
        return log_likelihood(logits[:-1], torch.from_numpy(frames.copy()).to(self._device)).cpu().numpy()

    def take(self, count: int) -> None:
        """Of the frames given last so many belong to the step; the others were not said yet."""
        self._memory.cut(self._memory.length - (self._given - count))


class S5Forcing(ForcedPass):
    """See ``ForcedPass``; the row remembers as much as when it speaks."""

    def __init__(self, net: S5, row: S5Row, given: Given) -> None:
        super().__init__(row, given)
        self._row, self._net = row, OpenS5(net, given.speaker)

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: WordStep) -> tuple[ForcedSegment, Sequence[Event]]:
        assert isinstance(fed, WordStep), "a step begins with its text"
        plan = self._row.planned
        stop = self._arrivals.stop(first, plan.speak)
        frames = self._frames(first, stop, self._net.longest_word_frames * len(plan.speak))
        logits, stops, shares = self._net.run(fed, frames)
        words = np.array(fed.words) + plan.stop + plan.close - 1 - fed.words[-1]  # those of a reference lie below
        if plan.close:
            p_stop = np.array([probability(one) for one in stops[1:].float().cpu().numpy()], np.float64)
            p_eos = 1.0 - np.cumprod(1.0 - p_stop)  # as ``SpokenStep.stopped``
            ended = p_eos >= EOS_AT
        else:
            after = shares.mean(0)[1:]
            p_eos = after[:, words >= plan.speak.stop].sum(1)
            ended = words[after.argmax(1)] >= plan.speak.stop  # c_s^i (``rule.is_complete``)
        count = len(frames) if stop is not None else self._end(ended, first)
        likely = self._net.likely(logits, frames)
        self._net.take(count)
        forced = not bool(ended[count - 1])
        events = self._told(frames[:count], shares.mean(0), plan)
        if forced and count == self._net.longest_word_frames * len(plan.speak):  # a row that speaks cuts it there
            self._row.lose()
        seen = range(plan.speak.start, plan.stop)
        found = ForcedSegment(
            index=index,
            first=first,
            word=seen.start,
            by_layer=by_word(shares[:, :count], words, seen),
            p_eos=p_eos[:count].astype(np.float32),
            log_likelihood=likely[:count],
            forced=forced,
            events=with_end(events, float(p_eos[count - 1]), forced=forced),
        )
        return found, events

    def _told(self, frames: np.ndarray, shares: np.ndarray, plan: Plan) -> list[Event]:
        """What the row says of a step that takes these frames; ``shares`` [n + 1, T] of the net."""

        def took(frame: np.ndarray, k: int, *, is_over: bool) -> Turn:
            self._row.want()
            told = shares[k]
            if not plan.close:  # the row looks where the most of it lies: on the first word, or beyond this one
                told = np.zeros_like(told)
                told[-1 if is_over else 0] = 1.0
            return self._row.took(Drawn(frame[None], float(is_over), told, True))

        events: list[Event] = [*took(frames[0], 0, is_over=False).before]
        for k, frame in enumerate(frames[1:], start=1):
            events += took(frame, k, is_over=False).after
        return [*events, *took(frames[0], len(frames), is_over=True).after]
