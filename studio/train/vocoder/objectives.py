"""The training objective of each vocoder, besides the spectral loss that all share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.overlapped import HifiGan, OverlappedVocoder
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import VocStream
from studio.train.vocoder.data import VocoderBatch
from studio.train.vocoder.losses import SampleDiscriminators, WaveDiscriminator, fine_log_mel, pitch_loss, voicing_loss


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
