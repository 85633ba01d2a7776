"""Forced alignment of phones within known word times: a Viterbi path through each word's phonemes.

A voice's speech has word ends but no phone times. The acoustic model is a monophone HMM with one state and one diagonal
Gaussian per phone, estimated on a corpus with known phones. Pauses are allowed before and after every word.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadFile
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.features import PHONES, Sentence, phone_of, read_features

PAUSE = PHONES.index("pau")
_MIN_DEVIATION = 0.5  # in levels: a nearly constant channel must not dominate


@dataclass(frozen=True)
class PhoneModel:
    """Mean and deviation of each phone's levels, float64 [P, 80]; NaN for phones that the corpus lacks."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @staticmethod
    def estimate(sentences: Iterable[Sentence]) -> "PhoneModel":
        """Estimate from labelled sentences. Raises BadFile if these have no pauses or no phones."""
        count = np.zeros(len(PHONES))
        total, squares = (np.zeros((len(PHONES), dmel.CHANNELS)) for _ in range(2))
        for s in sentences:
            levels = s.levels.astype(np.float64)
            np.add.at(count, s.phones, 1)
            np.add.at(total, s.phones, levels)
            np.add.at(squares, s.phones, levels**2)
        if count[PAUSE] == 0 or (count > 0).sum() < 2:
            raise BadFile(
                "the corpus has no pauses or no phones to align by", "name a folder of `studio train features`"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count[:, None]
            deviation = np.sqrt(np.maximum(squares / count[:, None] - mean**2, 0.0))
        return PhoneModel(mean, np.maximum(deviation, _MIN_DEVIATION))

    @staticmethod
    def load(features: Path) -> "PhoneModel":
        """Estimate from all shards of a folder. Raises BadFile."""
        paths = sorted(features.glob("*.safetensors"))
        return PhoneModel.estimate(sentence for path in paths for sentence in read_features(path)[0])

    def score(self, levels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Log likelihood of each phone in each frame, [F, P]; an unknown phone gets the lowest of the others."""
        away = (levels[:, None].astype(np.float64) - self.mean) / self.deviation
        score = -(0.5 * away**2 + np.log(self.deviation)).sum(-1)
        return np.where(np.isnan(score), np.nanmin(score, axis=1, keepdims=True), score)


def align(sentence: Sentence, model: PhoneModel) -> Sentence | None:
    """Set the phone of each frame, and move word ends from the end of a pause to the end of the last phone.

    Args:
        sentence: word ends include the pause after the word; phones are ignored.

    Returns:
        None if a word has no phonemes, or fewer frames than phonemes.
    """
    score = model.score(sentence.levels)
    phones, ends, begin = np.zeros(len(sentence.levels), np.uint8), list[int](), 0
    for names, end in zip(pronounce(sentence.words), sentence.word_ends, strict=True):
        states = [phone for name in names if (phone := phone_of(name)) is not None and phone != PAUSE]
        if not states or end - begin < len(states):
            return None
        states = np.array([PAUSE, *states, PAUSE])
        phones[begin:end] = states[best_path(score[begin:end, states])]
        ends.append(begin + int(np.flatnonzero(phones[begin:end] != PAUSE)[-1]) + 1)
        begin = end
    return replace(sentence, word_ends=ends, phones=phones)


def best_path(score: NDArray[np.float64]) -> NDArray[np.int64]:
    """The best monotonic path through the states: the state of each frame, int64 [F]. Ties stay in the state.

    Args:
        score: of each state in each frame, [F, S]. The first and the last state are optional; at most F others.
    """
    best = np.full(score.shape, -np.inf)
    entered = np.zeros(score.shape, bool)  # from the previous state rather than from itself
    best[0, :2] = score[0, :2]
    for frame in range(1, len(score)):
        moved = np.concatenate(([-np.inf], best[frame - 1, :-1]))
        entered[frame] = moved > best[frame - 1]
        best[frame] = np.maximum(moved, best[frame - 1]) + score[frame]
    state = score.shape[1] - (1 if best[-1, -1] > best[-1, -2] else 2)
    out = np.empty(len(score), np.int64)
    for frame in range(len(score) - 1, -1, -1):
        out[frame] = state
        state -= int(entered[frame, state])
    return out
