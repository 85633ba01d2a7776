"""Speaker identification by MFCC statistics and linear discriminant analysis.

A recording is represented by the mean and standard deviation of its mel-frequency cepstral coefficients (Davis &
Mermelstein 1980) over audible frames, without the first coefficient (loudness). The nearest speaker is by Mahalanobis
distance to the speaker means, with a shared within-speaker covariance (Ledoit & Wolf 2004 shrinkage): linear
discriminant analysis with equal priors. ``nearer`` is for weaker effects: whether speech meant to be a speaker's is
nearer to them than other speech.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.core.traces.spectrogram import log_mel

COEFFICIENTS = 19  # without the first
_BANDS, _WINDOW_MS, _HOP_MS, _FLOOR_DB = 40, 25.0, 10.0, -100.0
_AUDIBLE_DB = 35.0  # below the loudest frame


def mfcc_statistics(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """Means and standard deviations of MFCCs over audible frames, float64 [2 * COEFFICIENTS].

    Args:
        pcm: int16 [T], at least one window (25 ms).

    Raises:
        NeedsPackage: scipy is not installed.
    """
    try:
        from scipy.fft import dct  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise _needs() from error
    mel_db = log_mel(pcm, rate_hz, bins=_BANDS, window_ms=_WINDOW_MS, hop_ms=_HOP_MS, floor_db=_FLOOR_DB)
    loudest_db = mel_db.max(axis=0)
    audible = mel_db[:, loudest_db >= loudest_db.max() - _AUDIBLE_DB].astype(np.float64)
    coefficients: Any = dct(audible, axis=0, norm="ortho")[1 : COEFFICIENTS + 1]  # scipy comes without types
    return np.concatenate([coefficients.mean(axis=1), coefficients.std(axis=1)])


class NearestSpeaker:
    """Classifies recordings by speaker.

    Args:
        recordings: statistics float64 [N, F], several per speaker.
        speakers: their speakers, [N], at least two different ones.

    Raises:
        NeedsPackage: scikit-learn is not installed.
    """

    def __init__(self, recordings: np.ndarray, speakers: Sequence[str]) -> None:
        self._recordings, self._speakers = recordings, np.array(speakers)
        self._fitted = _discriminant(len(set(speakers))).fit(recordings, self._speakers)

    def predict(self, recordings: np.ndarray) -> list[str]:
        """The nearest speaker of each recording, statistics float64 [N, F]."""
        return [str(name) for name in self._fitted.predict(recordings)]

    def distances(self, recordings: np.ndarray, speaker: str) -> np.ndarray:
        """Mahalanobis distances of recordings [N, F] from a speaker: [N]."""
        apart = recordings - self._fitted.means_[list(self._fitted.classes_).index(speaker)]
        return np.sqrt((apart * np.linalg.solve(self._fitted.covariance_, apart.T).T).sum(axis=1))

    def cross_validate(self, texts: Sequence[str], folds: int = 5) -> list[str]:
        """The nearest speaker of each of its own recordings, by cross-validation over texts."""
        from sklearn.model_selection import GroupKFold, cross_val_predict

        count = min(folds, len(set(texts)))
        model = _discriminant(len(set(self._speakers.tolist())))
        predicted: Any = cross_val_predict(
            model, self._recordings, self._speakers, groups=np.array(texts), cv=GroupKFold(count)
        )
        return [str(name) for name in predicted]


@dataclass(frozen=True)
class Nearer:
    """Whether speech meant to be a speaker's is nearer to them than other speech.

    Attributes:
        share: of pairs in which it is, ties as half (the area under the ROC curve); 0.5 by chance.
        p: of the one-sided Mann-Whitney test.
    """

    share: float
    p: float


def nearer(own: np.ndarray, others: np.ndarray) -> Nearer:
    """Compare distances from a speaker: of speech meant to be theirs [N], and of other speech [M]."""
    from scipy.stats import mannwhitneyu  # pyright: ignore[reportMissingTypeStubs]

    test: Any = mannwhitneyu(others, own, alternative="greater")
    return Nearer(float(test.statistic) / (len(own) * len(others)), float(test.pvalue))


def nearer_together(each: Sequence[Nearer]) -> Nearer:
    """Combine several speakers: the mean share, and Fisher's combination of the p values."""
    from scipy.stats import combine_pvalues  # pyright: ignore[reportMissingTypeStubs]

    combined: Any = combine_pvalues([one.p for one in each], method="fisher")
    return Nearer(float(np.mean([one.share for one in each])), float(combined.pvalue))


def _discriminant(speakers: int) -> Any:
    try:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    except ImportError as error:
        raise _needs() from error
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(speakers, 1.0 / speakers))


def _needs() -> NeedsPackage:
    return NeedsPackage("speaker identification needs scikit-learn", "pip install 'streaming-tts-studio[eval]'")
