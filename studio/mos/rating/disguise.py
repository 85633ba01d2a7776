"""Two sounds of a screen that are the same on purpose: nothing but hearing may tell which."""

from pathlib import Path

import numpy as np

from studio.core.clips import read_wav, wav_bytes


def disguised(path: Path, samples: int, seed: int) -> bytes:
    """A clip as a WAV of its own: silence behind it up to ``samples``, and the lowest bit of every sample drawn anew.

    So all sounds of a screen are as long as each other, and two copies of one have different bytes. The bits are noise
    at about -93 dB below full scale. They do not hide which is which from somebody who subtracts one from the other.

    Raises:
        BadFile: the clip cannot be read.
    """
    pcm, rate_hz = read_wav(path)
    longer = np.zeros(max(samples, len(pcm)), np.int16)
    longer[: len(pcm)] = pcm
    bits = np.random.default_rng(seed).integers(2, size=len(longer), dtype=np.int16)
    return wav_bytes((longer & np.int16(-2)) | bits, rate_hz)
