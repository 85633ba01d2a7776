"""Recognisers and forced aligners by name.

Recognisers: ``whisper`` is what tables print, with an error rate close to a human's. ``pocketsphinx`` is small and
ships with its weights: for tests, second opinions and machines without network access.

Aligners give the word times of a known text, in several takes if possible. ``pocketsphinx`` has a resolution of 10 ms;
its takes shift the sound by parts of a frame, clean and with noise 40 dB below the speech, which shows its variance.
``whisper`` gives one take, from its attention; weights are named as for the recogniser (``whisper:FOLDER``).
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from studio.core.clips import to_float, to_int16
from studio.core.errors import BadOption
from studio.measure.recognisers.base import Recogniser, Sound, map_processes
from studio.measure.recognisers.pocketsphinx import PocketSphinx
from studio.measure.recognisers.whisper import Whisper
from studio.measure.word_timing import SpokenSpan

DEFAULT = "whisper"
ALIGNERS = ("pocketsphinx", "whisper")
SHIFTS_MS = (0, 2, 4, 6, 8)
NOISE_DB = -40.0

Takes = list[list[SpokenSpan]]


def _pocketsphinx(weights: str) -> Recogniser:
    if weights:
        raise BadOption(f"pocketsphinx takes no weights, and {weights!r} is given", "--recogniser pocketsphinx")
    return PocketSphinx()


RECOGNISERS: dict[str, Callable[[str], Recogniser]] = {"whisper": Whisper, "pocketsphinx": _pocketsphinx}


def open_recogniser(name: str = DEFAULT) -> Recogniser:
    """Open a recogniser by ``NAME`` or ``NAME:WEIGHTS``: ``whisper``, ``whisper:small.en``, ``whisper:FOLDER``.

    Raises:
        BadOption: unknown name, or the recogniser takes no weights.
        BadFile: its weights are missing or damaged.
        NeedsPackage: its package is not installed.
    """
    kind, _, weights = name.partition(":")
    if kind not in RECOGNISERS:
        raise BadOption(f"there is no recogniser {kind!r}", f"take one of {', '.join(RECOGNISERS)}")
    return RECOGNISERS[kind](weights)


def transcribe_all(
    sounds: Sequence[Sound], recogniser: str, *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[str]:
    """Transcribe many sounds with several processes; results in order, ``on_done`` after each."""
    return map_processes(_transcribe, [(recogniser, sound) for sound in sounds], workers, on_done)


_cached_recogniser = cache(open_recogniser)  # one per process: loading weights takes longer than a sentence


def _transcribe(recogniser: str, sound: Sound) -> str:
    return _cached_recogniser(recogniser).transcribe(*sound)


def open_aligner(name: str) -> Callable[[np.ndarray, int, str], Takes]:
    """A function of (pcm int16 [T], rate_hz, text) that returns takes; none if the sound does not match the text.

    Raises:
        BadOption: unknown name.
        BadFile, NeedsPackage: its weights or its package are missing.
    """
    kind, _, _ = name.partition(":")
    if kind not in ALIGNERS:
        raise BadOption(f"there is no aligner {name!r:.60}", f"take one of {', '.join(ALIGNERS)}")
    recogniser = _cached_recogniser(name)
    if isinstance(recogniser, PocketSphinx):
        return lambda pcm, rate_hz, text: _shifted_takes(recogniser, pcm, rate_hz, text)
    assert isinstance(recogniser, Whisper)
    return lambda pcm, rate_hz, text: [words] if (words := recogniser.words(pcm, rate_hz)) else []


def _shifted_takes(aligner: PocketSphinx, pcm: np.ndarray, rate_hz: int, text: str) -> Takes:
    takes: Takes = []
    for sound in (pcm, _noisy(pcm)):
        for shift_ms in SHIFTS_MS:
            before = round(shift_ms * rate_hz / 1000.0)
            words = aligner.align(np.concatenate([np.zeros(before, np.int16), sound]), rate_hz, text)
            if words:
                shift_s = before / rate_hz
                takes.append(
                    [SpokenSpan(one.word, max(0.0, one.start_s - shift_s), one.end_s - shift_s) for one in words]
                )
    return takes


def _noisy(pcm: np.ndarray) -> np.ndarray:
    sound = to_float(pcm).astype(np.float64)
    rms = float(np.sqrt(np.mean(sound**2))) if len(sound) else 0.0
    noise = np.random.default_rng(0).normal(0.0, max(rms, 1e-4) * 10.0 ** (NOISE_DB / 20.0), len(sound))
    return to_int16(np.clip(sound + noise, -1.0, 1.0))
