"""The source-filter vocoder on a CPU, in numpy over the slots' own memory: what ``sourcefilter.py`` computes.

A frame is 600 samples: most of what torch takes for it are calls. Products and blocks are compiled and take every hop
alone, so that samples depend neither on who shares the batch (law 3) nor on how many frames come at once (law 2).
"""

import itertools
from collections.abc import Iterable

import numpy as np
from torch import nn

from studio.engine.compiled import kernels
from studio.engine.compiled.panels import Panels
from studio.engine.compiled.sources import sources
from studio.engine.nets.products import one_blas_thread
from studio.engine.vocoders.base import State
from studio.engine.vocoders.sourcefilter import (
    PITCH_SHARPNESS,
    REST_LOGIT,
    CausalBlock,
    SourceFilter,
    SourceFilterState,
)


class Norm:
    """A trained ``LayerNorm``."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.eps = np.float32(norm.eps)
        self.gain, self.shift = norm.weight.detach().numpy().copy(), norm.bias.detach().numpy().copy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[..., D] without its mean, at unit variance, scaled and shifted."""
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty_like(rows)
        kernels.normed(rows, self.eps, self.gain, self.shift, out)
        return out.reshape(x.shape)


class Block:
    """A ``CausalBlock``, compiled."""

    def __init__(self, block: CausalBlock) -> None:
        self._norm, self._wide, self._narrow = Norm(block.norm), linear(block.wide), linear(block.narrow)
        self._taps = block.depthwise.detach().numpy().copy()

    def __call__(self, x: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """``x [B, T, C]`` with what came before, ``tail [B, kernel - 1, C]``, which moves on: [B, T, C]."""
        norm, wide, narrow = self._norm, self._wide, self._narrow
        return kernels.causal_block(
            x, tail, self._taps, norm.eps, norm.gain, norm.shift, wide.numbers, wide.bias, narrow.numbers, narrow.bias
        )


class SourceFilterOnHost:
    """A trained ``SourceFilter`` made ready to run on a CPU.

    Args:
        window: of a hop's sources, float32 [hop_samples], or more where it reaches over the next hops; flat unless
            given.
    """

    def __init__(self, trained: SourceFilter, window: np.ndarray | None = None) -> None:
        one_blas_thread()
        self._window = np.ones(trained.config.hop_samples, np.float32) if window is None else window
        self.config = c = trained.config
        self._enter = linear(trained.enter)
        self._coarse = blocks(trained.coarse)
        self._upsample = linear(trained.upsample)
        self._fine = blocks(trained.fine)
        self._norm, self._heads = Norm(trained.norm), linear(trained.heads)
        self._parts = parts(c.pitch_classes, 1, c.envelope_bands, c.aperiodicity_bands)
        self._to_spectrum, self._to_bands = Panels(trained.to_spectrum.weight), Panels(trained.to_bands.weight)
        self._log_pitches = trained.log_pitches.numpy()

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def step(self, mels: np.ndarray, slots: "Arrays", rows: np.ndarray) -> np.ndarray:
        """Samples of each row's frames, and its slot moved on.

        Args:
            mels: float32 [B, T, channels].
            rows: int64 [B], the slots.

        Returns:
            float32 [B, T * frame_samples] in [-1, 1].
        """
        c = self.config
        tails = [tail[rows] for tail in slots.tails]
        (pitch, voicing, envelope, aperiodicity), hidden = self._controls(mels, tails)
        f0_hz = self._pitch_hz(pitch)
        phase, rests = slots.phase[rows], voicing[:, :, 0] < REST_LOGIT
        place = (slots.seed[rows], slots.position[rows], c.sample_rate_hz, c.hop_samples)
        made = sources(f0_hz, slots.f0_hz[rows], phase, rests, *place, self._window)
        spectra = self._spectra(self._envelopes(voicing, envelope, aperiodicity))
        pcm, ringing = overlapped(self._responses(made, spectra, hidden, tails), slots.ringing[rows])
        slots.position[rows] += f0_hz.shape[1] * c.hop_samples
        slots.phase[rows], slots.f0_hz[rows], slots.ringing[rows] = phase, f0_hz[:, -1], ringing
        for kept, tail in zip(slots.tails, tails, strict=True):
            kept[rows] = tail
        return np.clip(pcm, -1, 1, out=pcm)

    def _controls(self, mels: np.ndarray, tails: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """What the net says of each hop, as ``sourcefilter.Controls``, and its last hidden layer; the tails move on."""
        c, (rows, steps, _) = self.config, mels.shape
        scaled = (mels - np.float32(c.mel_mean)) * np.float32(1 / c.mel_scale)
        x = self._enter(scaled)
        for block, tail in zip(self._coarse, tails, strict=False):
            x = block(x, tail)
        x = self._upsample(x).reshape(rows, steps * c.upsampling, -1)
        for block, tail in zip(self._fine, tails[len(self._coarse) :], strict=False):
            x = block(x, tail)
        hidden = self._norm(x)
        said = self._heads(hidden)
        return [said[..., part] for part in self._parts], hidden

    def _pitch_hz(self, logits: np.ndarray) -> np.ndarray:
        scaled = logits.astype(np.float64) * PITCH_SHARPNESS
        share = np.exp(scaled - scaled.max(-1, keepdims=True))
        return np.exp(np.vecdot(share, self._log_pitches) / share.sum(-1))

    def _envelopes(self, voicing: np.ndarray, envelope: np.ndarray, aperiodicity: np.ndarray) -> np.ndarray:
        """Natural-log envelopes [B, S, 2, bands] of pulses and of noise."""
        voiced = 1 / ((1 + np.exp(-voicing)) * (1 + np.exp(-self._to_bands(-aperiodicity))))
        gains = np.stack((voiced, 1 - voiced), axis=2)
        np.log(np.maximum(gains, np.float32(1e-6), out=gains), out=gains)
        gains *= np.float32(0.5)
        gains += envelope[:, :, None]
        return gains

    def _spectra(self, log_envelope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Minimum-phase filters of envelopes [B, S, 2, bands]: log magnitudes and phases, [B, S, 2, bins] each."""
        spectrum, bins = self._to_spectrum(log_envelope), self.config.fft // 2 + 1
        return spectrum[..., :bins], spectrum[..., bins:]

    def _responses(
        self, made: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """What each hop's windowed sources [B, S, 2, samples] sound like, [B, S, fft], as far as they ring."""
        return turned(made, *spectra, self.config.fft)


def linear(layer: nn.Linear) -> Panels:
    """A linear layer made ready."""
    return Panels(layer.weight, layer.bias)


def parts(*sizes: int) -> list[slice]:
    """Slices of so many channels, one after the other."""
    ends = np.cumsum((0, *sizes)).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(ends)]


def turned(sources: np.ndarray, log_magnitude: np.ndarray, angle: np.ndarray, fft: int) -> np.ndarray:
    """Sources [B, S, 2, samples] filtered by spectra [B, S, 2, bins], and added: [B, S, fft]."""
    response = np.empty(angle.shape, np.complex64)
    gain = np.exp(log_magnitude)
    np.multiply(gain, np.cos(angle), out=response.real)
    np.multiply(gain, np.sin(angle), out=response.imag)
    response *= np.fft.rfft(sources, n=fft)
    return np.fft.irfft(response[:, :, 0] + response[:, :, 1], n=fft)


def overlapped(responses: np.ndarray, tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See ``excitation.overlapped``."""
    overlaps, hop = tail.shape[1:]
    rows, hops, _ = responses.shape
    parts = responses.reshape(rows, hops, overlaps + 1, hop)
    out = np.concatenate((tail, np.zeros((rows, hops, hop), np.float32)), axis=1)
    for late in range(hops):  # in the order in which they come, so that sums are the same for any number at once
        out[:, late : late + overlaps + 1] += parts[:, late]
    return out[:, :hops].reshape(rows, -1), out[:, hops:]


class Arrays:
    """A ``SourceFilterState`` as arrays over the same memory."""

    def __init__(self, state: State) -> None:
        assert isinstance(state, SourceFilterState)
        self.position, self.seed = state.position.numpy(), state.seed.numpy()
        self.phase, self.f0_hz = state.phase.numpy(), state.f0_hz.numpy()
        self.ringing, self.tails = state.ringing.numpy(), [tail.numpy() for tail in state.tails]


def blocks(modules: Iterable[nn.Module]) -> list[Block]:
    """A net's ``CausalBlock``s made ready."""
    return [Block(module) for module in modules if isinstance(module, CausalBlock)]
