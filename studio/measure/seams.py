"""Seams: changes of sound at joins, and a detector of seams among word boundaries.

A seam is a word boundary where a segment ends. The detector is a cross-validated classifier; the area under its ROC
curve is 0.5 where seams are indistinguishable from other word boundaries of the same speech.

*Features* (``boundary_features``), of 100 ms on each side of a boundary: log-mel means (24 bands, 40 Hz to half the
rate) in three intervals before and three after it, and the difference of the inner two; the largest change of level, of
spectrum and of the waveform's second difference within 60 ms, and the place of the last; the lowest level; the pitch
jump, and whether both sides are voiced; the durations of both words.

*Classifier* (``scores``): L2-regularised logistic regression on the standardised features and their squares, fitted by
Newton's method; the penalty is the best of three on the training sentences. *Folds* are of whole sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from studio.measure.prosody import Prosody, prosody
from studio.measure.signal import log_mel, mel_filters
from studio.measure.statistics import BootstrapInterval, draw_counts, percentile_interval

_AROUND = 240  # samples on each side of the local reference
_BESIDE_MS = 20.0  # on each side, for level and spectrum
_BESIDE_BANDS = 24
_LOW_HZ = 40.0
_FLOOR_DB = -80.0
VALID_FROM = 0.80  # a valid detector reaches this area on naive concatenation
FOLDS = 10
_BANDS, _HOP_MS, _WINDOW_MS = 24, 5.0, 15.0
_EDGES_MS = (-100.0, -60.0, -20.0, 0.0, 20.0, 60.0, 100.0)
_NEAR_MS = 60.0
_PENALTIES = (3.0, 30.0, 300.0)
_NEWTON_STEPS = 25
_REPEATS = 2000


@dataclass(frozen=True)
class SeamJump:
    """Changes at a join."""

    sample: int  # the first one after the join
    roughness: float  # of the waveform's second difference, as a share of its RMS around; 0 in silence
    level_db: float  # RMS of the 20 ms after over that of the 20 ms before, each at least -80 dB of full scale
    spectrum_db: float  # mean |difference| of 24 log-mel bands, 20 ms after against 20 ms before, at equal level


def seam_jumps(pcm: np.ndarray, rate_hz: int, seams: Sequence[int]) -> list[SeamJump]:
    """Changes at each join with enough samples on both sides, in the order given.

    Args:
        pcm: int16 [T].
        seams: index of the first sample after each join.
    """
    beside = round(_BESIDE_MS * rate_hz / 1000.0)
    usable = [seam for seam in seams if beside <= seam <= len(pcm) - beside]
    if not usable:
        return []
    at = np.array(usable)
    # [S, 2, T]: the sound before each join, and after it
    sides = pcm[at[:, None, None] + np.array([[-beside], [0]]) + np.arange(beside)].astype(np.float64) / 32768.0
    level_db = np.maximum(10.0 * np.log10(np.maximum(np.square(sides).mean(axis=2), 1e-24)), _FLOOR_DB)
    bands_db = _bands_db(sides, rate_hz)
    spectrum_db = np.abs(np.diff(bands_db - bands_db.mean(axis=2, keepdims=True), axis=1)).mean(axis=(1, 2))
    rows = zip(usable, _roughness_at(pcm, at), level_db[:, 1] - level_db[:, 0], spectrum_db, strict=True)
    return [SeamJump(seam, float(rough), float(step), float(change)) for seam, rough, step, change in rows]


def _roughness_at(pcm: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Roughness at joins [S], the greater of the two samples that a join affects: float64 [S].

    It is |x[s] - 2 x[s-1] + x[s-2]| over its RMS in the 240 samples on each side; clicks stand out.
    """
    indices = at[:, None] + np.arange(-2 - _AROUND, _AROUND + 1)
    near = pcm[np.clip(indices, 0, len(pcm) - 1)].astype(np.float64)
    second = np.abs(np.diff(near, 2, axis=1))  # [S, 2 * _AROUND + 1], the join in the middle
    is_there = (indices[:, :-2] >= 0) & (indices[:, 2:] < len(pcm))  # ignore samples outside the sound
    power = np.where(is_there, np.square(second), 0.0)
    rough = np.zeros(len(at))
    for own, window in ((_AROUND, slice(None, -1)), (_AROUND + 1, slice(1, None))):
        around = np.sqrt(power[:, window].sum(axis=1) / np.maximum(is_there[:, window].sum(axis=1), 1))
        loud = around > 1.0
        rough = np.maximum(rough, np.divide(second[:, own], around, out=np.zeros_like(around), where=loud))
    return rough


