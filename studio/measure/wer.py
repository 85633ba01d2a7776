"""Word error rate of transcripts, with bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from studio.core.errors import needs
from studio.measure.statistics import REPEATS, BootstrapInterval, draw_counts, percentile_interval

if TYPE_CHECKING:
    from whisper_normalizer.english import EnglishTextNormalizer

_PLAIN = str.maketrans({"\u2019": "'", **dict.fromkeys("()[]<>", " ")})


def scored_words(text: str) -> list[str]:
    """Words as they are scored, for references and transcripts alike. Raises NeedsPackage.

    Lower case, no marks, numbers in digits, contractions expanded, American spelling, no "um" (appendix C of Radford et
    al. 2022, the Whisper paper). Unlike in the paper, words in brackets count: in a text read aloud they are spoken.
    """
    words = _normaliser()(text.translate(_PLAIN)).split()
    return [word for word in words if any(mark.isalnum() for mark in word)]


@cache
def _normaliser() -> "EnglishTextNormalizer":
    with needs("word errors are counted with whisper-normalizer", "eval"):
        from whisper_normalizer.english import EnglishTextNormalizer
    return EnglishTextNormalizer()


@dataclass(frozen=True)
class WordErrors:
    """Error counts of one or more comparisons."""

    words: int
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per reference word; may exceed 1. NaN without a reference."""
        return self.errors / self.words if self.words else float("nan")

    def __add__(self, other: "WordErrors") -> "WordErrors":
        return WordErrors(
            self.words + other.words,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


def word_errors(reference: str, transcript: str) -> WordErrors:
    """Word errors of a transcript by the cheapest alignment."""
    (errors,) = word_errors_by_part(reference, transcript, [])
    return errors


def word_errors_by_part(reference: str, transcript: str, cuts: Sequence[int]) -> list[WordErrors]:
    """Word errors of each part of a text, cut before the words ``cuts``, by one alignment of the whole.

    An insertion counts for the part of the reference word after it (at the end, for the last part).
    """
    expected, recognised = scored_words(reference), scored_words(transcript)
    edges = [0, *cuts, len(expected)]
    assert edges == sorted(edges), "cuts must lie inside the text, in order"
    counts = [{"replace": 0, "delete": 0, "insert": 0} for _ in edges[1:]]
    with needs("word errors are counted with rapidfuzz", "eval"):
        from rapidfuzz.distance import Levenshtein
    for edit in Levenshtein.editops(expected, recognised):
        part = int(np.searchsorted(edges[1:-1], edit.src_pos, side="right"))
        counts[part][edit.tag] += 1
    return [
        WordErrors(last - first, count["replace"], count["delete"], count["insert"])
        for count, first, last in zip(counts, edges, edges[1:], strict=False)
    ]


def corpus_errors(each: Sequence[WordErrors]) -> WordErrors:
    """The sum of many sentences' errors; its rate is the corpus WER, not the mean of rates."""
    return sum(each, WordErrors(0))


def bootstrap_rate(each: Sequence[WordErrors], *, repeats: int = REPEATS, seed: int = 0) -> BootstrapInterval:
    """Corpus WER with a bootstrap percentile interval over sentences."""
    draws = draw_counts(len(each), repeats, seed)
    rates = draws @ _errors(each) / (draws @ _words(each))
    return percentile_interval(corpus_errors(each).rate, rates)


def bootstrap_difference(one: Sequence[WordErrors], other: Sequence[WordErrors]) -> BootstrapInterval:
    """Corpus WER of ``one`` minus that of ``other`` on the same sentences, with a paired bootstrap interval."""
    assert len(one) == len(other), "a paired interval needs the same sentences"
    draws = draw_counts(len(one))
    rates = draws @ _errors(one) / (draws @ _words(one)) - draws @ _errors(other) / (draws @ _words(other))
    return percentile_interval(corpus_errors(one).rate - corpus_errors(other).rate, rates)


def _errors(each: Sequence[WordErrors]) -> np.ndarray:
    return np.array([one.errors for one in each], np.float64)


def _words(each: Sequence[WordErrors]) -> np.ndarray:
    return np.array([one.words for one in each], np.float64)
