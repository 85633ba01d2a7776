"""Word and segment boundaries: scores against a reference, consensus of several aligners, a check without a reference.

*The check* (``cut_check``) cuts the recording at a word boundary and transcribes both sides. After a correct cut, the
left side ends with the word before it and the right side begins with the word after it. A cut within a word makes the
recogniser write other words. Words that it does not recognise in the uncut recording are not judged. As a control, run
the check with shifted boundaries (``moved_s``): if as many hold, the check is insensitive.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from studio.measure.statistics import BootstrapInterval, draw_counts, percentile_interval
from studio.measure.wer import scored_words

_MARKS = ".,?!;:\"'()[]-–—“”‘’"
Transcribe = Callable[[np.ndarray, int], str]
_ALIGNER_REPEATS = 1_000


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
        predicted, true: numbers of words.
        miou: mean intersection over union of the reference words; words without a match count as 0.
        start_s, end_s: |difference| of each matched word, in order.
    """

    hits: int
    matched: int
    predicted: int
    true: int
    miou: float
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall of the hits."""
        return 2.0 * self.hits / (self.predicted + self.true) if self.predicted + self.true else 0.0


def timing_score(predicted: Sequence[SpokenSpan], true: Sequence[SpokenSpan], collar_s: float) -> TimingScore:
    """F1 with a collar, and mIoU, as in paper 002 (appendix E, after Wagner et al. 2024).

    Words match by their letters, in order; a match outside the collar is an error on both sides.

    Args:
        true: the reference.
        collar_s: maximum distance of the start, and of the end.
    """
    index_pairs = matched_words([one.text for one in predicted], [one.text for one in true])
    pairs = [(predicted[i], true[j]) for i, j in index_pairs]
    starts = tuple(abs(one.start_s - other.start_s) for one, other in pairs)
    ends = tuple(abs(one.end_s - other.end_s) for one, other in pairs)
    # 1 ns of tolerance for rounding.
    hits = sum(max(distances) <= collar_s + 1e-9 for distances in zip(starts, ends, strict=True))
    overlap = sum(_overlap(one, other) for one, other in pairs)
    return TimingScore(hits, len(pairs), len(predicted), len(true), overlap / len(true) if true else 0.0, starts, ends)


def matched_words(predicted: Sequence[str], true: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs (in ``predicted``, in ``true``) of words with the same letters, in order."""
    matcher = SequenceMatcher(None, [letters(one) for one in predicted], [letters(one) for one in true], False)
    return [(block.a + k, block.b + k) for block in matcher.get_matching_blocks() for k in range(block.size)]


def _overlap(one: SpokenSpan, other: SpokenSpan) -> float:
    """Intersection over union of two spans."""
    both_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
    either_s = max(one.end_s, other.end_s) - min(one.start_s, other.start_s)
    return max(0.0, both_s) / either_s if either_s > 0 else 0.0


def letters(word: str) -> str:
    """A word in lower case, without surrounding marks."""
    return word.strip(_MARKS).lower()


@dataclass(frozen=True)
class BoundaryCut:
    """One boundary between two words.

    Attributes:
        word: index of the word before it.
        left, right: whether the word before, and the one after, was recognised beside the cut; None if the recogniser
            missed one of them in the uncut recording.
    """

    word: int
    left: bool | None
    right: bool | None

    @property
    def holds(self) -> bool | None:
        """Whether both sides were recognised; None if the boundary cannot be judged."""
        return None if self.left is None or self.right is None else self.left and self.right


