"""An offline recogniser and aligner: pocketsphinx, whose wheel holds its English model.

It is a steering wheel, not a judge: its score is read beside the score of the speech that the voice learned from.
"""

import multiprocessing
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.measure.wer import scored_words

RATE_HZ = 16000
_FRAME_S = 0.01  # pocketsphinx answers in frames of 10 ms
_VARIANT = re.compile(r"\(\d+\)$")  # "the(2)" is another pronunciation of "the"
_BEAMS = (None, {"beam": 1e-120, "pbeam": 1e-120, "wbeam": 1e-100})  # wide ones, for what the first lose


@dataclass(frozen=True)
class WordTime:
    """Where a word lies in a recording."""

    word: str
    start_s: float
    end_s: float


def at_16k(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """int16 [T] at 16 kHz, by cutting or padding the spectrum: for measuring, not for a voice's features."""
    if rate_hz == RATE_HZ or not len(pcm):
        return pcm
    # A spectrum is periodic: silence keeps the end from ringing into the start. The length is a whole number of both
    # rates' common steps, so that no time is stretched.
    step = rate_hz // gcd(rate_hz, RATE_HZ)
    length = -(-(len(pcm) + rate_hz // 10) // step) * step
    padded = np.pad(pcm.astype(np.float64), (0, length - len(pcm)))
    count = length // step * (RATE_HZ * step // rate_hz)
    resampled = np.fft.irfft(np.fft.rfft(padded)[: count // 2 + 1], count) * (count / len(padded))
    out = resampled[: round(len(pcm) * RATE_HZ / rate_hz)]
    return np.clip(np.rint(out), -32768, 32767).astype(np.int16)


class Recogniser:
    """Transcribes and aligns int16 sound at any rate; the same sound gives the same answer, whatever came before.

    Raises:
        NeedsPackage: pocketsphinx is not installed.
    """

    def __init__(self) -> None:
        self._decoders: dict[str, Any] = {}

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """The words that are heard, in lower case; empty where nothing is."""
        decoder = self._decoder("words", {})
        self._decode(decoder, pcm, rate_hz)
        best = decoder.hyp()
        return best.hypstr if best else ""

    def unknown(self, text: str) -> list[str]:
        """Words of a text that the recogniser's dictionary lacks: these can be neither heard nor aligned."""
        decoder = self._decoder("align", {"lm": None})
        return [word for word in dict.fromkeys(scored_words(text)) if decoder.lookup_word(word) is None]

    def align(self, pcm: np.ndarray, rate_hz: int, text: str) -> list[WordTime] | None:
        """Where each word of a known text lies; None where a word is unknown or the sound does not hold the text."""
        words = scored_words(text)
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
        decoder.start_utt()
        if len(pcm):
            decoder.process_raw(at_16k(pcm, rate_hz).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()

    def _decoder(self, name: str, config: dict[str, Any]) -> Any:
        if name not in self._decoders:
            try:
                from pocketsphinx import Decoder
            except ImportError as error:
                raise NeedsPackage("the recogniser needs pocketsphinx", "pip install pocketsphinx") from error
            # The mean is taken over each recording, so that an answer does not depend on earlier ones.
            self._decoders[name] = Decoder(loglevel="FATAL", cmn="batch", **config)
        return self._decoders[name]


Sound = tuple[np.ndarray, int]


def transcribe_all(
    sounds: Sequence[Sound], *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[str]:
    """Transcripts of many (pcm, rate_hz), in order, by several processes; ``on_done`` is called after each."""
    return _map(_transcribe, [(sound,) for sound in sounds], workers, on_done)


def align_all(
    sounds: Sequence[Sound], texts: Sequence[str], *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[list[WordTime] | None]:
    """Alignments of many (pcm, rate_hz) with their texts, in order, by several processes."""
    return _map(_align, list(zip(sounds, texts, strict=True)), workers, on_done)


_own: list[Recogniser] = []  # one per process: loading the model takes longer than a sentence


def _recogniser() -> Recogniser:
    if not _own:
        _own.append(Recogniser())
    return _own[0]


def _transcribe(sound: Sound) -> str:
    return _recogniser().transcribe(*sound)


def _align(sound: Sound, text: str) -> list[WordTime] | None:
    return _recogniser().align(*sound, text)


def _map(job: Callable[..., Any], items: list[tuple[Any, ...]], workers: int, on_done: Any) -> list[Any]:
    if workers <= 1 or len(items) <= 1:
        out = []
        for item in items:
            out.append(job(*item))
            if on_done:
                on_done()
        return out
    # A fresh process, not a fork: the caller may hold an engine's threads.
    with ProcessPoolExecutor(min(workers, len(items)), multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(job, *item) for item in items]
        for future in as_completed(futures):
            future.result()
            if on_done:
                on_done()
        return [future.result() for future in futures]
