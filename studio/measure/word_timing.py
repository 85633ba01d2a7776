"""Word times: agreement of two timings of a recording, and a check of one without a reference.

*The check* (``cut_check``) cuts the recording at a word boundary and transcribes both sides. After a correct cut, the
left side ends with the word before it and the right side begins with the word after it. A cut within a word makes the
recogniser write other words. Words that it does not recognise in the uncut recording are not judged. As a control, run
the check with shifted boundaries (``moved_s``): if as many hold, the check is insensitive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from studio.measure.statistics import REPEATS, BootstrapInterval, draw_counts, percentile_interval
from studio.measure.wer import scored_words

_MARKS = ".,?!;:\"'()[]-–—“”‘’"
Transcribe = Callable[[np.ndarray, int], str]


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
    """Check all boundaries between two words.

    Args:
        pcm: int16 [T].
        words: with their times, in order.
        transcribe: int16 [T] and rate to text.
        moved_s: shift of all cuts, as a control.

    Raises:
        NeedsPackage: whisper-normalizer is not installed.
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


def share_held(
    recordings: Sequence[Sequence[BoundaryCut]], *, repeats: int = REPEATS, seed: int = 0
) -> BootstrapInterval | None:
    """The share of judged boundaries that hold, with a bootstrap interval over recordings; None if none was judged."""
    judged = np.array([sum(one.holds is not None for one in cuts) for cuts in recordings], np.float64)
    held = np.array([sum(one.holds is True for one in cuts) for cuts in recordings], np.float64)
    held, judged = held[judged > 0], judged[judged > 0]
    if not len(judged):
        return None
    value = float(held.sum() / judged.sum())
    if len(judged) < 2:
        return BootstrapInterval(value, float("nan"), float("nan"))
    counts = draw_counts(len(judged), repeats, seed)
    return percentile_interval(value, counts @ held / (counts @ judged))