def _bands_db(sides: np.ndarray, rate_hz: int) -> np.ndarray:
    """Mel spectra of pieces [S, 2, T]: float64 [S, 2, bands], dB of full scale."""
    samples = sides.shape[2]
    window = np.hanning(samples + 1)[:-1]
    fft_samples = 1 << (samples - 1).bit_length()
    power = np.abs(np.fft.rfft(sides * window / (window.sum() / 2.0), fft_samples)) ** 2
    filters = mel_filters(rate_hz, fft_samples, _BESIDE_BANDS, _LOW_HZ, rate_hz / 2.0)
    return np.maximum(10.0 * np.log10(np.maximum(power @ filters.T.astype(np.float64), 1e-24)), _FLOOR_DB)


@dataclass(frozen=True)
class WordBoundary:
    """A word boundary, with the durations of the words before and after it, s."""

    at_s: float
    before_s: float
    after_s: float
    is_seam: bool


def boundary_features(pcm: np.ndarray, rate_hz: int, boundaries: Sequence[WordBoundary]) -> np.ndarray:
    """Acoustic features of each boundary: float64 [B, F]. Raises NeedsPackage.

    Args:
        pcm: int16 [T].
    """
    if not boundaries:
        return np.zeros((0, _BANDS * len(_EDGES_MS) + 9))
    mel = log_mel(pcm, rate_hz, bins=_BANDS, window_ms=_WINDOW_MS, hop_ms=_HOP_MS, floor_db=-90.0).astype(np.float64)
    spoken = prosody(pcm, rate_hz)
    second = np.abs(np.diff(pcm.astype(np.float64) / 32768.0, 2, prepend=[0.0, 0.0]))
    return np.stack([_features_at(mel, spoken, second, rate_hz, one) for one in boundaries])


def _features_at(mel: np.ndarray, spoken: Prosody, second: np.ndarray, rate_hz: int, one: WordBoundary) -> np.ndarray:
    at = one.at_s * 1000.0 / _HOP_MS
    intervals = [_mean(mel, at + a / _HOP_MS, at + b / _HOP_MS) for a, b in pairwise(_EDGES_MS)]
    near_s = _NEAR_MS / 1000.0
    part = spoken.within(max(0.0, one.at_s - near_s), one.at_s + near_s)
    columns = mel[:, max(0, round(at - _NEAR_MS / _HOP_MS)) : round(at + _NEAR_MS / _HOP_MS) + 1]
    first = max(0, round((one.at_s - near_s) * rate_hz))
    rough = second[first : round((one.at_s + near_s) * rate_hz)]
    usual = np.sqrt(np.mean(np.square(rough))) if len(rough) else 0.0
    jump = spoken.pitch_jump_st(one.at_s)
    more = [
        _max(np.abs(np.diff(part.level_db))),
        _max(np.abs(np.diff(columns, axis=1)).mean(axis=0)),
        np.log1p(_max(rough) / usual) if usual > 0 else 0.0,
        abs(np.argmax(rough) / rate_hz - near_s) if len(rough) else 0.0,
        float(part.level_db.min(initial=0.0)) - spoken.active_db,
        abs(jump) if jump is not None else 0.0,
        float(jump is not None),
        np.log(max(0.01, one.before_s)),
        np.log(max(0.01, one.after_s)),
    ]
    return np.concatenate([*intervals, intervals[3] - intervals[2], more])


