"""Incremental Tacotron 2 over frames that are given: the stop token, likelihood and the alignment of each frame."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.alphabets import dmel
from studio.engine.families.drawn import probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.spelling import SPACE
from studio.engine.families.tacotron.net import Tacotron
from studio.engine.families.tacotron.row import Clause, Made, TacotronRow
from studio.engine.noise.sampling import log_likelihood, uniform

ATTENDS_TO = (
    "the alignment: location-sensitive attention to the phonemes of each word of the clause, "
    "whose end counts as its last word's"
)


class TacotronForcing(ForcedPass):
    """See ``ForcedPass``; a clause begins with nothing but the frame before it, so nothing else is remembered.

    The pre-net drops out in use, too: what it dropped is the noise of the utterance's seed, as when it spoke.
    """

    def __init__(self, net: Tacotron, row: TacotronRow, given: Given) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = net.silence.device

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: Clause) -> tuple[ForcedSegment, Sequence[Event]]:
        net, words = self._net, self._row.planned
        stop = self._arrivals.stop(first, words)
        frames = self._frames(first, stop, net.config.longest_word_frames * len(words), None)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        symbols, prosody = (torch.tensor([[*values]], device=self._device) for values in (fed.symbols, fed.prosody))
        real = torch.ones_like(symbols, dtype=torch.bool)
        memory = net.encode(symbols, prosody, torch.tensor([fed.speaker], device=self._device), real)
        before = torch.cat((torch.from_numpy(fed.last.copy()).to(self._device)[None], levels[:-1]))
        places = torch.arange(first, first + len(frames), device=self._device)
        noise = uniform(torch.full_like(places, self._given.seed), places, dmel.CHANNELS + 2 * net.config.prenet_width)
        seen, shares = net.decode(memory, real, before[None], noise[None, :, dmel.CHANNELS :])
        logits, stops = net.heads(seen[0])
        p_stop = np.array([probability(one) for one in stops.float().cpu().numpy()], np.float32)
        count = len(frames) if stop is not None else self._end(p_stop >= EOS_AT, first)
        likely = log_likelihood(logits, levels)
        alignment = shares[0, :count].float().cpu().numpy()
        forced = bool(p_stop[count - 1] < EOS_AT)
        events = self._told(frames[:count], alignment.argmax(1))
        found = ForcedSegment(
            index=index,
            first=first,
            word=words.start,
            by_layer=by_word(alignment[None], _words(fed.symbols, words), words),
            p_eos=p_stop[:count],
            log_likelihood=likely[:count].cpu().numpy(),
            forced=forced,
            events=with_end(events, float(p_stop[count - 1]), forced=forced),
        )
        return found, events

    def _told(self, frames: np.ndarray, attended: np.ndarray) -> list[Event]:
        """What the row says of a clause that takes these frames, which attended to these steps of the encoder.

        They come at once, in however many chunks the row hands them out.
        """
        p_stop = [0.0] * (len(frames) - 1) + [1.0]
        self._row.took(None)
        made, events = Made(frames, p_stop, attended, is_finite=True), list[Event]()
        while True:
            self._row.want()
            turn = self._row.took(made)
            events += [*turn.before, *turn.after]
            if turn.is_request_end:
                return [one for one in events if not isinstance(one, Frames)]
            made = Made(frames[:0], [], attended[:0], is_finite=True)


def _words(symbols: Sequence[int], words: range) -> np.ndarray:
    """The word of each of a clause's symbols int [T]: each begins with a space; the clause's end is its last word's."""
    return words.start - 1 + np.cumsum(np.array(symbols) == SPACE)
