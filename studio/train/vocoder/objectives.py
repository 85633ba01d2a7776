"""What each vocoder learns by, beside the spectral loss of its samples that all share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.hifigan import HifiGan
from studio.engine.vocoders.overlapped import OverlappedVocoder
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import VocStream
from studio.train.vocoder.data import Batch
from studio.train.vocoder.discriminators import Discriminator, SampleDiscriminators
from studio.train.vocoder.losses import fine_log_mel, pitch_loss, voicing_loss


@dataclass(frozen=True)
class Made:
    """A vocoder's answer to a batch, without the warm-up frames.

    Attributes:
        pcm: [B, T], not clamped.
        losses: terms of its own.
        pairs: what its discriminators compare, (the teacher's, ours), each [B, inputs, steps].
    """

    pcm: Tensor
    wanted: Tensor
    losses: dict[str, Tensor]
    pairs: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


Objective = Callable[[Any, Batch, Tensor, int], Made]


def source_filter_objective(model: SourceFilter, batch: Batch, mels: Tensor, warm: int) -> Made:
    """Pulses at the teacher's pitch, and the losses of pitch and voicing.

    Pitch is given, not taken from the net: a spectral loss says nothing useful about it.
    """
    c = model.config
    state = model.init_state(len(mels), mels.device, seed=torch.arange(len(mels)))
    controls, _ = model.controls(mels, state.tails)
    hops = warm * c.upsampling
    with torch.no_grad():
        f0_hz = torch.where(batch.f0_hz > 0, batch.f0_hz.double(), model.pitch_hz(controls.pitch))
    state.f0_hz = f0_hz[:, 0]
    every, _ = model.render(controls, f0_hz, state)
    pcm, wanted = (sound[:, warm * c.frame_samples :] for sound in (every, batch.pcm))
    target = batch.f0_hz[:, hops:]
    losses = {
        "pitch": pitch_loss(controls.pitch[:, hops:], target, c.pitch_low_hz, c.pitch_high_hz),
        "voicing": voicing_loss(controls.voicing[:, hops:], target),
    }
    return Made(pcm, wanted, losses, {"pcm": (wanted[:, None], pcm[:, None])})


def vocstream_objective(model: VocStream, batch: Batch, mels: Tensor, warm: int) -> Made:
    """Both halves at once: the upsampler is held to the teacher's fine frames, the generator hears the upsampler's."""
    c = model.config
    state = model.init_state(len(mels), mels.device, seed=torch.arange(len(mels)))
    fine, _ = model.upsample(mels, state.upsampler)
    every, _ = model.generate(fine, state)
    pcm, wanted = (sound[:, warm * c.frame_samples :] for sound in (every, batch.pcm))
    fine_mels = fine_log_mel(batch.pcm, c.sample_rate_hz, c.hop_samples, c.fine_channels)
    fine_mels = (fine_mels - c.mel_mean) / c.mel_scale
    fine, fine_mels = (part[:, :, warm * c.upsampling :] for part in (fine, fine_mels))
    pairs = {"pcm": (wanted[:, None], pcm[:, None]), "fine": (fine_mels, fine)}
    return Made(pcm, wanted, {"fine": F.l1_loss(fine, fine_mels)}, pairs)


def overlapped_objective(model: OverlappedVocoder, batch: Batch, mels: Tensor, warm: int) -> Made:
    """The samples of a crop at once, without the ends at which the net lacks what it looks at."""
    edge = warm * model.config.frame_samples
    inner = slice(edge, batch.pcm.shape[1] - edge)
    pcm, wanted = model.generate(mels)[:, inner], batch.pcm[:, inner]
    return Made(pcm, wanted, {}, {"pcm": (wanted[:, None], pcm[:, None])})


OBJECTIVES: dict[str, Objective] = {
    HifiGan.name: overlapped_objective,
    SourceFilter.name: source_filter_objective,
    SourceVocos.name: source_filter_objective,
    VocStream.name: vocstream_objective,
}
# Names of weights, by their first letters, that a training may begin without: what refines begins as the identity.
BEGINNINGS: dict[str, tuple[str, ...]] = {SourceVocos.name: ("tell.", "hear.", "refine", "correct.")}
WEIGHTS = {"stft": 1.0, "mel": 1.0, "pitch": 0.2, "voicing": 0.5, "fine": 1.0, "deceive": 1.0}


def judges(model: Vocoder[Any], resolutions: Sequence[int]) -> dict[str, nn.Module]:
    """Fresh discriminators that a vocoder meets, by the names of ``Made.pairs``.

    Args:
        resolutions: transform lengths of the spectra that are judged, samples; VocStream's judges see none.
    """
    if isinstance(model, VocStream):
        return {"pcm": Discriminator(1), "fine": Discriminator(model.config.fine_channels)}
    return {"pcm": SampleDiscriminators(ffts=tuple(resolutions))}
