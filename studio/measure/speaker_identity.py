"""Who speaks: the nearest of several speakers by the statistics of a recording's MFCCs.

A recording is the mean and the standard deviation of its mel-frequency cepstral coefficients (Davis & Mermelstein 1980)
over the frames in which somebody speaks; the first coefficient, which is loudness, is left out. Nearest is the speaker
whose recordings' mean is nearest by Mahalanobis' distance, with one covariance within speakers for all of them, shrunk
as Ledoit & Wolf 2004 say: linear discriminant analysis with equal priors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from studio.core.clips import to_float
from studio.core.errors import NeedsPackage

COEFFICIENTS = 19  # without the first
_BANDS, _WINDOW_MS, _HOP_MS, _LOW_HZ = 40, 25.0, 10.0, 50.0
_AUDIBLE_DB = 35.0  # below the loudest frame: the rest is pauses


def mfcc_statistics(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """Means and deviations of the MFCCs of what is audible, float64 [2 * COEFFICIENTS].

    Args:
        pcm: int16 [T], of one window (25 ms) or more.
    """
    import torch
    from torchaudio.transforms import MFCC

    length = 1 << (round(_WINDOW_MS * rate_hz / 1000.0) - 1).bit_length()
    hop = round(_HOP_MS * rate_hz / 1000.0)
    of_windows = {"n_fft": length, "hop_length": hop, "n_mels": _BANDS, "f_min": _LOW_HZ}
    sound = torch.from_numpy(to_float(pcm))
    found = MFCC(rate_hz, COEFFICIENTS + 1, melkwargs=of_windows)(sound).double().numpy()[1:]
    windows = sound.numpy()[np.arange(0, len(sound) - hop + 1, hop)[:, None] + np.arange(hop)]
    level_db = 10.0 * np.log10(np.mean(np.square(windows), axis=1) + 1e-12)
    heard = found[:, : len(level_db)][:, level_db >= level_db.max() - _AUDIBLE_DB]
    return np.concatenate([heard.mean(axis=1), heard.std(axis=1)])


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

    def of_its_own(self, texts: Sequence[str], folds: int = 5) -> list[str]:
        """The nearest speaker of each of its own recordings, told by those of other texts: how well it can be told."""
        from sklearn.model_selection import GroupKFold, cross_val_predict

        count = min(folds, len(set(texts)))
        model = _discriminant(len(set(self._speakers.tolist())))
        found: Any = cross_val_predict(
            model, self._recordings, self._speakers, groups=np.array(texts), cv=GroupKFold(count)
        )
        return [str(name) for name in found]


def _discriminant(speakers: int) -> Any:
    try:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    except ImportError as error:
        raise NeedsPackage(
            "speakers are told apart by scikit-learn", "pip install 'streaming-tts-studio[eval]'"
        ) from error
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(speakers, 1.0 / speakers))
