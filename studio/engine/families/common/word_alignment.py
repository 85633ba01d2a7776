"""Online alignment of words to a voice's own frames, for families whose nets do not report word boundaries.

A net of two layers reads a window of dMel frames and scores each letter. The Viterbi algorithm follows the letters of
the words that were fed so far, with an optional silence between two words. A word's start is reported when the best
path has been in it for ``LAG_FRAMES``; the audio is not delayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PAST_FRAMES, AHEAD_FRAMES = 3, 2  # frames of the window before and after the scored one
SILENCE = 26  # after the letters a to z
SYMBOLS = 27
LAG_FRAMES = 4
STAY, NEXT, SKIP = -0.6, -0.7, -2.0  # log weights: the same letter again, the next one, the one after it
_NEVER = -1e9
_HALF_LEVELS = 7.5  # levels 0 to 15 become -1 to 1


@dataclass(frozen=True)
class LetterNet:
    """Scores of letters: ``out @ relu(hidden @ window + hidden_bias) + out_bias``.

    Attributes:
        hidden: float32 [H, 6 * 80]; hidden_bias: [H].
        out: float32 [27, H]; out_bias: [27], with the log share of each letter in speech subtracted.
    """

    hidden: np.ndarray
    hidden_bias: np.ndarray
    out: np.ndarray
    out_bias: np.ndarray

    def scores(self, window: np.ndarray) -> np.ndarray:
        """Scores [27] of the letters at a frame, from the levels around it, uint8 [6, 80]."""
        inside = self.hidden @ scaled(window).ravel() + self.hidden_bias
        return self.out @ np.maximum(inside, 0.0) + self.out_bias


def scaled(levels: np.ndarray) -> np.ndarray:
    """Levels scaled as input of the net, float32."""
    return levels.astype(np.float32) / _HALF_LEVELS - 1.0


def letters_of(word: str) -> list[int]:
    """The letters of a spoken word, 0 for a; at least one letter."""
    return [ord(char) - ord("a") for char in word if "a" <= char <= "z"] or [0]


class WordAlignment:
    """The alignment of one passage, from its first frame on.

    States are the letters of the words, with a silence before the first and after each word. States before the newest
    word whose start was reported are dropped.
    """

    def __init__(self, net: LetterNet) -> None:
        self._net = net
        self._window: list[np.ndarray] = []  # levels of the last frames
        self._frames = 0  # number of scored frames
        self._symbols = np.array([SILENCE])
        self._owners = np.array([-1])  # the word of each state; -1 in silence
        self._scores = np.zeros(1)
        self._starts = np.full((1, 0), -1)  # for each state: first frames of the words from ``reported`` on
        self.words = 0  # number of words added
        self.reported = 0  # number of words whose start was returned

    def copy(self) -> "WordAlignment":
        """An independent copy."""
        other = WordAlignment(self._net)
        vars(other).update(vars(self) | {"_window": [*self._window]})  # arrays are replaced, never changed
        return other

    def add_words(self, words: Sequence[str]) -> None:
        """Append words."""
        for word in words:
            letters = letters_of(word)
            self._symbols = np.concatenate((self._symbols, letters, [SILENCE]))
            self._owners = np.concatenate((self._owners, np.full(len(letters), self.words), [-1]))
            self._scores = np.concatenate((self._scores, np.full(len(letters) + 1, _NEVER)))
            rows = np.pad(self._starts, ((0, len(letters) + 1), (0, 1)), constant_values=-1)
            self._starts, self.words = rows, self.words + 1

    def add(self, levels: np.ndarray) -> list[tuple[int, int]]:
        """The passage's next frame, uint8 [80]. Returns (word, first frame) of words whose start is certain now."""
        if not self._window:
            self._window = [levels] * PAST_FRAMES
        self._window.append(levels)
        if len(self._window) <= PAST_FRAMES + AHEAD_FRAMES:
            return []
        self._score(np.stack(self._window))
        del self._window[0]
        best = self._starts[self._scores.argmax()]
        is_certain = (best >= 0) & (best <= self._frames - 1 - LAG_FRAMES)
        return self._report([int(frame) for frame in best[: int(is_certain.cumprod().sum())]])

    def finish(self) -> list[tuple[int, int]]:
        """(word, first frame) of all remaining words at the passage's end; fewer if its frames do not reach them."""
        for _ in range(AHEAD_FRAMES if self._window else 0):
            self._window.append(self._window[-1])
            if len(self._window) > PAST_FRAMES + AHEAD_FRAMES:
                self._score(np.stack(self._window))
                del self._window[0]
        last = self._starts[len(self._scores) - 2 + self._scores[-2:].argmax()]
        found = last if self._scores[-2:].max() > _NEVER / 2 else self._starts[self._scores.argmax()]
        return self._report([int(frame) for frame in found[: int((found >= 0).cumprod().sum())]])

    def _score(self, window: np.ndarray) -> None:
        """One frame of the Viterbi algorithm."""
        scores, count = self._scores, len(self._scores)
        is_silence = self._symbols == SILENCE
        reached = np.full((3, count), 2 * _NEVER)
        reached[0] = scores + STAY
        reached[1, 1:] = scores[:-1] + NEXT
        # The path may skip a silence, and a letter followed by another letter of its word.
        skipped = np.where(is_silence[1:-1], NEXT, np.where(is_silence[2:], 2 * _NEVER, SKIP))
        reached[2, 2:] = scores[:-2] + skipped
        step = reached.argmax(0)
        source = np.arange(count) - step
        scores = reached[step, np.arange(count)] + self._net.scores(window)[self._symbols]
        starts = self._starts[source]
        entered = np.flatnonzero((self._owners >= self.reported) & (self._owners != self._owners[source]))
        starts[entered, self._owners[entered] - self.reported] = self._frames
        self._scores = np.maximum(scores - scores.max(), _NEVER)
        self._starts = starts
        self._frames += 1

    def _report(self, frames: list[int]) -> list[tuple[int, int]]:
        """Fix the starts of the next words, and drop the states before the last of them."""
        if not frames:
            return []
        first = self.reported
        self.reported += len(frames)
        keep = int(np.flatnonzero(self._owners == self.reported - 1)[0])
        self._symbols, self._owners, self._scores = self._symbols[keep:], self._owners[keep:], self._scores[keep:]
        self._starts = self._starts[keep:, len(frames) :]
        return [(first + k, frame) for k, frame in enumerate(frames)]
