"""Detection of seams among word boundaries: a cross-validated classifier, and the area under its ROC curve.

A seam is a word boundary where a segment ends. An area of 0.5 means that seams are indistinguishable from other word
boundaries of the same speech.

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

from studio.core.traces.spectrogram import log_mel
from studio.measure.prosody import Prosody, prosody
from studio.measure.statistics import BootstrapInterval, draw_counts, percentile_interval

VALID_FROM = 0.80  # a valid detector reaches this area on naive concatenation
FOLDS = 10
_BANDS, _HOP_MS, _WINDOW_MS = 24, 5.0, 15.0
_EDGES_MS = (-100.0, -60.0, -20.0, 0.0, 20.0, 60.0, 100.0)
_NEAR_MS = 60.0
_PENALTIES = (3.0, 30.0, 300.0)
_NEWTON_STEPS = 25
_REPEATS = 2000


@dataclass(frozen=True)
class WordBoundary:
    """A word boundary, with the durations of the words before and after it, s."""

    at_s: float
    before_s: float
    after_s: float
    is_seam: bool


def boundary_features(pcm: np.ndarray, rate_hz: int, boundaries: Sequence[WordBoundary]) -> np.ndarray:
    """Acoustic features of each boundary: float64 [B, F].

    Args:
        pcm: int16 [T].

    Raises:
        NeedsPackage: pyworld is not installed.
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
    known, place = np.unique(sentences, return_inverse=True)
    drawn = np.array([area(scores, labels, counts[place]) for counts in draw_counts(len(known), _REPEATS, seed)])
    return percentile_interval(area(scores, labels), drawn[np.isfinite(drawn)])
