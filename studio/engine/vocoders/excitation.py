"""Excitation of the source-filter vocoders: pulses, noise, and minimum-phase filters.

Every function is stateless; phases, positions and tails are arguments and results, so that a stream continues exactly.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from studio.engine.nets.sampling import MASK32, hash32


def uniform_noise(seed: Tensor, position: Tensor, samples: int) -> Tensor:
    """White noise of unit power as a pure function of seed and sample index, so that it can be split anywhere.

    Args:
        seed: [B] int64.
        position: [B] int64, the index of the first sample.

    Returns:
        [B, samples] float32, uniform in +-sqrt(3).
    """
    index = position[:, None] + torch.arange(samples, device=position.device)
    key = hash32((seed & MASK32) + 0x9E3779B9)[:, None]
    bits = hash32((index & MASK32) ^ key)
    return (bits.to(torch.float32) - 2.0**31) * (math.sqrt(3.0) / 2.0**31)


def pulse_train(
    f0_hz: Tensor,
    before_hz: Tensor,
    phase: Tensor,
    rests: Tensor,
    *,
    hop_samples: int,
    sample_rate_hz: int,
    ahead_samples: int = 0,
) -> tuple[Tensor, Tensor]:
    """Band-limited pulses of unit power, by the closed form of a sum of cosines (Dirichlet's kernel).

    In float64 throughout: a phase is a long sum, and the hundredth harmonic multiplies its error. The highest harmonic
    fades in and out with the frequency: a jump between whole numbers could come from rounding alone.

    Args:
        f0_hz: [B, S] float64, the frequency reached at the end of each hop (linear within the hop).
        before_hz: [B] float64, the frequency at the start of the first hop.
        phase: [B] float64, in cycles, before the first sample.
        rests: [B, S] bool, hops after which the phase is reset to 0, so that rounding errors do not outlive a pause.
        ahead_samples: continuation of each hop after its end, at the frequency reached there.

    Returns:
        Pulses [B, S, hop_samples + ahead_samples] float64, and the phase [B] after the last sample, modulo 1.
    """
    start = torch.cat((before_hz[:, None], f0_hz[:, :-1]), dim=1)
    n = torch.arange(1, hop_samples + 1, dtype=torch.float64, device=f0_hz.device)
    cycles = (start + f0_hz) * (hop_samples / (2 * sample_rate_hz))
    total = cycles.cumsum(1)
    mark = torch.where(rests, torch.arange(1, total.shape[1] + 1, device=total.device), 0).cummax(1).values
    end = total - torch.cat((-phase[:, None], total), dim=1).gather(1, mark)
    begin = torch.cat((phase[:, None], end[:, :-1]), dim=1)[:, :, None]
    bend = ((f0_hz - start) / (2 * hop_samples))[:, :, None]
    phi = begin + (bend * n + start[:, :, None]) * (n / sample_rate_hz)
    if ahead_samples:
        ahead = torch.arange(1, ahead_samples + 1, dtype=torch.float64, device=f0_hz.device)
        phi = torch.cat((phi, phi[:, :, -1:] + f0_hz[:, :, None] * (ahead / sample_rate_hz)), dim=2)
    phi = phi - phi.round()
    fitting = (0.48 * sample_rate_hz / torch.maximum(start, f0_hz))[:, :, None]
    harmonics = fitting.floor()
    highest = fitting - harmonics
    angle = (phi.abs() * math.pi).clamp_min(1e-9)  # the kernel is even, and its value at 0 is that of 1e-9
    kernel = torch.sin(angle * (2 * harmonics + 1)) / torch.sin(angle)
    fading = 2 * highest * torch.cos(angle * (2 * harmonics + 2))
    return (kernel - 1 + fading) * torch.rsqrt(2 * (harmonics + highest.square())), end[:, -1] % 1.0


def band_centres_hz(bands: int, sample_rate_hz: int) -> Tensor:
    """Centres [bands] from 0 to the Nyquist frequency, even on the Slaney mel scale (linear to 1 kHz, then log)."""
    knee_hz, knee, slope = 1000.0, 15.0, math.log(6.4) / 27
    mel = torch.linspace(0, knee + math.log(sample_rate_hz / 2 / knee_hz) / slope, bands, dtype=torch.float64)
    return torch.where(mel < knee, mel * (knee_hz / knee), knee_hz * torch.exp((mel - knee) * slope))


def interpolation(knots: Tensor, points: Tensor) -> Tensor:
    """The matrix [len(knots), len(points)] of linear interpolation; constant beyond the outer knots."""
    right = torch.searchsorted(knots, points).clamp(1, len(knots) - 1)
    left = right - 1
    share = ((points - knots[left]) / (knots[right] - knots[left])).clamp(0, 1)
    matrix = torch.zeros(len(knots), len(points), dtype=knots.dtype)
    column = torch.arange(len(points))
    matrix[left, column] = 1 - share
    matrix[right, column] += share
    return matrix


def minimum_phase_basis(bands: int, fft: int, sample_rate_hz: int) -> Tensor:
    """The linear map from a log envelope in bands to the log spectrum of its minimum-phase filter.

    Interpolation to bins, the cepstrum, its folding onto positive time and the way back are linear, so they are one
    matrix; only the exponential after it is not.

    Returns:
        [bands, 2 * (fft // 2 + 1)] float32: log magnitudes of the bins, then their phases in radians.
    """
    assert fft % 2 == 0, "the folding below is for even lengths"
    bins = torch.linspace(0, sample_rate_hz / 2, fft // 2 + 1, dtype=torch.float64)
    log_magnitude = interpolation(band_centres_hz(bands, sample_rate_hz), bins)
    cepstrum = torch.fft.irfft(log_magnitude.to(torch.complex128), n=fft)
    fold = torch.zeros(fft, dtype=torch.float64)
    fold[0] = fold[fft // 2] = 1
    fold[1 : fft // 2] = 2
    spectrum = torch.fft.rfft(cepstrum * fold)
    return torch.cat((spectrum.real, spectrum.imag), dim=1).to(torch.float32)


def filtered(
    excitation: Tensor, log_envelope: Tensor, to_spectrum: Callable[[Tensor], Tensor], tail: Tensor, fft: int
) -> tuple[Tensor, Tensor]:
    """Filter each hop of each source by its minimum-phase filter, sum the sources, overlap-add the hops.

    Args:
        excitation: [B, S, sources, hop].
        log_envelope: [B, S, sources, bands], natural log of the gain.
        to_spectrum: the map of ``minimum_phase_basis``.
        tail: [B, overlaps, hop], the ringing of earlier hops; fft = (overlaps + 1) * hop.

    Returns:
        Samples [B, S * hop] and the next tail.
    """
    log_magnitude, angle = to_spectrum(log_envelope).chunk(2, dim=-1)
    real, imag = multiply_polar(torch.fft.rfft(excitation, n=fft), log_magnitude.exp(), angle)
    return overlap_add(torch.fft.irfft(torch.complex(real.sum(2), imag.sum(2)), n=fft), tail)


def multiply_polar(spectrum: Tensor, gain: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """The real and imaginary parts of a complex spectrum times gain and phase in radians, all [..., bins].

    In real numbers: autograd's complex product costs several times as much.
    """
    real, imag = gain * angle.cos(), gain * angle.sin()
    return spectrum.real * real - spectrum.imag * imag, spectrum.real * imag + spectrum.imag * real


def overlap_add(responses: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
    """Add responses that begin one hop after each other. Returns samples [B, S * hop] and the next tail.

    Args:
        responses: [B, S, (overlaps + 1) * hop].
        tail: [B, overlaps, hop], the ends of earlier responses.
    """
    overlaps, hop = tail.shape[1:]
    batch, hops, _ = responses.shape
    parts = responses.view(batch, hops, overlaps + 1, hop)
    out = torch.cat((tail, tail.new_zeros(batch, hops, hop)), dim=1)
    for late in range(overlaps + 1):
        out[:, late : late + hops] += parts[:, :, late]
    return out[:, :hops].reshape(batch, hops * hop), out[:, hops:]
