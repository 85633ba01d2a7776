"""Who speaks: the nearest of several speakers by the statistics of a recording's MFCCs.

A recording is the mean and the standard deviation of its mel-frequency cepstral coefficients (Davis & Mermelstein 1980)
over the frames in which somebody speaks; the first coefficient, which is loudness, is left out. Nearest is the speaker
whose recordings' mean is nearest by Mahalanobis' distance, with one covariance within speakers for all of them, shrunk
as Ledoit & Wolf 2004 say: linear discriminant analysis with equal priors. Speech that took over something of a speaker,
but not enough to be taken for them, is nearer to them than the speech of others is: ``nearer``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.core.traces.spectrogram import log_mel

COEFFICIENTS = 19  # without the first
_BANDS, _WINDOW_MS, _HOP_MS, _FLOOR_DB = 40, 25.0, 10.0, -100.0
_AUDIBLE_DB = 35.0  # below the loudest frame: the rest is pauses


def mfcc_statistics(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """Means and deviations of the MFCCs of what is audible, float64 [2 * COEFFICIENTS].

    Args:
        pcm: int16 [T], of one window (25 ms) or more.

    Raises:
        NeedsPackage: scipy is not installed.
    """
    try:
        from scipy.fft import dct  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise _needs() from error
    mel_db = log_mel(pcm, rate_hz, bins=_BANDS, window_ms=_WINDOW_MS, hop_ms=_HOP_MS, floor_db=_FLOOR_DB)
    loudest_db = mel_db.max(axis=0)
    heard = mel_db[:, loudest_db >= loudest_db.max() - _AUDIBLE_DB].astype(np.float64)
    found: Any = dct(heard, axis=0, norm="ortho")[1 : COEFFICIENTS + 1]  # scipy comes without types
    return np.concatenate([found.mean(axis=1), found.std(axis=1)])


class NearestSpeaker:
    """Tells which of several speakers a recording is nearest to.

    Args:
        recordings: statistics float64 [N, F], several of each speaker.
        speakers: the name of each, [N], of two speakers or more.

    Raises:
        NeedsPackage: scikit-learn is not installed.
    """

    def __init__(self, recordings: np.ndarray, speakers: Sequence[str]) -> None:
        self._recordings, self._speakers = recordings, np.array(speakers)
        self._fitted = _discriminant(len(set(speakers))).fit(recordings, self._speakers)

    def of(self, recordings: np.ndarray) -> list[str]:
        """The nearest speaker of each, statistics float64 [N, F]."""
        return [str(name) for name in self._fitted.predict(recordings)]

    def distances(self, recordings: np.ndarray, speaker: str) -> np.ndarray:
        """Mahalanobis' distance of each recording, statistics float64 [N, F], from one of the speakers: [N]."""
        apart = recordings - self._fitted.means_[list(self._fitted.classes_).index(speaker)]
        return np.sqrt((apart * np.linalg.solve(self._fitted.covariance_, apart.T).T).sum(axis=1))

    def of_its_own(self, texts: Sequence[str], folds: int = 5) -> list[str]:
        """The nearest speaker of each of its own recordings, told by those of other texts: how well it can be told."""
        from sklearn.model_selection import GroupKFold, cross_val_predict

        count = min(folds, len(set(texts)))
        model = _discriminant(len(set(self._speakers.tolist())))
        found: Any = cross_val_predict(
            model, self._recordings, self._speakers, groups=np.array(texts), cv=GroupKFold(count)
        )
        return [str(name) for name in found]


@dataclass(frozen=True)
class Nearer:
    """How often speech that is meant to be somebody's is nearer to them than speech that is not.

    Attributes:
        share: of all pairs of one of either, ties a half (the area under the ROC curve); 0.5 by chance.
        p: how likely that much or more is by chance (Mann & Whitney's test, one-sided).
    """

    share: float
    p: float


def nearer(own: np.ndarray, others: np.ndarray) -> Nearer:
    """Of distances from one speaker: of the speech that is meant to be theirs [N], and of the other speech [M]."""
    from scipy.stats import mannwhitneyu  # pyright: ignore[reportMissingTypeStubs]

    found: Any = mannwhitneyu(others, own, alternative="greater")
    return Nearer(float(found.statistic) / (len(own) * len(others)), float(found.pvalue))


def nearer_together(each: Sequence[Nearer]) -> Nearer:
    """Of several speakers: the mean of their shares, and Fisher's combination of what each is by chance."""
    from scipy.stats import combine_pvalues  # pyright: ignore[reportMissingTypeStubs]

    found: Any = combine_pvalues([one.p for one in each], method="fisher")
    return Nearer(float(np.mean([one.share for one in each])), float(found.pvalue))


def _discriminant(speakers: int) -> Any:
    try:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    except ImportError as error:
        raise _needs() from error
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(speakers, 1.0 / speakers))


def _needs() -> NeedsPackage:
    return NeedsPackage("speakers are told apart by scikit-learn", "pip install 'streaming-tts-studio[eval]'")
