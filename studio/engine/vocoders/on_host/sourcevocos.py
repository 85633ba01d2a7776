"""The source-filter vocoder with refined spectra on a CPU, in numpy: what ``vocoders/sourcevocos.py`` computes."""

import numpy as np

from studio.engine.vocoders.on_host.sourcefilter import Norm, SourceFilterOnHost, blocks, linear, parts, turned
from studio.engine.vocoders.sourcevocos import SourceVocos


class SourceVocosOnHost(SourceFilterOnHost):
    """A trained ``SourceVocos`` made ready to run on a CPU."""

    def __init__(self, trained: SourceVocos) -> None:
        super().__init__(trained, trained.hann.numpy())
        self._fade = trained.fade.numpy()
        self._tell, self._hear = linear(trained.tell), linear(trained.hear)
        self._refine = blocks(trained.refine)
        self._refine_norm, self._correct = Norm(trained.refine_norm), linear(trained.correct)
        self._corrections = parts(*[trained.config.fft // 2 + 1] * 3)

    def _responses(
        self, made: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """Each spectrum corrected bin by bin, the responses' ends faded."""
        c, (rows, hops) = self.config, made.shape[:2]
        x = self._hear(made.reshape(rows, hops, -1)) + self._tell(hidden)
        for block, tail in zip(self._refine, tails[-len(self._refine) :], strict=True):
            x = block(x, tail)
        said = self._correct(self._refine_norm(x))
        louder, later, noisier = (said[..., part] for part in self._corrections)
        log_magnitude, angle = spectra
        log_magnitude = log_magnitude + np.stack((louder, noisier), axis=2)
        angle = angle + np.stack((later, np.zeros_like(later)), axis=2)
        responses = turned(made, log_magnitude, angle, c.fft)
        responses *= self._fade
        return responses
