"""Vocoder losses: multi-resolution spectra, pitch and voicing; never the waveform itself."""

import math
from functools import cache

import torch
import torchaudio.functional as audio_functional
from torch import Tensor, nn
from torch.nn import functional as F

_FLOOR = 1e-5


def magnitudes(pcm: Tensor, fft: int, hop: int, window: Tensor) -> Tensor:
    """STFT magnitudes [B, fft / 2 + 1, frames] of `pcm [B, T]`; the window may be shorter than the transform."""
    spectrum = torch.stft(pcm, fft, hop, len(window), window, return_complex=True)
    return (spectrum.real**2 + spectrum.imag**2 + _FLOOR**2).sqrt()


class SpectralLoss(nn.Module):
    """Multi-resolution STFT loss (Yamamoto et al. 2020, equations 3 to 6) and the L1 distance of log mels.

    Args:
        ffts: transform lengths in samples; hops are a quarter.
        bands: mel bands of the second term, up to the Nyquist frequency.
    """

    filters: Tensor

    def __init__(self, sample_rate_hz: int, ffts: tuple[int, ...] = (256, 512, 1024, 2048), bands: int = 100) -> None:
        super().__init__()
        self.ffts = ffts
        self.mel_fft = 1024
        for fft in {*ffts, self.mel_fft}:
            self.register_buffer(f"window_{fft}", torch.hann_window(fft), persistent=False)
        filters = audio_functional.melscale_fbanks(
            self.mel_fft // 2 + 1, 0.0, sample_rate_hz / 2, bands, sample_rate_hz, norm="slaney", mel_scale="slaney"
        )
        self.register_buffer("filters", filters.T.contiguous(), persistent=False)

    def forward(self, generated: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Loss terms of sounds [B, T]: `stft` (convergence + log magnitude, mean of resolutions) and `mel`."""
        stft = generated.new_zeros(())
        mel = generated.new_zeros(())
        for fft in self.ffts:
            window = getattr(self, f"window_{fft}")
            a = magnitudes(generated, fft, fft // 4, window)
            with torch.no_grad():
                b = magnitudes(target, fft, fft // 4, window)
            convergence = (a - b).norm(dim=(1, 2)) / b.norm(dim=(1, 2)).clamp_min(_FLOOR)
            stft = stft + convergence.mean() + F.l1_loss(a.log(), b.log())
            if fft == self.mel_fft:
                mel = F.l1_loss((self.filters @ a + _FLOOR).log(), (self.filters @ b + _FLOOR).log())
        return {"stft": stft / len(self.ffts), "mel": mel}


def pitch_loss(logits: Tensor, f0_hz: Tensor, low_hz: float, high_hz: float) -> Tensor:
    """Cross-entropy of pitch classes against a narrow Gaussian around the target, over voiced hops.

    Args:
        logits: [B, S, classes], even on a log scale from ``low_hz`` to ``high_hz``.
        f0_hz: [B, S], 0 where unvoiced.
    """
    classes = logits.shape[-1]
    voiced = f0_hz > 0
    place = (f0_hz.clamp(low_hz, high_hz) / low_hz).log() * ((classes - 1) / math.log(high_hz / low_hz))
    index = torch.arange(classes, device=logits.device)
    bell = torch.softmax(-0.5 * ((index - place[..., None]) / 0.7) ** 2, dim=-1)
    each = -(bell * torch.log_softmax(logits, dim=-1)).sum(-1)
    return (each * voiced).sum() / voiced.sum().clamp_min(1)


def voicing_loss(logits: Tensor, f0_hz: Tensor) -> Tensor:
    """Binary cross-entropy of voicing logits [B, S, 1] against a pitch track [B, S]."""
    return F.binary_cross_entropy_with_logits(logits[..., 0], (f0_hz > 0).to(logits.dtype))


@cache
def _fine_filters(sample_rate_hz: int, channels: int, fft: int) -> Tensor:
    return audio_functional.melscale_fbanks(
        fft // 2 + 1, 0.0, sample_rate_hz / 2, channels, sample_rate_hz, norm="slaney", mel_scale="slaney"
    )


def fine_log_mel(pcm: Tensor, sample_rate_hz: int, hop: int, channels: int, fft: int = 1024) -> Tensor:
    """log10 mels [B, channels, T / hop] of `pcm [B, T]`, fine frame j centred on its own hop.

    The window is five hops, so the last fine frame of a dMel frame looks no further ahead than the dMel frame.
    """
    window = torch.hann_window(5 * hop, device=pcm.device)
    pad = (fft - hop) // 2
    sound = F.pad(pcm, (pad, fft - hop - pad))
    spectrum = torch.stft(sound, fft, hop, len(window), window, center=False, return_complex=True)
    mels = _fine_filters(sample_rate_hz, channels, fft).to(pcm).T @ spectrum.abs()
    return mels.clamp_min(_FLOOR).log10()
