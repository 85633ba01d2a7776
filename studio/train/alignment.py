"""Phones of frames whose words are known, and the words' ends: a Viterbi path through each word's phonemes.

What a voice speaks has the ends of its words and not those of its phones. A phone is what it sounds like on average:
the mean and the deviation of each channel over its frames in a corpus that knows its phones (monophones of one state
and one Gaussian, as in any HMM aligner's first pass). Pauses may stand before and behind every word.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadFile
from studio.engine.alphabets import dmel
from studio.text.phonemes import pronounce
from studio.train.features import PHONES, Sentence, phone_of, read_features

PAUSE = PHONES.index("pau")
_LEAST_DEVIATION = 0.5  # of a level, in levels: a channel that hardly moves must not decide alone


@dataclass(frozen=True)
class Phonebook:
    """What each phone sounds like: mean and deviation of its levels, float64 [P, 80]; those never heard are NaN."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @staticmethod
    def of(sentences: Iterable[Sentence]) -> "Phonebook":
        """The averages of a corpus' frames. Raises BadFile where it has no pause, or no phone."""
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
        return Phonebook(mean, np.maximum(deviation, _LEAST_DEVIATION))

    @staticmethod
    def of_folder(features: Path) -> "Phonebook":
        """The averages of all shards of a folder. Raises BadFile."""
        paths = sorted(features.glob("*.safetensors"))
        return Phonebook.of(sentence for path in paths for sentence in read_features(path)[0])

    def score(self, levels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Log likelihood of each phone in each frame, [F, P]; a phone never heard is as likely as the least likely."""
        away = (levels[:, None].astype(np.float64) - self.mean) / self.deviation
        found = -(0.5 * away**2 + np.log(self.deviation)).sum(-1)
        return np.where(np.isnan(found), np.nanmin(found, axis=1, keepdims=True), found)


def align(sentence: Sentence, book: Phonebook) -> Sentence | None:
    """A sentence with the phone of each frame; a word ends with its last phone, and not with the pause behind it.

    Args:
        sentence: whose words' ends are known, a pause behind a word being the word's; its phones are not looked at.

    Returns:
        None where a word has no phonemes, or fewer frames than phonemes.
    """
    score = book.score(sentence.levels)
    phones, ends, begin = np.zeros(len(sentence.levels), np.uint8), list[int](), 0
    for said, end in zip(pronounce(sentence.words), sentence.word_ends, strict=True):
        mine = [phone for name in said if (phone := phone_of(name)) is not None and phone != PAUSE]
        if not mine or end - begin < len(mine):
            return None
        states = np.array([PAUSE, *mine, PAUSE])
        phones[begin:end] = states[walk(score[begin:end, states])]
        ends.append(begin + int(np.flatnonzero(phones[begin:end] != PAUSE)[-1]) + 1)
        begin = end
    return replace(sentence, word_ends=ends, phones=phones)


def walk(score: NDArray[np.float64]) -> NDArray[np.int64]:
    """The best path through states in order: the state of each frame, int64 [F].

    Args:
        score: of each state in each frame, [F, S]. The first and the last state, which are pauses, may take no frame;
            there are no more than F others. Where staying in a state is as good as leaving it, it is not left.
    """
    best = np.full(score.shape, -np.inf)
    came = np.zeros(score.shape, bool)  # from the state before, rather than from itself
    best[0, :2] = score[0, :2]
    for frame in range(1, len(score)):
        moved = np.concatenate(([-np.inf], best[frame - 1, :-1]))
        came[frame] = moved > best[frame - 1]
        best[frame] = np.maximum(moved, best[frame - 1]) + score[frame]
    state = score.shape[1] - (1 if best[-1, -1] > best[-1, -2] else 2)
    out = np.empty(len(score), np.int64)
    for frame in range(len(score) - 1, -1, -1):
        out[frame] = state
        state -= int(came[frame, state])
    return out
