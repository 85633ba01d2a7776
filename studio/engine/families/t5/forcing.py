"""T5-TTS over frames that are given: the end of the text, likelihood and the phonemes that each frame attended to."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.families.drawn import probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.s5.forcing import OpenS5
from studio.engine.families.s5.step import Drawn, WordStep
from studio.engine.families.t5.net import T5
from studio.engine.families.t5.row import T5Row

ATTENDS_TO = "cross-attention to the phonemes of each word of the sentence"


class T5Forcing(ForcedPass):
    """See ``ForcedPass``; a segment is a sentence."""

    def __init__(self, net: T5, row: T5Row, given: Given) -> None:
        super().__init__(row, given)
        self._row, self._net = row, OpenS5(net, given.speaker)

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: WordStep) -> tuple[ForcedSegment, Sequence[Event]]:
        words = self._row.planned
        stop = self._arrivals.stop(first, words)
        frames = self._frames(first, stop, self._net.longest_word_frames * len(words))
        logits, stops, shares = self._net.run(fed, frames)
        p_eos = np.array([probability(one) for one in stops[1:].float().cpu().numpy()], np.float32)
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        self._net.take(count)
        events, forced = self._told(frames[:count], shares.mean(0)), bool(p_eos[count - 1] < EOS_AT)
        spelled = np.array(fed.words) - fed.words[-1] + words.stop  # of all words: the end's symbol lies beyond them
        found = ForcedSegment(
            index=index,
            first=first,
            word=words.start,
            by_layer=by_word(shares[:, :count], spelled, words),
            p_eos=p_eos[:count],
            log_likelihood=self._net.likely(logits, frames)[:count],
            forced=forced,
            events=with_end(events, float(p_eos[count - 1]), forced=forced),
        )
        return found, events

    def _told(self, frames: np.ndarray, shares: np.ndarray) -> list[Event]:
        """What the row says of a sentence that takes these frames; ``shares`` [n + 1, T] of the net."""
        events = list[Event]()
        for k, frame in enumerate([*frames, frames[0]]):  # nothing is drawn any more where it is over
            self._row.want()
            turn = self._row.took(Drawn(frame[None], float(k == len(frames)), shares[k], True))
            events += (*turn.before, *turn.after)
        return [event for event in events if not isinstance(event, Frames)]
