"""IST-LM over frames that are given: p_eos, likelihood and the text tokens that each frame attended to."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.ist.layout import FRAME
from studio.engine.families.ist.net import Ist
from studio.engine.families.ist.row import IstRow, Prefill
from studio.engine.nets.opened import OpenDecoder
from studio.engine.noise.sampling import log_likelihood

ATTENDS_TO = "self-attention to the text tokens of each word of the stretch that were fed so far"
_NO_WORD = -1


class IstForcing(ForcedPass):
    """See ``ForcedPass``; a segment is a chunk of text with its frames, and the row remembers as when it speaks.

    Until the text is consumed the end is masked (section 3). The last frame of any other chunk is fed together with
    the text after it, so what the net says of an end after it is known with the next chunk alone.
    """

    def __init__(self, net: Ist, row: IstRow, given: Given) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = net.ratio.weight.device
        self._memory = OpenDecoder(net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens held
        self._p_before = 0.0  # of the end after what the newest chunk begins with

    def segments(self) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        held: ForcedSegment | None = None
        for one in super().segments():
            if held is not None:
                if len(held.p_eos) and np.isnan(held.p_eos[-1]):
                    held.p_eos[-1] = self._p_before
                yield held
            held = one
        if held is not None:
            yield held

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: Prefill) -> tuple[ForcedSegment, Sequence[Event]]:
        assert isinstance(fed, Prefill), "a chunk begins with its text"
        net, plan = self._net, self._row.planned
        if fed.start > self._memory.start:
            self._token_words = self._token_words[fed.start - self._memory.start :]
            self._memory.forget(fed.start)
        closes = plan.chunk_frames is None
        least = 0 if plan.frames else 1
        stop = self._arrivals.stop(first, plan.words, least) if closes else first + (plan.chunk_frames or 0)
        longest = max(least, net.config.longest_word_frames * len(plan.words) - plan.frames)
        frames = self._frames(first, stop, longest)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        again = levels if closes else levels[:-1]  # those that are fed back before the next text is
        text = self._embed(fed)
        places = plan.frames + torch.arange(len(again), device=self._device)
        hidden, shares = self._memory.extend(torch.cat((text, net.embed_frames(again, places))))
        logits, eos = net.heads(hidden[len(text) - 1 :])
        if closes:
            said = np.array([probability(one) for one in eos.float().cpu().numpy()], np.float32)
            count = len(frames) if stop is not None else self._count(said, first, least)
            self._p_before, p_eos = float(said[0]), said[1 : count + 1]
            forced = bool(said[count] < EOS_AT)
        else:
            count, self._p_before, forced = len(frames), 0.0, False
            p_eos = np.append(np.zeros(count - 1, np.float32), np.float32(np.nan))
        self._memory.cut(self._memory.length - (len(frames) - count))
        fed_back = count if closes else count - 1
        self._token_words = np.concatenate((self._token_words, plan.tokens, np.full(fed_back, _NO_WORD)))
        likely = log_likelihood(logits[:count], levels[:count])
        asked = shares[:, len(text) - 1 : len(text) - 1 + count, : len(self._token_words)].float().cpu().numpy()
        events = self._told(frames[:count], closes=closes)
        found = ForcedSegment(
            index=index,
            first=first,
            word=plan.begun.start,
            by_layer=by_word(asked, self._token_words, plan.begun),
            p_eos=p_eos,
            log_likelihood=likely.cpu().numpy(),
            forced=forced,
            events=with_end(events, float(said[count]), forced=forced) if closes else events,
        )
        return found, events

    def _count(self, said: np.ndarray, first: int, least: int) -> int:
        """How many frames the last chunk of a stretch takes where the net decides: perhaps none."""
        if least == 0 and said[0] >= EOS_AT and first > self._given.lead:
            return 0
        return self._end(said[1:] >= EOS_AT, first)

    def _embed(self, given: Prefill) -> Tensor:
        """All tokens of a prefill [T, D]."""
        net, layout = self._net, given.layout
        symbols, places = (torch.tensor(one, device=self._device) for one in (layout.symbols, layout.places))
        is_frame = symbols == FRAME
        x = torch.zeros(len(layout), net.config.width, device=self._device)
        x[~is_frame] = net.embed_symbols(symbols[~is_frame], places[~is_frame])
        x[symbols == net.config.symbols.start] += net.ratio.weight[given.ratio]
        if layout.frames:
            x[is_frame] = net.embed_frames(torch.from_numpy(layout.stacked()).to(self._device), places[is_frame])
        return x

    def _told(self, frames: np.ndarray, *, closes: bool) -> list[Event]:
        """What the row says of a chunk that takes these frames."""
        drawn = [Drawn(frame[None], 0.0, True) for frame in frames]
        if closes:
            drawn.append(Drawn(np.zeros((1, *self._given.frames.shape[1:]), np.uint8), 1.0, True))
        events = list[Event]()
        for one in drawn:
            self._row.want()
            turn = self._row.took(one)
            events += [*turn.before, *turn.after]
        return [one for one in events if not isinstance(one, Frames)]
