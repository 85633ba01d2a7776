"""Recognisers by name: the one place that knows which there are.

``whisper`` is what tables print: its error rate is close to what a listener misses. ``pocketsphinx`` is small and
comes with its weights: for tests, for a second opinion, and for machines that cannot fetch any.
"""

from collections.abc import Callable, Sequence
from functools import cache

from studio.core.errors import BadOption
from studio.measure.recognisers.pocketsphinx import PocketSphinx
from studio.measure.recognisers.port import Recogniser, Sound
from studio.measure.recognisers.processes import map_processes
from studio.measure.recognisers.whisper import Whisper

DEFAULT = "whisper"


def _pocketsphinx(weights: str) -> Recogniser:
    if weights:
        raise BadOption(f"pocketsphinx takes no weights, and {weights!r} is given", "--recogniser pocketsphinx")
    return PocketSphinx()


RECOGNISERS: dict[str, Callable[[str], Recogniser]] = {"whisper": Whisper, "pocketsphinx": _pocketsphinx}


def open_recogniser(name: str = DEFAULT) -> Recogniser:
    """A recogniser by ``NAME`` or ``NAME:WEIGHTS``, such as ``whisper``, ``whisper:small.en``, ``whisper:FOLDER``.

    Raises:
        BadOption: there is none of that name, or it takes no weights.
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
    """Transcripts of many (pcm, rate_hz), in order, by several processes; ``on_done`` is called after each."""
    return map_processes(_transcribe, [(recogniser, sound) for sound in sounds], workers, on_done)


@cache
def _own(recogniser: str) -> Recogniser:
    """One per process: loading the weights takes longer than a sentence."""
    return open_recogniser(recogniser)


def _transcribe(recogniser: str, sound: Sound) -> str:
    return _own(recogniser).transcribe(*sound)
