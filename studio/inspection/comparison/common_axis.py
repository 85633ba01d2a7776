"""Match the words of utterances, and map them to a common time axis, stretched word by word or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from studio.core.clips import to_float
from studio.core.errors import BadText
from studio.measure.signal import active_level_db, mel_filters
from studio.measure.word_timing import SpokenSpan, letters

MAX_CELLS = 10_000_000  # of the table of two texts: 3,100 words each, without their common ends


@dataclass(frozen=True)
class TimeMap:
    """Piecewise linear map between an utterance's own time and a common axis.

    Attributes:
        axis_s, own_s: float64 [K], knots on the axis and in the utterance's own sound, neither decreasing. Where
            ``own_s`` is constant, the utterance lacks words of the others; where ``axis_s`` is, they lack its words.
    """

    axis_s: np.ndarray
    own_s: np.ndarray

    def own(self, axis_s: np.ndarray) -> np.ndarray:
        """Convert axis times to times of its sound; extrapolated with slope 1."""
        return _interpolate(axis_s, self.axis_s, self.own_s)

    def axis(self, own_s: np.ndarray) -> np.ndarray:
        """Convert times of its sound to axis times."""
        return _interpolate(own_s, self.own_s, self.axis_s)


def unstretched(lengths_s: Sequence[float]) -> list[TimeMap]:
    """Identity maps."""
    return [TimeMap(np.array([0.0, length_s]), np.array([0.0, length_s])) for length_s in lengths_s]


def stretched(
    words: Sequence[Sequence[SpokenSpan]], matches: Sequence[Sequence[tuple[int, int]]], lengths_s: Sequence[float]
) -> list[TimeMap]:
    """Maps to an axis on which each matched word, and each gap between two, has the mean length over utterances.

    The first utterance is the reference. A word that another utterance lacks falls into the gap between its neighbours.

    Args:
        words: of each utterance, in order of time, without overlaps.
        matches: of each utterance, pairs (index in the reference's words, index in its own), in order; the identity for
            the reference.
        lengths_s: of each sound.
    """
    edges = [_edges(list_of, length_s) for list_of, length_s in zip(words, lengths_s, strict=True)]
    knots = [_knots(pairs, len(words[0]), len(own)) for pairs, own in zip(matches, words, strict=True)]
    spent: list[list[float]] = [[] for _ in range(2 * len(words[0]) + 1)]  # of each step between two edges
    for own_s, known in zip(edges, knots, strict=True):
        for (first, mine), (last, next_mine) in pairwise(known):
            if last == first + 1:
                spent[first].append(float(own_s[next_mine] - own_s[mine]))
    at_s = np.concatenate([[0.0], np.cumsum([float(np.mean(each)) for each in spent])])
    return [
        TimeMap(at_s[[edge for edge, _ in known]], own_s[[mine for _, mine in known]])
        for own_s, known in zip(edges, knots, strict=True)
    ]


def _edges(words: Sequence[SpokenSpan], length_s: float) -> np.ndarray:
    """Start of the sound, starts and ends of the words, end of the sound: float64 [2W + 2], not decreasing."""
    inner = [at_s for word in words for at_s in (word.start_s, word.end_s)]
    return np.maximum.accumulate(np.clip([0.0, *inner, length_s], 0.0, length_s))


def _knots(pairs: Sequence[tuple[int, int]], reference: int, own: int) -> list[tuple[int, int]]:
    """Edges of the reference that an utterance shares, each with its own edge."""
    inner = [(2 * i + side, 2 * j + side) for i, j in pairs for side in (1, 2)]
    return [(0, 0), *inner, (2 * reference + 1, 2 * own + 1)]


def _interpolate(at: np.ndarray, known: np.ndarray, values_at_knots: np.ndarray) -> np.ndarray:
    """Linear interpolation; of two knots at one time, the later one counts."""
    values = np.asarray(at, np.float64)
    right = np.clip(np.searchsorted(known, values, side="right"), 1, len(known) - 1)
    left = right - 1
    wide = known[right] - known[left]
    share = np.divide(values - known[left], wide, out=np.zeros_like(values), where=wide > 0)
    inside = values_at_knots[left] + np.clip(share, 0.0, 1.0) * (values_at_knots[right] - values_at_knots[left])
    inside = np.where((wide <= 0) & (values >= known[right]), values_at_knots[right], inside)
    return inside + np.maximum(values - known[-1], 0.0) + np.minimum(values - known[0], 0.0)


def match_words(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs of equal words: a longest common subsequence (Wagner and Fischer 1974, insertions and deletions).

    Words are equal by their letters, regardless of case and marks. Among the longest, the earliest words are paired.
    Raises BadText: both texts are long and differ almost everywhere.
    """
    a, b = [letters(word) for word in one], [letters(word) for word in other]
    shortest = min(len(a), len(b))
    head = next((k for k in range(shortest) if a[k] != b[k]), shortest)
    tail = next((k for k in range(shortest - head) if a[-1 - k] != b[-1 - k]), shortest - head)
    ends = range(tail, 0, -1)
    middle = _longest(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((k, k) for k in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((len(a) - k, len(b) - k) for k in ends),
    ]


def _longest(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    if len(a) * len(b) > MAX_CELLS:
        raise BadText(f"texts of {len(a):,} and {len(b):,} words differ", "compare utterances of nearly one text")
    names = {word: k for k, word in enumerate(dict.fromkeys((*a, *b)))}
    left, right = np.array([names[word] for word in a]), np.array([names[word] for word in b])
    # rest[i, j]: the longest of a[i:] and b[j:]. In a row it grows from right to left, so a running maximum fills it.
    rest = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a) - 1, -1, -1):
        through = np.where(right == left[i], rest[i + 1, 1:] + 1, rest[i + 1, :-1])
        rest[i, :-1] = np.maximum.accumulate(through[::-1])[::-1]
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b) and rest[i, j]:
        if a[i] == b[j]:  # pairing the first of both is optimal
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif rest[i, j + 1] == rest[i, j]:
            j += 1
        else:
            i += 1
    return pairs


