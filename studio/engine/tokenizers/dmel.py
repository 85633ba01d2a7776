"""dMel: the acoustic tokenizer of the shipped voices (Bai et al. 2024, used by paper 000, section III.A).

A frame is 25 ms: 80 mel channels, each one of 16 levels of log10 magnitude. Other modules take these numbers from here
or from the voice's card.
"""

import math
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from studio.core.errors import BadFile
from studio.core.time import TimeBase

ALPHABET = "dmel-80x16"
CHANNELS = 80
LEVELS = 16
PAD, BOS, EOS = 16, 17, 18  # ids of whole frames: the same id in every channel
SYMBOLS = 19
LOWEST, STEP = -7.0, 0.6  # log10 magnitude of level 0, and between levels
TIME_BASE = TimeBase(rate_hz=24_000, frame_samples=600, phase=300)
SILENCE_FRAMES = 10  # of the prompt that precedes every utterance (paper 000, section IV.D: 200 to 400 ms)

_ANALYSIS_HZ = 16_000
_HOP, _WINDOW, _FFT = 400, 800, 1024  # samples at 16 kHz
_LOW_HZ, _HIGH_HZ = 80.0, 7600.0
_FLOOR = 1e-10
_MAX_TAPS = 5_000_000  # approximate, of a resampler's polyphase filters
_ZEROS, _ROLLOFF = 64, 0.9475937167399596  # zero crossings of the filter on each side, cutoff as a share of Nyquist's
_RESAMPLED_AT_ONCE = 1 << 21  # samples
_MAX_DRIFT = 1e-6  # of an approximated rate: below a millisecond in ten minutes


def resample(pcm: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """Resample by a windowed sinc (Kaiser), [..., T] -> [..., T * to / from].

    Raises BadFile for rates whose ratio is no fraction of small integers (filters would take gigabytes).
    """
    if from_hz == to_hz:
        return pcm
    ratio = Fraction(to_hz, from_hz)
    near = ratio.limit_denominator(math.isqrt(_MAX_TAPS * from_hz // to_hz))
    if abs(near / ratio - 1) > _MAX_DRIFT:
        raise BadFile(
            f"{from_hz:,} samples a second cannot be made {to_hz:,}", "give 16000, 22050, 24000, 44100 or 48000"
        )
    step, made = near.denominator, near.numerator  # ``step`` samples become ``made``
    beside = step * math.ceil(_ZEROS / _ROLLOFF * max(1.0, step / made) / step + 1)  # the filter's reach
    block = step * max(1, _RESAMPLED_AT_ONCE // step, 4 * beside // step)
    length = pcm.shape[-1]
    if length <= block:
        return _resample(pcm, step, made)
    parts: list[Tensor] = []
    for at in range(0, length, block):  # the filters of ten minutes at once take more than a gigabyte
        first, stop = max(0, at - beside), min(length, at + block)
        part = _resample(pcm[..., first : stop + beside], step, made)
        parts.append(part[..., (at - first) // step * made :][..., : math.ceil((stop - at) * made / step)])
    return torch.cat(parts, dim=-1)


def _resample(pcm: Tensor, from_hz: int, to_hz: int) -> Tensor:
    import torchaudio.functional as audio_functional  # absent on bare machines, which analyse no recordings

    return audio_functional.resample(
        pcm,
        from_hz,
        to_hz,
        lowpass_filter_width=_ZEROS,
        rolloff=_ROLLOFF,
        resampling_method="sinc_interp_kaiser",
        beta=14.769656459379492,
    )


@cache
def _filterbank() -> Tensor:
    """Slaney mel filters, [513, 80]."""
    import torchaudio.functional as audio_functional

    return audio_functional.melscale_fbanks(
        _FFT // 2 + 1, _LOW_HZ, _HIGH_HZ, CHANNELS, _ANALYSIS_HZ, norm="slaney", mel_scale="slaney"
    )


def log_mel_16k(pcm: Tensor) -> Tensor:
    """log10 mel magnitudes of 16 kHz audio, [..., T] -> [..., 1 + T // 400, 80]."""
    window = torch.hann_window(_WINDOW, dtype=pcm.dtype, device=pcm.device)
    spectrum = torch.stft(pcm, _FFT, _HOP, _WINDOW, window, center=True, return_complex=True)
    magnitude = (spectrum.real**2 + spectrum.imag**2).clamp(min=_FLOOR).sqrt()
    mel = magnitude.transpose(-1, -2) @ _filterbank().to(pcm)
    return mel.clamp(min=_FLOOR).log10()


def log_mel(pcm: Tensor) -> Tensor:
    """log10 mel magnitudes of audio at the voice's rate, [..., T] -> [..., F, 80], F whole frames.

    Frame k is centred on sample 600 k and owns [600 k - 300, 600 k + 300); a last partial frame is dropped.
    """
    frames = (pcm.shape[-1] + TIME_BASE.phase) // TIME_BASE.frame_samples
    return log_mel_16k(resample(pcm, TIME_BASE.rate_hz, _ANALYSIS_HZ))[..., :frames, :]


def quantise(log_mels: Tensor) -> Tensor:
    """The nearest of the 16 levels of each bin, uint8, any shape."""
    return ((log_mels - LOWEST) / STEP).round().clamp(0, LEVELS - 1).to(torch.uint8)


def dequantise(levels: Tensor) -> Tensor:
    """log10 mel magnitudes of levels, float32, any shape."""
    return levels.to(torch.float32) * STEP + LOWEST


def encode(pcm: Tensor) -> Tensor:
    """Levels of audio at the voice's rate, [..., T] -> uint8 [..., F, 80]."""
    return quantise(log_mel(pcm))
