"""A check of word boundaries that needs no truth: cut there, and let a recogniser hear both sides.

A cut in the right place leaves the word before it whole at the end of the left side, and the word after it whole at the
beginning of the right one. A cut within a word leaves half a word on either side, which a recogniser writes as another
word or as none. What it does not hear in the uncut recording is its own fault, and is not judged. How much it sees is
told by the same check with every boundary moved (``moved_s``): where that holds as often, the check says nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from studio.measure.bootstrap import REPEATS, Interval, draw_counts, percentile_interval
from studio.measure.timing.word_timing import SpokenSpan
from studio.measure.wer import scored_words

Hear = Callable[[np.ndarray, int], str]


@dataclass(frozen=True)
class Cut:
    """One boundary between two words.

    Attributes:
        word: the place of the word before it.
        left, right: whether the word before, and the one after, was heard beside the cut; None where the recogniser
            did not hear the two in the uncut recording, so that nothing can be said.
    """

    word: int
    left: bool | None
    right: bool | None

    @property
    def holds(self) -> bool | None:
        """Whether both sides were heard; None where the boundary cannot be judged."""
        return None if self.left is None or self.right is None else self.left and self.right


def cut_check(
    pcm: np.ndarray, rate_hz: int, words: Sequence[SpokenSpan], hear: Hear, *, moved_s: float = 0.0
) -> list[Cut]:
    """Every boundary between two words: the left side ends with the first, the right one begins with the second.

    Args:
        pcm: int16 [T].
        words: with their times, in order.
        hear: what a recogniser writes of int16 [T] at a rate.
        moved_s: by how much every cut is moved, as a control.

    Raises:
        NeedsPackage: whisper-normalizer is not installed.
    """
    texts = [one.text for one in words]
    whole = scored_words(" ".join(texts))
    matcher = SequenceMatcher(None, scored_words(hear(pcm, rate_hz)), whole, False)
    known = {block.b + k for block in matcher.get_matching_blocks() for k in range(block.size)}
    found: list[Cut] = []
    for i, (one, other) in enumerate(pairwise(words)):
        before, after = (scored_words(" ".join(part)) for part in (texts[: i + 1], texts[i + 1 :]))
        at = len(before)
        # Numbers that are written as one ("twenty" "one") have no boundary that could be judged.
        if before + after != whole or not before or not after or not {at - 1, at} <= known:
            found.append(Cut(i, None, None))
            continue
        end, start = (
            min(len(pcm), max(0, round((edge_s + moved_s) * rate_hz))) for edge_s in (one.end_s, other.start_s)
        )
        left, right = scored_words(hear(pcm[:end], rate_hz)), scored_words(hear(pcm[start:], rate_hz))
        found.append(Cut(i, left[-1:] == before[-1:], right[:1] == after[:1]))
    return found


def share_held(recordings: Sequence[Sequence[Cut]], *, repeats: int = REPEATS, seed: int = 0) -> Interval | None:
    """The share of judged boundaries that hold, with a bootstrap interval over recordings; None without any."""
    judged = np.array([sum(one.holds is not None for one in cuts) for cuts in recordings], np.float64)
    held = np.array([sum(one.holds is True for one in cuts) for cuts in recordings], np.float64)
    held, judged = held[judged > 0], judged[judged > 0]
    if not len(judged):
        return None
    value = float(held.sum() / judged.sum())
    if len(judged) < 2:
        return Interval(value, float("nan"), float("nan"))
    counts = draw_counts(len(judged), repeats, seed)
    return percentile_interval(value, counts @ held / (counts @ judged))
