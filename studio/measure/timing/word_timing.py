"""Agreement of two word timings of a recording."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_MARKS = ".,?!;:\"'()[]-–—“”‘’"


@dataclass(frozen=True)
class SpokenSpan:
    """A word and its time in a recording."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class TimingScore:
    """Agreement of word times.

    Attributes:
        hits: words that match and whose start and end both lie within the collar.
        matched: words that match, at any time.
        found, true: numbers of words.
        miou: mean intersection over union of the reference words; words without a match count as 0.
        start_s, end_s: |difference| of each matched word, in order.
    """

    hits: int
    matched: int
    found: int
    true: int
    miou: float
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall of the hits."""
        return 2.0 * self.hits / (self.found + self.true) if self.found + self.true else 0.0


def timing_score(found: Sequence[SpokenSpan], true: Sequence[SpokenSpan], collar_s: float) -> TimingScore:
    """F1 with a collar, and mIoU, as in paper 002 (appendix E, after Wagner et al. 2024).

    Words match by their letters, in order; a match outside the collar is an error on both sides.

    Args:
        true: the reference.
        collar_s: maximum distance of the start, and of the end.
    """
    places = matched_words([one.text for one in found], [one.text for one in true])
    pairs = [(found[i], true[j]) for i, j in places]
    starts = tuple(abs(one.start_s - other.start_s) for one, other in pairs)
    ends = tuple(abs(one.end_s - other.end_s) for one, other in pairs)
    # 1 ns of tolerance for rounding.
    hits = sum(max(distances) <= collar_s + 1e-9 for distances in zip(starts, ends, strict=True))
    overlap = sum(_overlap(one, other) for one, other in pairs)
    return TimingScore(hits, len(pairs), len(found), len(true), overlap / len(true) if true else 0.0, starts, ends)


def matched_words(found: Sequence[str], true: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs (in ``found``, in ``true``) of words with the same letters, in order."""
    matcher = SequenceMatcher(None, [letters(one) for one in found], [letters(one) for one in true], False)
    return [(block.a + k, block.b + k) for block in matcher.get_matching_blocks() for k in range(block.size)]


def _overlap(one: SpokenSpan, other: SpokenSpan) -> float:
    """Intersection over union of two spans."""
    both_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
    either_s = max(one.end_s, other.end_s) - min(one.start_s, other.start_s)
    return max(0.0, both_s) / either_s if either_s > 0 else 0.0


def letters(word: str) -> str:
    """A word in lower case, without surrounding marks."""
    return word.strip(_MARKS).lower()
