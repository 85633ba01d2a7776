"""Aligners by name: who says where the words of a known text lie, each in several takes where it can give them.

``pocketsphinx`` answers in frames of 10 ms. Its takes are of the same sound moved by parts of a frame, clean and with
noise 40 dB below the speech, so they say how far it wavers, and answer between its frames. ``whisper`` writes what it
hears and when, by its attention, in one take; its weights are named as for the recogniser (``whisper:FOLDER``).
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from studio.core.clips import to_float, to_int16
from studio.core.errors import BadOption
from studio.measure.recognisers.choose import open_recogniser
from studio.measure.recognisers.pocketsphinx import PocketSphinx
from studio.measure.recognisers.whisper import Whisper
from studio.measure.timing.word_timing import SpokenSpan

ALIGNERS = ("pocketsphinx", "whisper")
SHIFTS_MS = (0, 2, 4, 6, 8)
NOISE_DB = -40.0

Takes = list[list[SpokenSpan]]


def open_aligner(name: str) -> Callable[[np.ndarray, int, str], Takes]:
    """What gives the takes of int16 [T] at a rate with its text; none where the sound does not hold the text.

    Raises:
        BadOption: there is none of that name.
        BadFile, NeedsPackage: its weights or its package are missing.
    """
    kind, _, _ = name.partition(":")
    if kind not in ALIGNERS:
        raise BadOption(f"there is no aligner {name!r:.60}", f"take one of {', '.join(ALIGNERS)}")
    recogniser = _own(name)
    if isinstance(recogniser, PocketSphinx):
        return lambda pcm, rate_hz, text: _moved_takes(recogniser, pcm, rate_hz, text)
    assert isinstance(recogniser, Whisper), "the two that are listed"
    return lambda pcm, rate_hz, text: [found] if (found := recogniser.words(pcm, rate_hz)) else []


@cache
def _own(name: str) -> object:
    """One per process: loading a model takes longer than a sentence."""
    return open_recogniser(name)


def _moved_takes(aligner: PocketSphinx, pcm: np.ndarray, rate_hz: int, text: str) -> Takes:
    takes: Takes = []
    for sound in (pcm, _noisy(pcm)):
        for shift_ms in SHIFTS_MS:
            before = round(shift_ms * rate_hz / 1000.0)
            found = aligner.align(np.concatenate([np.zeros(before, np.int16), sound]), rate_hz, text)
            if found:
                by_s = before / rate_hz
                takes.append([SpokenSpan(one.word, max(0.0, one.start_s - by_s), one.end_s - by_s) for one in found])
    return takes


def _noisy(pcm: np.ndarray) -> np.ndarray:
    sound = to_float(pcm).astype(np.float64)
    rms = float(np.sqrt(np.mean(sound**2))) if len(sound) else 0.0
    noise = np.random.default_rng(0).normal(0.0, max(rms, 1e-4) * 10.0 ** (NOISE_DB / 20.0), len(sound))
    return to_int16(np.clip(sound + noise, -1.0, 1.0))
