"""Sounds for tests of listening tests."""

import numpy as np

from studio.core.clips import write_wav
from studio.mos.store.sounds import SourceSound

RATE_HZ = 24_000


def tone(peak=0.1, seconds=1.0, rate_hz=RATE_HZ, hz=997.0):
    """A sine, float32 [T]."""
    return (peak * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def spiky(spike):
    """A quiet tone with one loud sample: normalising it would clip."""
    pcm = tone(0.01, 2.0)
    pcm[RATE_HZ] = spike
    return SourceSound(pcm, RATE_HZ, "spiky.wav")


def put(root, *names):
    """Write WAV files of a second each."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, (3000 * np.sin(np.arange(16_000) / 5)).astype(np.int16), 16_000)


def folder(root):
    """Two systems with two sounds each."""
    put(root, "slt/i1.wav", "slt/i2.wav", "bdl/i1.wav", "bdl/i2.wav")
    return root


def write_csv(root, text, name="m.csv"):
    """A manifest; returns its path."""
    (root / name).write_text(text, encoding="utf-8")
    return root / name
