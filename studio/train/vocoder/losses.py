"""Vocoder losses: multi-resolution spectra, pitch and voicing, never the waveform itself; and discriminators.

Adversarial training uses the least-squares loss. VocStream has the ten-layer discriminators of ParallelWaveGAN
(Yamamoto et al. 2020; paper 000, section IV.A): dilated convolutions with leaky rectifiers, one score per step; one for
samples, one for fine frames. The other vocoders have small multi-period and multi-resolution ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import torch
import torchaudio.functional as audio_functional
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.overlapped import HifiGan, OverlappedVocoder
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import VocStream
from studio.train.fit.resources import training_dtype
from studio.train.vocoder.data import VocoderBatch

_FLOOR = 1e-5
_LOSS_FFTS = (256, 512, 1024, 2048)
_MEL_FFT = 1024


def magnitudes(pcm: Tensor, fft: int, hop: int, window: Tensor) -> Tensor:
    """STFT magnitudes [B, fft / 2 + 1, frames] of `pcm [B, T]`; the window may be shorter than the transform."""
    spectrum = torch.stft(pcm, fft, hop, len(window), window, return_complex=True)
    return (spectrum.real**2 + spectrum.imag**2 + _FLOOR**2).sqrt()


class SpectralLoss(nn.Module):
    """Multi-resolution STFT loss (Yamamoto et al. 2020, equations 3 to 6) and the L1 distance of log mels.

    Hops are a quarter of the transform lengths; the mel bands reach up to the Nyquist frequency.
    """

    filters: Tensor

    def __init__(self, sample_rate_hz: int) -> None:
        super().__init__()
        for fft in _LOSS_FFTS:
            self.register_buffer(f"window_{fft}", torch.hann_window(fft), persistent=False)
        self.register_buffer("filters", _mel_filters(sample_rate_hz, 100).T.contiguous(), persistent=False)

    def forward(self, generated: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Loss terms of sounds [B, T]: `stft` (convergence + log magnitude, mean of resolutions) and `mel`."""
        stft = generated.new_zeros(())
        mel = generated.new_zeros(())
        for fft in _LOSS_FFTS:
            window = getattr(self, f"window_{fft}")
            a = magnitudes(generated, fft, fft // 4, window)
            with torch.no_grad():
                b = magnitudes(target, fft, fft // 4, window)
            convergence = (a - b).norm(dim=(1, 2)) / b.norm(dim=(1, 2)).clamp_min(_FLOOR)
            stft = stft + convergence.mean() + F.l1_loss(a.log(), b.log())
            if fft == _MEL_FFT:
                mel = F.l1_loss((self.filters @ a + _FLOOR).log(), (self.filters @ b + _FLOOR).log())
        return {"stft": stft / len(_LOSS_FFTS), "mel": mel}


def pitch_loss(logits: Tensor, f0_hz: Tensor, low_hz: float, high_hz: float) -> Tensor:
    """Cross-entropy of pitch classes against a narrow Gaussian around the target, over voiced hops.

    Args:
        logits: [B, S, classes], even on a log scale from ``low_hz`` to ``high_hz``.
        f0_hz: [B, S], 0 where unvoiced.
    """
    classes = logits.shape[-1]
    voiced = f0_hz > 0
    class_index = (f0_hz.clamp(low_hz, high_hz) / low_hz).log() * ((classes - 1) / math.log(high_hz / low_hz))
    index = torch.arange(classes, device=logits.device)
    bell = torch.softmax(-0.5 * ((index - class_index[..., None]) / 0.7) ** 2, dim=-1)
    each = -(bell * torch.log_softmax(logits, dim=-1)).sum(-1)
    return (each * voiced).sum() / voiced.sum().clamp_min(1)


def voicing_loss(logits: Tensor, f0_hz: Tensor) -> Tensor:
    """Binary cross-entropy of voicing logits [B, S, 1] against a pitch track [B, S]."""
    return F.binary_cross_entropy_with_logits(logits[..., 0], (f0_hz > 0).to(logits.dtype))


@cache
def _mel_filters(sample_rate_hz: int, bands: int) -> Tensor:
    return audio_functional.melscale_fbanks(
        _MEL_FFT // 2 + 1, 0.0, sample_rate_hz / 2, bands, sample_rate_hz, norm="slaney", mel_scale="slaney"
    )


def fine_log_mel(pcm: Tensor, sample_rate_hz: int, hop: int, channels: int) -> Tensor:
    """log10 mels [B, channels, T / hop] of `pcm [B, T]`, fine frame j centred on its own hop.

    The window is five hops, so the last fine frame of a dMel frame looks no further ahead than the dMel frame.
    """
    window = torch.hann_window(5 * hop, device=pcm.device)
    pad = (_MEL_FFT - hop) // 2
    sound = F.pad(pcm, (pad, _MEL_FFT - hop - pad))
    spectrum = torch.stft(sound, _MEL_FFT, hop, len(window), window, center=False, return_complex=True)
    mels = _mel_filters(sample_rate_hz, channels).to(pcm).T @ spectrum.abs()
    return mels.clamp_min(_FLOOR).log10()


_LAYERS, _WIDTH, _KERNEL = 10, 64, 3
_PERIODS = (2, 3, 5, 7, 11)
RESOLUTIONS = (512, 1024, 2048)
Pairs = Mapping[str, tuple[Tensor, Tensor]]


class WaveDiscriminator(nn.Module):
    """Ten non-causal convolutions (only the generator has to stream).

    Args:
        inputs: 1 for samples, the number of fine channels for frames.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        sizes = [inputs] + [_WIDTH] * (_LAYERS - 1) + [1]
        stack: list[nn.Module] = []
        for layer in range(_LAYERS):
            dilation = max(1, layer) if layer < _LAYERS - 1 else 1
            pad = (_KERNEL - 1) // 2 * dilation
            convolution = nn.Conv1d(sizes[layer], sizes[layer + 1], _KERNEL, padding=pad, dilation=dilation)
            stack += [nn.utils.parametrizations.weight_norm(convolution), nn.LeakyReLU(0.2)]
        self.stack = nn.Sequential(*stack[:-1])

    def forward(self, x: Tensor) -> list[Tensor]:
        """`x [B, inputs, T]` to one list item: scores [B, 1, T]."""
        return [self.stack(x)]


def _convolution(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> nn.Module:
    pad = (kernel[0] // 2, kernel[1] // 2)
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(inputs, outputs, kernel, stride, pad))


class PeriodDiscriminator(nn.Module):
    """Convolutions along the columns of samples folded at a period (HiFi-GAN, Kong et al. 2020, section 2.3)."""

    def __init__(self, period: int, widths: tuple[int, ...] = (16, 32, 64, 64)) -> None:
        super().__init__()
        self.period = period
        stack: list[nn.Module] = []
        for inputs, outputs in pairwise((1, *widths)):
            stack += [_convolution(inputs, outputs, (5, 1), (3, 1)), nn.LeakyReLU(0.1)]
        self.stack = nn.Sequential(*stack, _convolution(widths[-1], 1, (3, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, 1, T]` to scores [B, 1, steps, period]; an incomplete last row is dropped."""
        rows = x.shape[-1] // self.period
        return self.stack(x[..., : rows * self.period].unflatten(-1, (rows, self.period)))


class ResolutionDiscriminator(nn.Module):
    """Convolutions over a log-magnitude STFT (UnivNet, Jang et al. 2021, section 2.2, on logarithms)."""

    window: Tensor

    def __init__(self, fft: int, widths: tuple[int, ...] = (16, 32, 32, 32)) -> None:
        super().__init__()
        self.fft = fft
        self.register_buffer("window", torch.hann_window(fft), persistent=False)
        stack: list[nn.Module] = []
        for inputs, outputs in pairwise((1, *widths)):
            stack += [_convolution(inputs, outputs, (3, 9), (1, 2)), nn.LeakyReLU(0.1)]
        self.stack = nn.Sequential(*stack, _convolution(widths[-1], 1, (3, 3)))

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, 1, T]` to scores [B, 1, frames, bins / 16]."""
        spectrum = magnitudes(x[:, 0], self.fft, self.fft // 4, self.window).log()
        return self.stack(spectrum.transpose(1, 2)[:, None])


class SampleDiscriminators(nn.Module):
    """Small multi-period and multi-resolution discriminators of samples, weighted equally."""

    def __init__(self, ffts: tuple[int, ...] = RESOLUTIONS) -> None:
        super().__init__()
        self.each = nn.ModuleList([*map(PeriodDiscriminator, _PERIODS), *map(ResolutionDiscriminator, ffts)])

    def forward(self, x: Tensor) -> list[Tensor]:
        """`x [B, 1, T]` to the scores of each; in bfloat16 on CPUs where that halves the time."""
        use_bfloat16 = x.device.type == "cpu" and training_dtype(x.device) == torch.bfloat16
        with torch.autocast(x.device.type, torch.bfloat16, enabled=use_bfloat16):
            return [one(x).float() for one in self.each]


def _distance(scores: list[Tensor], target: float) -> Tensor:
    """Least-squares distance, averaged over discriminators."""
    return torch.stack([(each - target).square().mean() for each in scores]).mean()


class Discriminators(nn.Module):
    """The discriminators of a training and their optimiser.

    ``pairs`` maps a discriminator's name to its inputs: (real, generated), both [B, inputs, T].
    """

    def __init__(self, judges: Mapping[str, nn.Module], learning_rate: float) -> None:
        super().__init__()
        self.judges = nn.ModuleDict(judges)
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=(0.5, 0.9))

    def update(self, pairs: Pairs) -> float:
        """One update towards 1 for real and 0 for generated (least squares). Returns the loss."""
        loss = torch.stack(
            [
                _distance(self.judges[name](real), 1) + _distance(self.judges[name](generated.detach()), 0)
                for name, (real, generated) in pairs.items()
            ]
        ).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def generator_loss(self, pairs: Pairs) -> Tensor:
        """The generator's loss."""
        return torch.stack([_distance(self.judges[name](generated), 1) for name, (_, generated) in pairs.items()]).sum()


@dataclass(frozen=True)
class VocoderOutput:
    """A vocoder's output for a batch, without the warm-up frames.

    Attributes:
        pcm: [B, T], not clamped.
        losses: the vocoder's own terms.
        pairs: inputs of its discriminators, (real, generated), each [B, inputs, steps].
    """

    pcm: Tensor
    target: Tensor
    losses: dict[str, Tensor]
    pairs: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


Objective = Callable[[Any, VocoderBatch, Tensor, int], VocoderOutput]


def source_filter_objective(model: SourceFilter, batch: VocoderBatch, mels: Tensor, warm: int) -> VocoderOutput:
    """Render with the target pitch, and add the losses of pitch and voicing.

    The net's own pitch is not used: a spectral loss gives no useful gradient for it.
    """
    c = model.config
    state = model.init_state(len(mels), mels.device, seed=torch.arange(len(mels)))
    controls, _ = model.controls(mels, state.tails)
    hops = warm * c.upsampling
    with torch.no_grad():
        f0_hz = torch.where(batch.f0_hz > 0, batch.f0_hz.double(), model.pitch_hz(controls.pitch))
    state.f0_hz = f0_hz[:, 0]
    rendered, _ = model.render(controls, f0_hz, state)
    pcm, target = (sound[:, warm * c.frame_samples :] for sound in (rendered, batch.pcm))
    target_f0_hz = batch.f0_hz[:, hops:]
    losses = {
        "pitch": pitch_loss(controls.pitch[:, hops:], target_f0_hz, c.pitch_low_hz, c.pitch_high_hz),
        "voicing": voicing_loss(controls.voicing[:, hops:], target_f0_hz),
    }
    return VocoderOutput(pcm, target, losses, {"pcm": (target[:, None], pcm[:, None])})


def vocstream_objective(model: VocStream, batch: VocoderBatch, mels: Tensor, warm: int) -> VocoderOutput:
    """Upsampler and generator at once: the upsampler is trained on target fine frames, the generator on its output."""
    c = model.config
    state = model.init_state(len(mels), mels.device, seed=torch.arange(len(mels)))
    fine, _ = model.upsample(mels, state.upsampler)
    rendered, _ = model.generate(fine, state)
    pcm, target = (sound[:, warm * c.frame_samples :] for sound in (rendered, batch.pcm))
    fine_mels = fine_log_mel(batch.pcm, c.sample_rate_hz, c.hop_samples, c.fine_channels)
    fine_mels = (fine_mels - c.mel_mean) / c.mel_scale
    fine, fine_mels = (part[:, :, warm * c.upsampling :] for part in (fine, fine_mels))
    pairs = {"pcm": (target[:, None], pcm[:, None]), "fine": (fine_mels, fine)}
    return VocoderOutput(pcm, target, {"fine": F.l1_loss(fine, fine_mels)}, pairs)


def overlapped_objective(model: OverlappedVocoder, batch: VocoderBatch, mels: Tensor, warm: int) -> VocoderOutput:
    """The samples of a crop, without both ends, where the net lacks context."""
    edge = warm * model.config.frame_samples
    inner = slice(edge, batch.pcm.shape[1] - edge)
    pcm, target = model.generate(mels)[:, inner], batch.pcm[:, inner]
    return VocoderOutput(pcm, target, {}, {"pcm": (target[:, None], pcm[:, None])})


OBJECTIVES: dict[str, Objective] = {
    HifiGan.name: overlapped_objective,
    SourceFilter.name: source_filter_objective,
    SourceVocos.name: source_filter_objective,
    VocStream.name: vocstream_objective,
}

# Prefixes of weights that initial weights may lack: refining layers start as the identity.
IDENTITY_PREFIXES: dict[str, tuple[str, ...]] = {SourceVocos.name: ("tell.", "hear.", "refine", "correct.")}

WEIGHTS = {"stft": 1.0, "mel": 1.0, "pitch": 0.2, "voicing": 0.5, "fine": 1.0, "deceive": 1.0}


def build_discriminators(model: Vocoder[Any], resolutions: Sequence[int]) -> dict[str, nn.Module]:
    """New discriminators for a vocoder, by the names of ``VocoderOutput.pairs``.

    Args:
        resolutions: FFT lengths of the multi-resolution discriminators, samples; VocStream has none of these.
    """
    if isinstance(model, VocStream):
        return {"pcm": WaveDiscriminator(1), "fine": WaveDiscriminator(model.config.fine_channels)}
    return {"pcm": SampleDiscriminators(ffts=tuple(resolutions))}
