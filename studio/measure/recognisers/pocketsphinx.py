"""An offline recogniser and aligner: pocketsphinx, whose wheel holds its English model.

It is a steering wheel, not a judge: its score is read beside the score of the speech that the voice learned from.
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
from studio.core.errors import NeedsPackage
from studio.measure.recognisers.port import Sound
from studio.measure.recognisers.processes import map_processes
from studio.measure.signal.resample import at_16k

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_MODEL = "en-us"
_FRAME_S = 0.01  # pocketsphinx answers in frames of 10 ms
_VARIANT = re.compile(r"\(\d+\)$")  # "the(2)" is another pronunciation of "the"
_BEAMS = (None, {"beam": 1e-120, "pbeam": 1e-120, "wbeam": 1e-100})  # wide ones, for what the first lose


@dataclass(frozen=True)
class WordTime:
    """Where a word lies in a recording."""

    word: str
    start_s: float
    end_s: float


class PocketSphinx:
    """Transcribes and aligns int16 sound at any rate; the same sound gives the same answer, whatever came before.

    Raises:
        NeedsPackage: pocketsphinx is not installed.
    """

    def __init__(self) -> None:
        self._package = _package()
        self._decoders: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, str]:
        """The weights of the wheel: one sha256 over those of its files, in the order of their names."""
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
        """The words that are heard, in lower case; empty where nothing is."""
        decoder = self._decoder("words", {})
        self._decode(decoder, pcm, rate_hz)
        best = decoder.hyp()
        return best.hypstr if best else ""

    def unknown(self, text: str) -> list[str]:
        """Words of a text that the recogniser's dictionary lacks: these can be neither heard nor aligned."""
        decoder = self._decoder("align", {"lm": None})
        return [word for word in dict.fromkeys(dictionary_words(text)) if decoder.lookup_word(word) is None]

    def align(self, pcm: np.ndarray, rate_hz: int, text: str) -> list[WordTime] | None:
        """Where each word of a known text lies; None where a word is unknown or the sound does not hold the text."""
        words = dictionary_words(text)
        if not words or self.unknown(text):
            return None
        for number, beams in enumerate(_BEAMS):
            decoder = self._decoder(f"align{number}" if beams else "align", {"lm": None, **(beams or {})})
            decoder.set_align_text(" ".join(words))
            self._decode(decoder, pcm, rate_hz)
            found = [
                WordTime(_VARIANT.sub("", one.word), one.start_frame * _FRAME_S, (one.end_frame + 1) * _FRAME_S)
                for one in (decoder.seg() or ())
                if not one.word.startswith(("<", "["))
            ]
            if [one.word for one in found] == words:
                return found
        return None

    def _decode(self, decoder: Any, pcm: np.ndarray, rate_hz: int) -> None:
        decoder.reinit_feat()  # else the mean of the recording before still stands in this one's first frames
        decoder.start_utt()
        if len(pcm):
            decoder.process_raw(at_16k(pcm, rate_hz).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()

    def _decoder(self, name: str, config: dict[str, Any]) -> Any:
        if name not in self._decoders:
            self._decoders[name] = self._package.Decoder(loglevel="FATAL", cmn="batch", **config)
        return self._decoders[name]


def dictionary_words(text: str) -> list[str]:
    """Words as the dictionary writes them: lower case, without marks; hyphens part words, inner apostrophes stay."""
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def align_all(
    sounds: Sequence[Sound], texts: Sequence[str], *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[list[WordTime] | None]:
    """Alignments of many (pcm, rate_hz) with their texts, in order, by several processes."""
    return map_processes(_align, list(zip(sounds, texts, strict=True)), workers, on_done)


@cache
def _own() -> PocketSphinx:
    """One per process: loading the model takes longer than a sentence."""
    return PocketSphinx()


def _align(sound: Sound, text: str) -> list[WordTime] | None:
    return _own().align(*sound, text)


def _package() -> Any:
    try:
        import pocketsphinx
    except ImportError as error:
        raise NeedsPackage(
            "this recogniser and aligner needs pocketsphinx", "pip install 'streaming-tts-studio[eval]'"
        ) from error
    return pocketsphinx