def cut_check(
    pcm: np.ndarray, rate_hz: int, words: Sequence[SpokenSpan], transcribe: Transcribe, *, moved_s: float = 0.0
) -> list[BoundaryCut]:
    """Check all boundaries between two words. Raises NeedsPackage.

    Args:
        pcm: int16 [T].
        words: with their times, in order.
        transcribe: int16 [T] and rate to text.
        moved_s: shift of all cuts, as a control.
    """
    texts = [one.text for one in words]
    whole = scored_words(" ".join(texts))
    matcher = SequenceMatcher(None, scored_words(transcribe(pcm, rate_hz)), whole, False)
    known = {block.b + k for block in matcher.get_matching_blocks() for k in range(block.size)}
    cuts: list[BoundaryCut] = []
    for i, (one, other) in enumerate(pairwise(words)):
        before, after = (scored_words(" ".join(part)) for part in (texts[: i + 1], texts[i + 1 :]))
        at = len(before)
        # Words that are normalised together ("twenty" "one") have no boundary to judge.
        if before + after != whole or not before or not after or not {at - 1, at} <= known:
            cuts.append(BoundaryCut(i, None, None))
            continue
        end, start = (
            min(len(pcm), max(0, round((edge_s + moved_s) * rate_hz))) for edge_s in (one.end_s, other.start_s)
        )
        left, right = scored_words(transcribe(pcm[:end], rate_hz)), scored_words(transcribe(pcm[start:], rate_hz))
        cuts.append(BoundaryCut(i, left[-1:] == before[-1:], right[:1] == after[:1]))
    return cuts


def share_held(recordings: Sequence[Sequence[BoundaryCut]]) -> BootstrapInterval | None:
    """The share of judged boundaries that hold, with a bootstrap interval over recordings; None if none was judged."""
    judged = np.array([sum(one.holds is not None for one in cuts) for cuts in recordings], np.float64)
    held = np.array([sum(one.holds is True for one in cuts) for cuts in recordings], np.float64)
    held, judged = held[judged > 0], judged[judged > 0]
    if not len(judged):
        return None
    value = float(held.sum() / judged.sum())
    if len(judged) < 2:
        return BootstrapInterval(value)
    counts = draw_counts(len(judged))
    return percentile_interval(value, counts @ held / (counts @ judged))


@dataclass(frozen=True)
class BoundaryScore:
    """Counts of boundaries and of one-to-one hits within a collar."""

    hits: int
    predicted: int
    true: int

    @property
    def precision(self) -> float:
        """Hits per predicted boundary."""
        return self.hits / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Hits per true boundary."""
        return self.hits / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.hits / (self.predicted + self.true) if self.predicted + self.true else 0.0

    def __add__(self, other: "BoundaryScore") -> "BoundaryScore":
        return BoundaryScore(self.hits + other.hits, self.predicted + other.predicted, self.true + other.true)


def boundary_score(predicted_s: Sequence[float], true_s: Sequence[float], collar_s: float) -> BoundaryScore:
    """The maximum number of one-to-one pairs of boundaries within ``collar_s`` of each other."""
    predicted, true = sorted(predicted_s), sorted(true_s)
    hits = i = j = 0
    while i < len(predicted) and j < len(true):
        # 1 ns of tolerance for rounding.
        if abs(predicted[i] - true[j]) <= collar_s + 1e-9:
            hits, i, j = hits + 1, i + 1, j + 1
        elif predicted[i] < true[j]:
            i += 1
        else:
            j += 1
    return BoundaryScore(hits, len(predicted), len(true))


@dataclass(frozen=True)
class BoundaryDistances:
    """Distances of boundaries from the true ones; missing ones are infinite."""

    count: int
    missing: int
    median_s: float
    p90_s: float


def distances(predicted_s: Sequence[float | None], true_s: Sequence[float]) -> BoundaryDistances:
    """Median and 90th percentile of |predicted - true| by pairs; None is a miss and counts as infinity."""
    away = np.array(
        [
            np.inf if predicted is None else abs(predicted - true)
            for predicted, true in zip(predicted_s, true_s, strict=True)
        ],
        np.float64,
    )
    if not len(away):
        return BoundaryDistances(0, 0, float("nan"), float("nan"))
    # An observed value: infinity cannot be interpolated.
    median, p90 = np.quantile(away, [0.5, 0.9], method="inverted_cdf")
    return BoundaryDistances(len(away), int(np.isinf(away).sum()), float(median), float(p90))


def speaks_exactly(span: tuple[float, float], words: Sequence[int], word_spans: Sequence[tuple[float, float]]) -> bool:
    """Whether [start, end) contains the midpoints of exactly ``words``; all in one unit.

    Args:
        span: start and end of a segment.
        words: indices of the segment's words.
        word_spans: start and end of every word of the text, in order.
    """
    start, end = span
    inside = {i for i, (first, last) in enumerate(word_spans) if start <= (first + last) / 2.0 < end}
    return inside == set(words)


@dataclass(frozen=True)
class WordBoundaries:
    """A word's start and end in seconds; None if no aligner found the word."""

    word: str
    start: BootstrapInterval | None
    end: BootstrapInterval | None


