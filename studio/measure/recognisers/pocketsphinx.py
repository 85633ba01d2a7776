"""pocketsphinx as an offline recogniser and aligner; its wheel includes an English model.

Its error rate is high: compare it with that of the voice's training speech.
"""

import hashlib
import importlib.metadata
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.cards import sha256_of
from studio.core.errors import needs
from studio.measure.recognisers.base import Sound, map_processes
from studio.measure.signal import at_16k

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_MODEL = "en-us"
_FRAME_S = 0.01  # frames of 10 ms
_VARIANT = re.compile(r"\(\d+\)$")  # "the(2)": another pronunciation of "the"
_BEAMS = (None, {"beam": 1e-120, "pbeam": 1e-120, "wbeam": 1e-100})  # default, then wide


@dataclass(frozen=True)
class WordTime:
    """A word and its time in a recording."""

    word: str
    start_s: float
    end_s: float


class PocketSphinx:
    """Transcribes and aligns int16 sound at any rate, independently of earlier calls. Raises NeedsPackage."""

    def __init__(self) -> None:
        self._package = _package()
        self._decoders: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, str]:
        """Name, version and weights; ``sha256`` is a hash over the hashes of all files, by name."""
        return {
            "name": "pocketsphinx",
            "version": f"pocketsphinx {importlib.metadata.version('pocketsphinx')}",
            "weights": _MODEL,
            "sha256": self._sha256,
        }

    @cached_property
    def _sha256(self) -> str:
        files = sorted(path for path in Path(self._package.get_model_path(_MODEL)).rglob("*") if path.is_file())
        return hashlib.sha256("".join(sha256_of(path) for path in files).encode()).hexdigest()

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """Recognised words in lower case; may be empty."""
        decoder = self._decoder("words", {})
        self._decode(decoder, pcm, rate_hz)
        best = decoder.hyp()
        return best.hypstr if best else ""

    def unknown(self, text: str) -> list[str]:
        """Words of a text that the dictionary lacks: they can be neither recognised nor aligned."""
        decoder = self._decoder("align", {"lm": None})
        return [word for word in dict.fromkeys(dictionary_words(text)) if decoder.lookup_word(word) is None]

    def align(self, pcm: np.ndarray, rate_hz: int, text: str) -> list[WordTime] | None:
        """Align a known text; None if a word is unknown or the sound does not match the text."""
        words = dictionary_words(text)
        if not words or self.unknown(text):
            return None
        for number, beams in enumerate(_BEAMS):
            decoder = self._decoder(f"align{number}" if beams else "align", {"lm": None, **(beams or {})})
            decoder.set_align_text(" ".join(words))
            self._decode(decoder, pcm, rate_hz)
            times = [
                WordTime(_VARIANT.sub("", one.word), one.start_frame * _FRAME_S, (one.end_frame + 1) * _FRAME_S)
                for one in (decoder.seg() or ())
                if not one.word.startswith(("<", "["))
            ]
            if [one.word for one in times] == words:
                return times
        return None

    def _decode(self, decoder: Any, pcm: np.ndarray, rate_hz: int) -> None:
        decoder.reinit_feat()  # else the cepstral mean of the previous recording is used in the first frames
        decoder.start_utt()
        if len(pcm):
            decoder.process_raw(at_16k(pcm, rate_hz).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()

    def _decoder(self, name: str, config: dict[str, Any]) -> Any:
        if name not in self._decoders:
            self._decoders[name] = self._package.Decoder(loglevel="FATAL", cmn="batch", **config)
        return self._decoders[name]


def dictionary_words(text: str) -> list[str]:
    """Words as in the dictionary: lower case, without marks, split at hyphens, with inner apostrophes."""
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def align_all(
    sounds: Sequence[Sound], texts: Sequence[str], *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[list[WordTime] | None]:
    """Align many sounds with their texts by several processes; results in order."""
    return map_processes(_align, list(zip(sounds, texts, strict=True)), workers, on_done)


@cache
def _cached_aligner() -> PocketSphinx:
    """One per process: loading the model takes longer than a sentence."""
    return PocketSphinx()


def _align(sound: Sound, text: str) -> list[WordTime] | None:
    return _cached_aligner().align(*sound, text)


def _package() -> Any:
    with needs("this recogniser and aligner needs pocketsphinx", "eval"):
        import pocketsphinx
    return pocketsphinx
