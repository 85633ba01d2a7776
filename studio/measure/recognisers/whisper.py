"""Whisper (Radford et al. 2022) through faster-whisper: the recogniser that tables print.

It repairs nonsense into words, so its error rate is read beside the one of the speech that a voice learned from.
"""

import importlib.metadata
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.cards import sha256_of
from studio.core.clips import to_float
from studio.core.errors import BadFile, NeedsPackage
from studio.core.folders import expanded
from studio.measure.signal.resample import at_16k
from studio.measure.timing.word_timing import SpokenSpan

HUB_NAME = "base"
_FILES = ("model.bin", "config.json", "tokenizer.json", "vocabulary.*")
_LIKE_A_PATH = ("/", ".", "~")
# Section 4.5 of the paper: where the best beam repeats itself, or is unlikely, warmer and warmer draws take its place.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MOST_COMPRESSED = 2.4
_LEAST_LOG_PROBABILITY = -1.0
_ELSE = "give a folder of them (--recogniser whisper:FOLDER), or take --recogniser pocketsphinx, which needs none"


class Whisper:
    """Transcribes int16 sound at any rate as English, on one thread of the CPU in float32.

    Args:
        weights: a folder as faster-whisper reads it, or a name on the hub (``base``, ``small.en``); empty for ``base``.
            What the hub's cache holds is not fetched again.

    Raises:
        BadFile: the weights are missing, incomplete, or cannot be fetched.
        BadOption: they are looked for in the home folder, and none is known.
        NeedsPackage: faster-whisper is not installed.
    """

    def __init__(self, weights: str = "") -> None:
        self._name = weights or HUB_NAME
        self._folder = _folder_of(self._name)

    @property
    def about(self) -> dict[str, str]:
        """The weights by name and sha256."""
        return {
            "name": "whisper",
            "version": f"faster-whisper {importlib.metadata.version('faster-whisper')}",
            "weights": Path(self._name).name,
            "sha256": self._sha256,
        }

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """The words that are heard, written as prose; empty where nothing is."""
        sound = to_float(at_16k(pcm, rate_hz))
        if not len(sound):
            return ""
        segments = _listen(self._model, sound, _TEMPERATURES[:1])
        if any(_doubtful(one) for one in segments):
            # Draws follow from the seed and from all drawn since a model began: a new one answers the same each time.
            import ctranslate2

            ctranslate2.set_random_seed(0)
            segments = _listen(self._load(), sound, _TEMPERATURES)
        return " ".join(one.text.strip() for one in segments).strip()

    def words(self, pcm: np.ndarray, rate_hz: int) -> list[SpokenSpan]:
        """The words that are heard and when, by the attention of some of its heads; empty where nothing is."""
        sound = to_float(at_16k(pcm, rate_hz))
        if not len(sound):
            return []
        segments = _listen(self._model, sound, _TEMPERATURES[:1], with_words=True)
        return [SpokenSpan(word.word.strip(), word.start, word.end) for one in segments for word in one.words or ()]

    @cached_property
    def _sha256(self) -> str:
        return sha256_of(self._folder / "model.bin")

    @cached_property
    def _model(self) -> Any:
        return self._load()

    def _load(self) -> Any:
        from faster_whisper import WhisperModel

        try:
            return WhisperModel(str(self._folder), device="cpu", compute_type="float32", cpu_threads=1)
        except (RuntimeError, ValueError, OSError) as error:
            raise BadFile(f"whisper's weights in {self._folder} cannot be read: {error}", _ELSE) from error


def _listen(model: Any, sound: np.ndarray, temperatures: tuple[float, ...], *, with_words: bool = False) -> list[Any]:
    """Segments heard in float32 [T] at 16 kHz."""
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


def _doubtful(segment: Any) -> bool:
    return segment.compression_ratio > _MOST_COMPRESSED or segment.avg_logprob < _LEAST_LOG_PROBABILITY


def _folder_of(weights: str) -> Path:
    """The folder of weights on this machine: as given, from the hub's cache, or fetched."""
    try:
        from faster_whisper import download_model
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError as error:
        raise NeedsPackage(
            "whisper needs faster-whisper",
            "pip install 'streaming-tts-studio[eval]', or take --recogniser pocketsphinx",
        ) from error
    folder = expanded(Path(weights), "give an absolute path, or set HOME")
    if folder.is_dir() or weights.startswith(_LIKE_A_PATH):
        return _whole(folder)
    expanded(Path(HF_HUB_CACHE), "set HOME or HF_HOME")  # the hub would make a folder "~" in the working directory
    try:
        return _whole(Path(download_model(weights, local_files_only=True)))
    except ValueError as error:
        raise BadFile(f"{weights!r} is neither a folder nor a name of whisper's weights: {error}", _ELSE) from error
    except OSError:  # not in the cache
        pass
    try:
        return _whole(Path(download_model(weights)))
    except OSError as error:
        why = str(error).splitlines()[0]
        raise BadFile(f"whisper's weights {weights!r} are not here and cannot be fetched ({why})", _ELSE) from error


def _whole(folder: Path) -> Path:
    """The folder, if it holds all files: faster-whisper would look for a missing tokenizer on the hub."""
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder}", _ELSE)
    missing = [name for name in _FILES if not any(folder.glob(name))]
    if missing:
        raise BadFile(f"{folder} holds no {' and no '.join(missing)}", "a folder of whisper's weights for CTranslate2")
    return folder
