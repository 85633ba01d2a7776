"""faster-whisper without weights: the model that the adapter uses, scripted."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from studio.measure.signal import RATE_HZ


@dataclass
class FakeWhisper:
    """Stand-in for the package: its model, its library's random seed, and counters for tests.

    A sound with energy in its first second is speech with the transcript ``script``. A sound that starts with a loud
    click is doubtful: the model repeats itself at temperature 0, and samples at higher temperatures depend on the
    seed and on all earlier samples of this model, as in the real one.
    """

    script: str = "In being, comparatively modern."
    seed: int | None = None
    loads: int = 0

    def set_random_seed(self, seed: int) -> None:
        """ctranslate2's: of models that are made from now on."""
        self.seed = seed

    def model(self, folder: str, *, device: str, compute_type: str, cpu_threads: int) -> "_Model":
        """faster_whisper.WhisperModel."""
        assert (device, compute_type, cpu_threads) == ("cpu", "float32", 1)
        self.loads += 1
        return _Model(self.script, np.random.default_rng(self.seed))


class _Model:
    def __init__(self, script: str, drawing: np.random.Generator) -> None:
        self._script, self._drawing = script, drawing

    def transcribe(
        self,
        sound: np.ndarray,
        *,
        language: str,
        beam_size: int,
        condition_on_previous_text: bool,
        temperature: Sequence[float],
        compression_ratio_threshold: float,
        log_prob_threshold: float,
        word_timestamps: bool,
    ) -> tuple[Iterator[SimpleNamespace], SimpleNamespace]:
        assert (language, beam_size, condition_on_previous_text) == ("en", 5, False)
        assert sound.dtype == np.float32 and sound.ndim == 1 and len(sound)
        assert temperature[0] == 0.0 and temperature == sorted(temperature)
        segments = self._segments(sound, temperature, compression_ratio_threshold)
        if word_timestamps:
            segments = self._timed(segments)
        return segments, SimpleNamespace(language="en")

    def _timed(self, segments: Iterator[SimpleNamespace]) -> Iterator[SimpleNamespace]:
        """Words of a tenth of a second each with a space before them, like the real ones."""
        at = itertools.count()
        for one in segments:
            one.words = [
                SimpleNamespace(word=f" {word}", start=k / 10, end=(k + 1) / 10)
                for word, k in zip(one.text.split(), at, strict=False)
            ]
            yield one

    def _segments(self, sound: np.ndarray, temperature: Sequence[float], limit: float) -> Iterator[SimpleNamespace]:
        if not np.abs(sound[:RATE_HZ]).max() > 0.01:
            return
        if sound[4:20].mean() < 0.7:
            for part in self._script.split(", "):  # segments begin with a space, like the real ones
                yield SimpleNamespace(text=f" {part}", avg_logprob=-0.2, compression_ratio=1.3)
        elif len(temperature) == 1:
            yield SimpleNamespace(text=" no" * 200, avg_logprob=-0.1, compression_ratio=limit + 10)
        else:
            drawn = itertools.islice(iter(lambda: self._drawing.integers(1000), None), 3)
            yield SimpleNamespace(text=f" {list(drawn)}", avg_logprob=-1.5, compression_ratio=1.1)