BANDS = 80
STEP_S = 0.01  # between two columns
LOW_HZ, HIGH_HZ = 40.0, 8000.0
FLOOR_DB = -60.0  # relative to the speech level; quieter sound is inaudible
_WINDOW_S = 0.025
_BLOCK = 2048  # columns at once


def columns_s(length_s: float) -> np.ndarray:
    """Centre times of the columns of an axis: float64 [N]."""
    return STEP_S * (0.5 + np.arange(max(1, int(np.ceil(length_s / STEP_S - 1e-9)))))


def spectrogram_db(pcm: np.ndarray, rate_hz: int, at_s: np.ndarray, high_hz: float = HIGH_HZ) -> np.ndarray:
    """Log-mel spectra at given times, in dB relative to the speech level: float32 [bands, N], low bands first.

    Windows (25 ms, Hann) are centred on their times, so a stretched axis is analysed, not interpolated. The reference
    is the active speech level (ITU-T P.56), so overall loudness does not count. NaN outside of the sound.

    Args:
        pcm: int16 [T].
        at_s: float64 [N], in any order.
        high_hz: upper edge of the highest band; the same for all utterances of a comparison.
    """
    window_samples = round(_WINDOW_S * rate_hz)
    fft_samples = 1 << (window_samples - 1).bit_length()
    filters = mel_filters(rate_hz, fft_samples, BANDS, LOW_HZ, min(high_hz, rate_hz / 2.0)).astype(np.float64)
    window = np.hanning(window_samples + 1)[:-1]
    window /= np.sqrt(np.square(window).sum() * fft_samples)  # power, independent of the window length
    level_db = active_level_db(pcm, rate_hz)
    padded = np.pad(to_float(pcm), (window_samples, window_samples)).astype(np.float64)
    middle = np.round(at_s * rate_hz).astype(np.int64)
    out = np.full((BANDS, len(at_s)), FLOOR_DB, np.float32)
    first = np.clip(middle, 0, len(pcm)) - window_samples // 2 + window_samples
    for begin in range(0, len(at_s) if np.isfinite(level_db) else 0, _BLOCK):
        at = first[begin : begin + _BLOCK, None] + np.arange(window_samples)
        power = np.abs(np.fft.rfft(padded[at] * window, fft_samples)) ** 2
        bands_db = 10.0 * np.log10(np.maximum(filters @ power.T, 1e-24)) - level_db
        out[:, begin : begin + _BLOCK] = np.maximum(bands_db, FLOOR_DB)
    out[:, (at_s < 0) | (middle >= len(pcm))] = np.nan
    return out


def on_axis(pcm: np.ndarray, rate_hz: int, laid: TimeMap, at_s: np.ndarray, high_hz: float) -> np.ndarray:
    """The spectrogram of an utterance at axis times: float32 [bands, N]; NaN where ``own_s`` is constant."""
    own_s = laid.own(at_s)
    picture = spectrogram_db(pcm, rate_hz, own_s, high_hz)
    edge = np.clip(np.searchsorted(laid.axis_s, at_s, side="right"), 1, len(laid.axis_s) - 1)
    constant = (laid.own_s[edge] <= laid.own_s[edge - 1]) & (at_s >= laid.axis_s[0]) & (at_s < laid.axis_s[-1])
    picture[:, constant] = np.nan
    return picture


def mean_difference_db(difference: np.ndarray) -> float:
    """Mean |difference| where both have sound, dB: a log-spectral distance; NaN where they share none."""
    there = np.isfinite(difference)
    return float(np.abs(difference[there]).mean()) if there.any() else float("nan")
