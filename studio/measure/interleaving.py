"""Distance of text and speech in n:m interleaving: the measures of paper 003 (section 6.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

MOST_WORDS = 72  # words of a training sample in the paper


@dataclass(frozen=True)
class AlignedText:
    """A text with its alignment to speech.

    Attributes:
        text_tokens: number of tokens of each word.
        word_ends: the speech token before which each word ends.
        speech_tokens: of the whole sample, at least ``word_ends[-1]``.
    """

    text_tokens: Sequence[int]
    word_ends: Sequence[int]
    speech_tokens: int


@dataclass(frozen=True)
class WordMeasures:
    """Measures of a sample's words, float64 [words] each; NaN for a word without a speech token.

    Attributes:
        distance: D, the mean of d(x, y) over all pairs of the word's text tokens x and speech tokens y: index of y
            minus index of x in the interleaved sequence, negative where speech precedes its text.
        future_words: A, the mean number of later words whose last token precedes a speech token of this one.
        precedes: F, the share of pairs in which speech precedes its text (d < 0).
    """

    distance: np.ndarray
    future_words: np.ndarray
    precedes: np.ndarray


@dataclass(frozen=True)
class PositionStatistics:
    """The measures by word position, float64 [positions]; NaN beyond the longest sample.

    Attributes:
        mean_distance, std_distance: mu and sigma of D.
        future_words, precedes: the means of A and F.
        samples: number of samples with a word there.
    """

    mean_distance: np.ndarray
    std_distance: np.ndarray
    future_words: np.ndarray
    precedes: np.ndarray
    samples: np.ndarray


def text_positions(text_tokens: int, speech_tokens: int, n: int, m: int) -> np.ndarray:
    """Indices of the text tokens in the interleaved sequence (equation 1), int64 [text_tokens]."""
    i = np.arange(text_tokens)
    return i + np.minimum(speech_tokens, i // n * m)


def speech_positions(text_tokens: int, speech_tokens: int, n: int, m: int) -> np.ndarray:
    """Indices of the speech tokens in the interleaved sequence (equation 1), int64 [speech_tokens]."""
    j = np.arange(speech_tokens)
    return j + np.minimum(text_tokens, (j // m + 1) * n)


def word_measures(text: AlignedText, n: int, m: int, closing_tokens: int = 1) -> WordMeasures:
    """D, A and F of every word of a sample.

    Args:
        closing_tokens: text tokens after the words, such as the end token (section 4.3).
    """
    count = len(text.text_tokens)
    ends = np.cumsum(text.text_tokens)
    tokens = int(ends[-1]) + closing_tokens
    x = text_positions(tokens, text.speech_tokens, n, m)
    y = speech_positions(tokens, text.speech_tokens, n, m)
    complete = x[ends - 1]  # index of each word's last token
    measures = np.full((3, count), np.nan)
    for word in range(count):
        word_text = x[ends[word] - text.text_tokens[word] : ends[word]]
        word_speech = y[text.word_ends[word - 1] if word else 0 : text.word_ends[word]]
        if not (len(word_text) and len(word_speech)):
            continue
        seen = np.searchsorted(complete, word_speech)  # complete words before each
        measures[:, word] = (
            word_speech.mean() - word_text.mean(),
            np.maximum(0, seen - (word + 1)).mean(),
            (word_speech[:, None] < word_text).mean(),
        )
    return WordMeasures(*measures)


def position_statistics(
    texts: Iterable[AlignedText], n: int, m: int, positions: int = MOST_WORDS, closing_tokens: int = 1
) -> PositionStatistics:
    """The measures by word position over a training set (figure 4)."""
    rows: list[np.ndarray] = []
    for text in texts:
        one = word_measures(text, n, m, closing_tokens)
        row = np.full((3, positions), np.nan)
        values = np.stack((one.distance, one.future_words, one.precedes))[:, :positions]
        row[:, : values.shape[1]] = values
        rows.append(row)
    table = np.stack(rows) if rows else np.full((0, 3, positions), np.nan)
    samples = (~np.isnan(table[:, 0])).sum(0)
    divisor = np.where(samples, samples, np.nan)
    means = np.nansum(table, axis=0) / divisor
    spread = np.sqrt(np.nansum((table[:, 0] - means[0]) ** 2, axis=0) / divisor)
    return PositionStatistics(means[0], spread, means[1], means[2], samples)
