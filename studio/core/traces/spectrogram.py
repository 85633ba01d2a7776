"""Log-mel spectrograms for pictures, with a colour map. Acoustic features of voices are in ``studio.engine``."""

from functools import lru_cache

import numpy as np

_BLOCK_FRAMES = 2048  # frames per FFT call, which bounds memory
# Ten anchors of viridis (CC0): uniform in lightness and colour-blind safe.
_ANCHORS = "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725"


def mel_filters(rate_hz: int, fft_samples: int, bins: int, low_hz: float, high_hz: float) -> np.ndarray:
    """Triangular filters of equal height, evenly spaced in mel (HTK): float32 [bins, fft_samples // 2 + 1]."""
    mel = np.linspace(_mel(low_hz), _mel(high_hz), bins + 2)
    edges_hz = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    freqs_hz = np.linspace(0.0, rate_hz / 2.0, fft_samples // 2 + 1)
    rise = (freqs_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    fall = (edges_hz[2:, None] - freqs_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    filters = np.maximum(0.0, np.minimum(rise, fall))
    # A band narrower than an FFT bin would be empty and draw a black line: use the nearest bin.
    for band in np.flatnonzero(filters.max(axis=1) == 0.0):
        filters[band, np.argmin(np.abs(freqs_hz - edges_hz[band + 1]))] = 1.0
    return filters.astype(np.float32)


def log_mel(
    pcm: np.ndarray,
    rate_hz: int,
    *,
    bins: int = 80,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    low_hz: float = 40.0,
    high_hz: float | None = None,
    floor_db: float = -100.0,
) -> np.ndarray:
    """A log-mel spectrogram in dB of full scale: float32 [bins, T], low bands first.

    Column t is centred on sample ``t * hop``; samples outside the recording count as silence.

    Args:
        pcm: int16 or float [T].
        high_hz: upper edge of the highest band; the Nyquist frequency when None.
        floor_db: lower bound of the result.
    """
    window_samples, hop_samples = round(window_ms * rate_hz / 1000.0), max(1, round(hop_ms * rate_hz / 1000.0))
    fft_samples = 1 << (window_samples - 1).bit_length()
    filters = mel_filters(rate_hz, fft_samples, bins, low_hz, high_hz or rate_hz / 2.0)
    window = np.hanning(window_samples + 1)[:-1].astype(np.float32)
    window /= window.sum() / 2.0  # a full-scale sine has 0 dB in its bin
    signal = pcm.astype(np.float32) / (32768.0 if pcm.dtype == np.int16 else 1.0)
    columns = -(-len(signal) // hop_samples)
    before = window_samples // 2
    padded = np.pad(signal, (before, window_samples))
    out = np.empty((bins, columns), np.float32)
    for first in range(0, columns, _BLOCK_FRAMES):
        last = min(columns, first + _BLOCK_FRAMES)
        at = np.arange(first, last)[:, None] * hop_samples + np.arange(window_samples)
        power = np.abs(np.fft.rfft(padded[at] * window, fft_samples)) ** 2
        out[:, first:last] = filters @ power.T.astype(np.float32)
    return np.maximum(10.0 * np.log10(np.maximum(out, 1e-24)), floor_db)


@lru_cache(maxsize=1)
def colour_map() -> np.ndarray:
    """Dark to light: uint8 [256, 3], RGB."""
    anchors = np.array([[int(one[at : at + 2], 16) for at in (0, 2, 4)] for one in _ANCHORS.split()], np.float64)
    at = np.linspace(0.0, len(anchors) - 1.0, 256)
    table = np.stack([np.interp(at, np.arange(len(anchors)), anchors[:, channel]) for channel in range(3)], axis=1)
    return np.rint(table).astype(np.uint8)


def picture(spectrogram: np.ndarray, low_db: float = -80.0, high_db: float = -10.0) -> np.ndarray:
    """A spectrogram [bins, T] as an RGB picture: uint8 [bins, T, 3], high bands at the top."""
    level = (spectrogram[::-1] - low_db) / (high_db - low_db)
    return colour_map()[np.clip(np.rint(level * 255.0), 0, 255).astype(np.uint8)]


def _mel(hz: float) -> float:
    return 2595.0 * float(np.log10(1.0 + hz / 700.0))
