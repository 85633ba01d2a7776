"""The source-filter vocoder on a CPU, in numpy over the slots' own memory: what ``sourcefilter.py`` computes.

A frame is 600 samples: most of what torch takes for it are calls. Products take a frame's hops together and every frame
alone, so that samples depend neither on who shares the batch (law 3) nor on how many frames come at once (law 2).
"""

import itertools
from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from studio.engine.nets.products import one_blas_thread
from studio.engine.vocoders.base import State
from studio.engine.vocoders.sourcefilter import (
    PITCH_SHARPNESS,
    REST_LOGIT,
    CausalBlock,
    SourceFilter,
    SourceFilterState,
)

_SQRT3 = float(np.sqrt(3.0))


class Linear:
    """A linear layer, and the norm before it where there is one: its gain and bias are folded in."""

    def __init__(self, layer: nn.Linear, norm: nn.LayerNorm | None = None) -> None:
        weight, bias = layer.weight.detach(), layer.bias.detach()
        if norm is not None:
            bias = bias + weight @ norm.bias.detach()
            weight = weight * norm.weight.detach()
        self._weight, self._bias = np.ascontiguousarray(weight.numpy().T), bias.numpy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[B, T, D] -> [B, T, O], each of [B] alone."""
        found = np.matmul(x, self._weight)
        found += self._bias
        return found


class Block:
    """A ``CausalBlock`` for [F, T, C], where F frames of T hops follow each other within a row."""

    def __init__(self, block: CausalBlock) -> None:
        self._taps = block.depthwise.detach().numpy()
        self._eps = block.norm.eps
        self._wide, self._narrow = Linear(block.wide, block.norm), Linear(block.narrow)

    def __call__(self, x: np.ndarray, tail: np.ndarray, hops: int) -> tuple[np.ndarray, np.ndarray]:
        """``x [B, T, C]`` with what came before, ``tail [B, kernel - 1, C]``; ``hops`` a frame."""
        rows, steps, width = x.shape
        past = np.concatenate((tail, x), axis=1)
        row, step, channel = past.strides
        shape, strides = (rows, steps, len(self._taps), width), (row, step, step, channel)
        mixed = np.add.reduce(np.ndarray(shape, np.float32, past, 0, strides) * self._taps, axis=2)
        wide = self._wide(normed(mixed, self._eps).reshape(-1, hops, width))
        fed = torch.nn.functional.gelu(torch.from_numpy(wide)).numpy()
        return x + self._narrow(fed).reshape(rows, steps, width), past[:, steps:]


def normed(x: np.ndarray, eps: float) -> np.ndarray:
    """[..., D] without its mean, at unit variance."""
    x = x - np.add.reduce(x, axis=-1, keepdims=True) * np.float32(1 / x.shape[-1])
    return x / np.sqrt(np.vecdot(x, x) * np.float32(1 / x.shape[-1]) + np.float32(eps))[..., None]


class SourceFilterOnHost:
    """A trained ``SourceFilter`` made ready to run on a CPU.

    Args:
        ahead_samples: how far a hop's sources go on after its end, for windows that reach over the next ones.
    """

    def __init__(self, trained: SourceFilter, ahead_samples: int = 0) -> None:
        one_blas_thread()
        self._ahead_samples = ahead_samples
        self.config = c = trained.config
        self._enter = Linear(trained.enter)
        self._coarse = blocks(trained.coarse)
        self._upsample = Linear(trained.upsample)
        self._fine = blocks(trained.fine)
        self._heads, self._eps = Linear(trained.heads, trained.norm), trained.norm.eps
        self._parts = parts(c.pitch_classes, 1, c.envelope_bands, c.aperiodicity_bands)
        self._to_spectrum, self._to_bands = trained.to_spectrum.transposed(), trained.to_bands.transposed()
        self._log_pitches = trained.log_pitches.numpy()
        self._within = np.arange(1, c.hop_samples + 1, dtype=np.float64)

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
        pulses, phase = self._pulses(f0_hz, slots.f0_hz[rows], slots.phase[rows], voicing[:, :, 0] < REST_LOGIT)
        hops = f0_hz.shape[1]
        noise = self._noise(slots.seed[rows], slots.position[rows], hops)
        sources = np.stack((pulses.astype(np.float32), noise), axis=2)
        spectra = self._spectra(self._envelopes(voicing, envelope, aperiodicity))
        pcm, ringing = overlapped(self._responses(sources, spectra, hidden, tails), slots.ringing[rows])
        slots.position[rows] += hops * c.hop_samples
        slots.phase[rows], slots.f0_hz[rows], slots.ringing[rows] = phase, f0_hz[:, -1], ringing
        for kept, tail in zip(slots.tails, tails, strict=True):
            kept[rows] = tail
        return np.clip(pcm, -1, 1, out=pcm)

    def _controls(self, mels: np.ndarray, tails: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """What the net says of each hop, as ``sourcefilter.Controls``, and its last hidden layer; the tails move on."""
        c, (rows, steps, _) = self.config, mels.shape
        scaled = (mels - np.float32(c.mel_mean)) * np.float32(1 / c.mel_scale)
        x = self._enter(scaled.reshape(rows * steps, 1, -1)).reshape(rows, steps, -1)
        for k, block in enumerate(self._coarse):
            x, tails[k] = block(x, tails[k], 1)
        x = self._upsample(x.reshape(rows * steps, 1, -1)).reshape(rows, steps * c.upsampling, -1)
        for k, block in enumerate(self._fine, len(self._coarse)):
            x, tails[k] = block(x, tails[k], c.upsampling)
        hidden = normed(x, self._eps)
        said = self._heads(hidden.reshape(rows * steps, c.upsampling, -1)).reshape(rows, steps * c.upsampling, -1)
        return [said[..., part] for part in self._parts], hidden

    def _pitch_hz(self, logits: np.ndarray) -> np.ndarray:
        scaled = logits.astype(np.float64) * PITCH_SHARPNESS
        share = np.exp(scaled - scaled.max(-1, keepdims=True))
        return np.exp(np.vecdot(share, self._log_pitches) / share.sum(-1))

    def _envelopes(self, voicing: np.ndarray, envelope: np.ndarray, aperiodicity: np.ndarray) -> np.ndarray:
        """Natural-log envelopes [B, S, 2, bands] of pulses and of noise."""
        rows, hops, bands = envelope.shape
        c = self.config
        periodic = np.matmul(-aperiodicity.reshape(-1, c.upsampling, c.aperiodicity_bands), self._to_bands)
        voiced = 1 / ((1 + np.exp(-voicing)) * (1 + np.exp(-periodic.reshape(rows, hops, bands))))
        gains = np.stack((voiced, 1 - voiced), axis=2)
        np.log(np.maximum(gains, np.float32(1e-6), out=gains), out=gains)
        gains *= np.float32(0.5)
        gains += envelope[:, :, None]
        return gains

    def _pulses(
        self, f0_hz: np.ndarray, before_hz: np.ndarray, phase: np.ndarray, rests: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``excitation.pulse_train``: [B, S, hop + ahead] float64, and the phase after the last hop [B]."""
        c, n = self.config, self._within
        start = np.concatenate((before_hz[:, None], f0_hz[:, :-1]), axis=1)
        cycles = (start + f0_hz) * (c.hop_samples / (2 * c.sample_rate_hz))
        begin = np.empty_like(cycles)
        for hop in range(cycles.shape[1]):  # one after another: sums that do not depend on how many come at once
            begin[:, hop] = phase
            phase = np.where(rests[:, hop], 0.0, (phase + cycles[:, hop]) % 1.0)
        bend = ((f0_hz - start) / (2 * c.hop_samples))[:, :, None]
        phi = begin[:, :, None] + (bend * n + start[:, :, None]) * (n / c.sample_rate_hz)
        if self._ahead_samples:
            ahead = np.arange(1, self._ahead_samples + 1) / c.sample_rate_hz
            phi = np.concatenate((phi, phi[:, :, -1:] + f0_hz[:, :, None] * ahead), axis=2)
        phi -= np.rint(phi)
        fitting = (0.48 * c.sample_rate_hz / np.maximum(start, f0_hz))[:, :, None]
        harmonics = np.floor(fitting)
        highest = fitting - harmonics
        angle = np.maximum(np.abs(phi) * np.pi, 1e-9)
        kernel = np.sin(angle * (2 * harmonics + 1)) / np.sin(angle)
        kernel += 2 * highest * np.cos(angle * (2 * harmonics + 2)) - 1
        return kernel / np.sqrt(2 * (harmonics + highest * highest)), phase

    def _noise(self, seed: np.ndarray, position: np.ndarray, hops: int) -> np.ndarray:
        """See ``excitation.uniform_noise``: float32 [B, S, hop + ahead]."""
        hop, ahead = self.config.hop_samples, self._ahead_samples
        index = position[:, None] + np.arange(hops * hop + ahead)
        key = hash32((seed.astype(np.uint32) + np.uint32(0x9E3779B9))[:, None])
        bits = hash32(index.astype(np.uint32) ^ key).astype(np.float32)
        bits -= np.float32(2.0**31)
        bits *= np.float32(_SQRT3 / 2.0**31)
        row, sample = bits.strides
        shape, strides = (len(seed), hops, hop + ahead), (row, hop * sample, sample)
        return np.ndarray(shape, np.float32, bits, 0, strides)

    def _spectra(self, log_envelope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Minimum-phase filters of envelopes [B, S, 2, bands]: log magnitudes and phases, [B, S, 2, bins] each."""
        rows, hops, kinds, bands = log_envelope.shape
        spectrum = np.matmul(log_envelope.reshape(-1, self.config.upsampling * kinds, bands), self._to_spectrum)
        spectrum, bins = spectrum.reshape(rows, hops, kinds, -1), self.config.fft // 2 + 1
        return spectrum[..., :bins], spectrum[..., bins:]

    def _responses(
        self, sources: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """What each hop's sources [B, S, 2, hop + ahead] sound like, [B, S, fft], as far as they ring."""
        return turned(sources, *spectra, self.config.fft)


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


def hash32(x: np.ndarray) -> np.ndarray:
    """``studio.engine.hashing.hash32`` of uint32."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def blocks(modules: Iterable[nn.Module]) -> list[Block]:
    """A net's ``CausalBlock``s made ready."""
    return [Block(module) for module in modules if isinstance(module, CausalBlock)]
