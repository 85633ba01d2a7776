"""Whisper (Radford et al. 2022) through faster-whisper: the recogniser of the tables.

It outputs words even for unintelligible audio: compare its error rate with that of the voice's training speech.
"""

import importlib.metadata
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.cards import sha256_of
from studio.core.clips import to_float
from studio.core.errors import BadFile, bad_file, needs
from studio.core.folders import expand_folder
from studio.measure.signal import at_16k
from studio.measure.word_timing import SpokenSpan

HUB_NAME = "base"
_FILES = ("model.bin", "config.json", "tokenizer.json", "vocabulary.*")
_LIKE_A_PATH = ("/", ".", "~")
# Section 4.5 of the paper: if the best beam is repetitive or unlikely, sample at increasing temperatures.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MOST_COMPRESSED = 2.4
_LEAST_LOG_PROBABILITY = -1.0
_ELSE = "give a folder of them (--recogniser whisper:FOLDER), or take --recogniser pocketsphinx, which needs none"


class Whisper:
    """Transcribes int16 sound at any rate as English, on one thread of the CPU in float32.

    Args:
        weights: a folder as faster-whisper reads it, or a name on the hub (``base``, ``small.en``); empty for ``base``.
            The hub's cache is used first.

    Raises:
        BadFile: the weights are missing, incomplete, or cannot be fetched.
        BadOption: the path needs a home folder, and none is known.
        NeedsPackage: faster-whisper is not installed.
    """

    def __init__(self, weights: str = "") -> None:
        self._name = weights or HUB_NAME
        self._folder = _folder_of(self._name)

    @property
    def about(self) -> dict[str, str]:
        """Name, version, weights and their sha256."""
        return {
            "name": "whisper",
            "version": f"faster-whisper {importlib.metadata.version('faster-whisper')}",
            "weights": Path(self._name).name,
            "sha256": self._sha256,
        }

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """Recognised words as prose; may be empty."""
        sound = to_float(at_16k(pcm, rate_hz))
        if not len(sound):
            return ""
        segments = _segments(self._model, sound, _TEMPERATURES[:1])
        if any(_is_unreliable(one) for one in segments):
            # Samples depend on the seed and on earlier draws of a model: a new model is deterministic.
            import ctranslate2

            ctranslate2.set_random_seed(0)
            segments = _segments(self._load(), sound, _TEMPERATURES)
        return " ".join(one.text.strip() for one in segments).strip()

    def words(self, pcm: np.ndarray, rate_hz: int) -> list[SpokenSpan]:
        """Recognised words with times from cross-attention; may be empty."""
        sound = to_float(at_16k(pcm, rate_hz))
        if not len(sound):
            return []
        segments = _segments(self._model, sound, _TEMPERATURES[:1], with_words=True)
        return [SpokenSpan(word.word.strip(), word.start, word.end) for one in segments for word in one.words or ()]

    @cached_property
    def _sha256(self) -> str:
        return sha256_of(self._folder / "model.bin")

    @cached_property
    def _model(self) -> Any:
        return self._load()

    def _load(self) -> Any:
        from faster_whisper import WhisperModel

        with bad_file(f"whisper's weights in {self._folder} cannot be read", _ELSE, RuntimeError, ValueError):
            return WhisperModel(str(self._folder), device="cpu", compute_type="float32", cpu_threads=1)


def _segments(model: Any, sound: np.ndarray, temperatures: tuple[float, ...], *, with_words: bool = False) -> list[Any]:
    """Transcribe float32 [T] at 16 kHz into segments."""
    segments, _ = model.transcribe(
        sound,
        language="en",
        beam_size=5,
        condition_on_previous_text=False,
        temperature=list(temperatures),
        compression_ratio_threshold=_MOST_COMPRESSED,
        log_prob_threshold=_LEAST_LOG_PROBABILITY,
        word_timestamps=with_words,
    )
    return list(segments)


def _is_unreliable(segment: Any) -> bool:
    return segment.compression_ratio > _MOST_COMPRESSED or segment.avg_logprob < _LEAST_LOG_PROBABILITY


def _folder_of(weights: str) -> Path:
    """The folder of weights: as given, from the hub's cache, or downloaded."""
    with needs(
        "whisper needs faster-whisper", do="pip install 'streaming-tts-studio[eval]', or take --recogniser pocketsphinx"
    ):
        from faster_whisper import download_model
        from huggingface_hub.constants import HF_HUB_CACHE
    folder = expand_folder(Path(weights), "give an absolute path, or set HOME")
    if folder.is_dir() or weights.startswith(_LIKE_A_PATH):
        return _checked(folder)
    expand_folder(
        Path(HF_HUB_CACHE), "set HOME or HF_HOME"
    )  # else the hub would create a folder "~" in the working directory
    try:
        return _checked(Path(download_model(weights, local_files_only=True)))
    except ValueError as error:
        raise BadFile(f"{weights!r} is neither a folder nor a name of whisper's weights: {error}", _ELSE) from error
    except OSError:  # not in the cache
        pass
    try:
        return _checked(Path(download_model(weights)))
    except OSError as error:
        why = str(error).splitlines()[0]
        raise BadFile(f"whisper's weights {weights!r} are not here and cannot be fetched ({why})", _ELSE) from error


def _checked(folder: Path) -> Path:
    """Raises BadFile unless a folder has all files: faster-whisper would fetch a missing tokenizer from the hub."""
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder}", _ELSE)
    missing = [name for name in _FILES if not any(folder.glob(name))]
    if missing:
        raise BadFile(f"{folder} holds no {' and no '.join(missing)}", "a folder of whisper's weights for CTranslate2")
    return folder