def word_boundaries(
    words: Sequence[str], accounts: Mapping[str, Sequence[Sequence[SpokenSpan]]], *, seed: int = 0
) -> list[WordBoundaries]:
    """The median over aligners of each boundary, with a bootstrap interval over aligners.

    The interval shows the variance between aligners (or takes), not their common errors. An aligner's value is the
    median of its takes. Each repeat draws aligners and then takes with replacement (two levels: Davison & Hinkley 1997,
    section 3.8; percentiles: Efron & Tibshirani 1993, chapter 13). With one aligner only takes are drawn; with one take
    of a word, the bounds are NaN.

    Args:
        words: of the text, as spoken.
        accounts: takes of each aligner, each the words with their times; words match by their letters, in order.
    """
    placed = [_placed(words, takes) for takes in accounts.values() if takes]
    if not placed or not words:
        return [WordBoundaries(word, None, None) for word in words]
    rng = np.random.default_rng(seed)
    values = _median(np.stack([_median(takes) for takes in placed]))
    chosen = rng.integers(len(placed), size=(_ALIGNER_REPEATS, len(placed)))
    slots = np.empty((len(placed), _ALIGNER_REPEATS, 2 * len(words)))
    for slot in range(len(placed)):
        for number, takes in enumerate(placed):
            chosen_here = np.flatnonzero(chosen[:, slot] == number)
            sampled_takes = takes[rng.integers(len(takes), size=(len(chosen_here), len(takes)))]
            slots[slot, chosen_here] = _median(sampled_takes.swapaxes(0, 1))
    draws = _median(slots)
    observations = np.isfinite(np.concatenate(placed)).sum(axis=0)
    edges = [_interval(values[k], draws[:, k], observations[k] == 1) for k in range(2 * len(words))]
    return [WordBoundaries(word, edges[2 * k], edges[2 * k + 1]) for k, word in enumerate(words)]


def _placed(words: Sequence[str], takes: Sequence[Sequence[SpokenSpan]]) -> np.ndarray:
    """Starts and ends, alternating: float64 [takes, 2 words], NaN where a take lacks the word."""
    edges = np.full((len(takes), 2 * len(words)), np.nan)
    for row, take in zip(edges, takes, strict=True):
        for i, j in matched_words([one.text for one in take], words):
            row[2 * j : 2 * j + 2] = take[i].start_s, take[i].end_s
    return edges


def _median(values: np.ndarray) -> np.ndarray:
    """Median over the first axis, ignoring NaN; NaN, without a warning, if there are only NaNs."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = np.isfinite(values).sum(axis=0)
    low, high = (np.maximum(at, 0)[None] for at in ((count - 1) // 2, count // 2 - (count == 0)))
    return (np.take_along_axis(ordered, low, 0)[0] + np.take_along_axis(ordered, high, 0)[0]) / 2.0


def _interval(value: float, draws: np.ndarray, single: bool) -> BootstrapInterval | None:
    if not np.isfinite(value):
        return None
    known = draws[np.isfinite(draws)]
    if single or not len(known):
        return BootstrapInterval(float(value))
    return percentile_interval(value, known)
