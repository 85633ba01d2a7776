"""The source-filter vocoder with refined spectra on a CPU, in numpy: what ``vocoders/sourcevocos.py`` computes."""

import numpy as np

from studio.engine.vocoders.on_host.sourcefilter import Linear, SourceFilterOnHost, blocks, normed, parts, turned
from studio.engine.vocoders.sourcevocos import SourceVocos


class SourceVocosOnHost(SourceFilterOnHost):
    """A trained ``SourceVocos`` made ready to run on a CPU."""

    def __init__(self, trained: SourceVocos) -> None:
        super().__init__(trained, trained.config.window - trained.config.hop_samples)
        self._hann, self._fade = trained.hann.numpy(), trained.fade.numpy()
        self._tell = Linear(trained.tell, trained.norm)
        self._hear = np.ascontiguousarray(trained.hear.weight.detach().numpy().T)
        self._refine = blocks(trained.refine)
        self._correct = Linear(trained.correct, trained.refine_norm)
        self._corrections = parts(*[trained.config.fft // 2 + 1] * 3)
        self._refine_eps = trained.refine_norm.eps

    def _responses(
        self, sources: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """The sources as windowed, each spectrum corrected bin by bin, the responses' ends faded."""
        c, (rows, hops) = self.config, sources.shape[:2]
        sources = sources * self._hann
        heard = np.matmul(sources.reshape(-1, c.upsampling, sources[0, 0].size), self._hear)
        x = (heard + self._tell(hidden.reshape(-1, c.upsampling, c.fine_width))).reshape(rows, hops, -1)
        for k, block in enumerate(self._refine, len(tails) - len(self._refine)):
            x, tails[k] = block(x, tails[k], c.upsampling)
        said = self._correct(normed(x, self._refine_eps).reshape(-1, c.upsampling, x.shape[-1]))
        louder, later, noisier = (said.reshape(rows, hops, -1)[..., part] for part in self._corrections)
        log_magnitude, angle = spectra
        log_magnitude = log_magnitude + np.stack((louder, noisier), axis=2)
        angle = angle + np.stack((later, np.zeros_like(later)), axis=2)
        responses = turned(sources, log_magnitude, angle, c.fft)
        responses *= self._fade
        return responses