def _mean(mel: np.ndarray, first: float, last: float) -> np.ndarray:
    low = min(max(0, round(first)), mel.shape[1] - 1)
    return mel[:, low : max(low + 1, round(last))].mean(axis=1)


def _max(values: np.ndarray) -> float:
    return float(values.max(initial=0.0))


def scores(features: np.ndarray, labels: np.ndarray, sentences: np.ndarray, seed: int = 0) -> np.ndarray:
    """Cross-validated seam scores (log odds) of boundaries: float64 [B].

    Args:
        features: [B, F].
        labels: [B], true at seams.
        sentences: [B], the number of each boundary's sentence.
    """
    out = np.zeros(len(labels))
    for test in _folds(sentences, FOLDS, seed):
        train = ~test
        penalty = _best_penalty(features[train], labels[train], sentences[train], seed)
        out[test] = _fitted(features[train], labels[train], penalty)(features[test])
    return out


def _folds(sentences: np.ndarray, count: int, seed: int) -> list[np.ndarray]:
    """Test boundaries of each fold: bool [B]."""
    known = np.random.default_rng(seed).permutation(np.unique(sentences))
    return [np.isin(sentences, part) for part in np.array_split(known, min(count, len(known)))]


def _best_penalty(features: np.ndarray, labels: np.ndarray, sentences: np.ndarray, seed: int) -> float:
    parts = _folds(sentences, 3, seed + 1)

    def validated_area(penalty: float) -> float:
        scores = np.zeros(len(labels))
        for test in parts:
            scores[test] = _fitted(features[~test], labels[~test], penalty)(features[test])
        return area(scores, labels)

    return max(_PENALTIES, key=validated_area)


def _fitted(features: np.ndarray, labels: np.ndarray, penalty: float) -> Callable[[np.ndarray], np.ndarray]:
    """Fit logistic regression on standardised features and their squares; returns a function to log odds."""
    middle, spread = features.mean(axis=0), features.std(axis=0) + 1e-9

    def wide(values: np.ndarray) -> np.ndarray:
        z = np.clip((values - middle) / spread, -6.0, 6.0)
        return np.hstack([z, (np.square(z) - 1.0) / np.sqrt(2.0), np.ones((len(z), 1))])

    x, y = wide(features), labels.astype(np.float64)
    ridge = np.full(x.shape[1], penalty)
    ridge[-1] = 1e-6
    weights = np.zeros(x.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30.0, 30.0)))
        slope = x.T @ (y - p) - ridge * weights
        bend = (x * (p * (1.0 - p))[:, None]).T @ x
        bend[np.diag_indices_from(bend)] += ridge
        step = np.linalg.solve(bend, slope)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return lambda values: wide(values) @ weights


def area(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Area under the ROC curve: probability that a seam scores above another boundary, ties as half (Mann-Whitney).

    Args:
        weights: of each boundary, [B].
    """
    many = np.ones(len(scores)) if weights is None else weights
    order = np.argsort(scores, kind="stable")
    score, yes = scores[order], (many * labels)[order]
    no = (many * ~labels.astype(bool))[order]
    if not yes.sum() or not no.sum():
        return float("nan")
    starts = np.flatnonzero(np.diff(score, prepend=np.nan) != 0)
    yes, no = np.add.reduceat(yes, starts), np.add.reduceat(no, starts)
    below = np.cumsum(no) - no
    return float((yes * (below + 0.5 * no)).sum() / (yes.sum() * no.sum()))


def area_interval(scores: np.ndarray, labels: np.ndarray, sentences: np.ndarray, seed: int = 0) -> BootstrapInterval:
    """The area with a bootstrap interval over sentences; the detector is not refitted."""
    known, sentence_index = np.unique(sentences, return_inverse=True)
    draws = np.array(
        [area(scores, labels, counts[sentence_index]) for counts in draw_counts(len(known), _REPEATS, seed)]
    )
    return percentile_interval(area(scores, labels), draws[np.isfinite(draws)])
