"""The source-filter vocoder: a small causal net predicts pitch, voicing and envelopes that filter pulses and noise.

The net runs at the frame rate, then at four times that; everything per sample is signal processing in closed form.
Design and measurements are in docs/adr/0003-source-filter-vocoder.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.nets.linear import RowwiseLinear
from studio.engine.nets.loading import NetConfig
from studio.engine.tokenizers import dmel
from studio.engine.vocoders import excitation
from studio.engine.vocoders.base import Vocoder, VocoderState, seed_rows

# A sharper softmax selects one pitch without the jumps of an arg-max, which rounding could trigger.
PITCH_SHARPNESS = 4.0
# Below this voicing logit (12%) pulses are so faint that a phase reset is inaudible.
REST_LOGIT = -2.0
_TWO_REGISTERS = 32  # floats, of the widest CPU


@dataclass(frozen=True)
class SourceFilterConfig(NetConfig):
    """NetConfig of a source-filter vocoder.

    Attributes:
        width, blocks: of the net at the frame rate; ``fine_width, fine_blocks`` after the upsampling.
        upsampling: control hops per frame.
        fft: length of a filter's response in samples, a multiple of a hop and even.
        mel_mean, mel_scale: how log10 mels become the net's input.
    """

    channels: int = dmel.CHANNELS
    frame_samples: int = dmel.TIME_BASE.frame_samples
    sample_rate_hz: int = dmel.TIME_BASE.rate_hz
    width: int = 256
    blocks: int = 4
    kernel: int = 5
    upsampling: int = 4
    fine_width: int = 128
    fine_blocks: int = 2
    pitch_classes: int = 64
    pitch_low_hz: float = 60.0
    pitch_high_hz: float = 400.0
    envelope_bands: int = 100
    aperiodicity_bands: int = 12
    fft: int = 900
    mel_mean: float = -2.5
    mel_scale: float = 1.5

    @property
    def hop_samples(self) -> int:
        """Samples that share one set of controls."""
        return self.frame_samples // self.upsampling

    def derived_numbers(self) -> int:
        """Those of the maps from bands to spectra and to each other."""
        return self.envelope_bands * (self.fft + 2 + self.aperiodicity_bands)


@dataclass
class SourceFilterState(VocoderState):
    """Tails of the convolutions, pitch and phase of the pulses, and the filters' ringing.

    Attributes:
        tails: one per causal convolution, [B, kernel - 1, width].
        phase: [B] float64, cycles modulo 1; ``f0_hz`` [B] float64 the frequency reached.
        ringing: [B, fft / hop - 1, hop].
    """

    tails: list[Tensor]
    phase: Tensor
    f0_hz: Tensor
    ringing: Tensor


class Controls(NamedTuple):
    """The net's outputs for each hop, [B, S, ...]: logits, natural-log envelopes, noise-share logits.

    ``detail`` is the input of a refining net; no channels without one.
    """

    pitch: Tensor
    voicing: Tensor
    envelope: Tensor
    aperiodicity: Tensor
    detail: Tensor


def causal_depthwise(past: Tensor, taps: Tensor) -> Tensor:
    """Each channel's own filter, `past [B, kernel - 1 + T, C]` and `taps [kernel, C]` to [B, T, C].

    Sums of shifted products: faster than a grouped convolution for channels-last tensors of this size.
    """
    kernel = taps.shape[0]
    steps = past.shape[1] - kernel + 1
    if steps == 1:
        return (past * taps).sum(1, keepdim=True)
    mixed = past[:, :steps] * taps[0]
    for late in range(1, kernel):
        mixed = torch.addcmul(mixed, past[:, late : late + steps], taps[late])
    return mixed


def rowwise_sigmoid(x: Tensor) -> Tensor:
    """A sigmoid of [..., N] whose rounding does not depend on a row's position in the tensor.

    Torch computes the last elements of a tensor, fewer than two registers full, by another routine.
    """
    spare = -x.shape[-1] % _TWO_REGISTERS
    return torch.sigmoid(F.pad(x, (0, spare)))[..., : x.shape[-1]]


class CausalBlock(nn.Module):
    """A causal ConvNeXt block: depthwise convolution, norm, two pointwise layers, a residual."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = nn.Parameter(torch.randn(kernel, width) / math.sqrt(kernel))
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)
        nn.init.normal_(self.narrow.weight, std=0.02)

    def forward(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """`x [B, T, width]` after `tail [B, kernel - 1, width]`; returns the output and the next tail."""
        past = torch.cat((tail, x), dim=1)
        mixed = causal_depthwise(past, self.depthwise)
        return x + self.narrow(F.gelu(self.wide(self.norm(mixed)))), past[:, x.shape[1] :]


class SourceFilter(Vocoder[SourceFilterState]):
    """Frames to samples by a differentiable source-filter model, one chunk per frame."""

    name: ClassVar[str] = "sourcefilter"
    is_batch_invariant: ClassVar[bool] = True
    Config: ClassVar[type] = SourceFilterConfig
    log_pitches: Tensor

    def __init__(self, config: SourceFilterConfig) -> None:
        super().__init__()
        self.config = c = config
        assert c.fft % c.hop_samples == 0 and c.frame_samples % c.upsampling == 0, "hops tile frames and filters"
        self.enter = nn.Linear(c.channels, c.width)
        self.coarse = nn.ModuleList(CausalBlock(c.width, c.kernel) for _ in range(c.blocks))
        self.upsample = nn.Linear(c.width, c.upsampling * c.fine_width)
        self.fine = nn.ModuleList(CausalBlock(c.fine_width, c.kernel) for _ in range(c.fine_blocks))
        self.norm = nn.LayerNorm(c.fine_width)
        self._sizes = (c.pitch_classes, 1, c.envelope_bands, c.aperiodicity_bands)
        self.heads = nn.Linear(c.fine_width, sum(self._sizes))
        with torch.no_grad():
            self.heads.bias[c.pitch_classes + 1 :][: c.envelope_bands] = -4.0
        basis = excitation.minimum_phase_basis(c.envelope_bands, c.fft, c.sample_rate_hz)
        self.to_spectrum = RowwiseLinear(basis.T)
        knots, bands = (excitation.band_centres_hz(n, c.sample_rate_hz) for n in self._sizes[3:1:-1])
        self.to_bands = RowwiseLinear(excitation.interpolation(knots, bands).float().T)
        low, high = math.log(c.pitch_low_hz), math.log(c.pitch_high_hz)
        pitches = torch.linspace(low, high, c.pitch_classes, dtype=torch.float64)
        self.register_buffer("log_pitches", pitches, persistent=False)

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> SourceFilterState:
        """Silence before the first frame."""
        c = self.config
        widths = [c.width] * c.blocks + [c.fine_width] * c.fine_blocks
        return SourceFilterState(
            position=torch.zeros(rows, dtype=torch.int64, device=device),
            seed=seed_rows(seed, rows, device),
            tails=[torch.zeros(rows, c.kernel - 1, width, device=device) for width in widths],
            phase=torch.zeros(rows, dtype=torch.float64, device=device),
            f0_hz=torch.full((rows,), math.sqrt(c.pitch_low_hz * c.pitch_high_hz), dtype=torch.float64, device=device),
            ringing=torch.zeros(rows, c.fft // c.hop_samples - 1, c.hop_samples, device=device),
        )

    def step(self, frames: Tensor, state: SourceFilterState) -> tuple[Tensor, SourceFilterState]:
        """The samples of `frames [B, T, channels]` and the state after them."""
        controls, tails = self.controls(frames, state.tails)
        pcm, state = self.render(controls, self.pitch_hz(controls.pitch), state)
        state.tails = tails + state.tails[len(tails) :]
        return pcm.clamp(-1, 1), state

    def controls(self, frames: Tensor, tails: list[Tensor]) -> tuple[Controls, list[Tensor]]:
        """The net alone: controls of each of the `T * upsampling` hops, and the next tails."""
        c = self.config
        x = self.enter((frames - c.mel_mean) / c.mel_scale)
        after = []
        for block, tail in zip(self.coarse, tails[: c.blocks], strict=True):
            x, new = block(x, tail)
            after.append(new)
        x = self.upsample(x).view(x.shape[0], -1, c.fine_width)
        for block, tail in zip(self.fine, tails[c.blocks : c.blocks + c.fine_blocks], strict=True):
            x, new = block(x, tail)
            after.append(new)
        return self.controls_from(self.norm(x)), after

    def controls_from(self, hidden: Tensor) -> Controls:
        """Controls from the last hidden layer, [B, S, fine_width]."""
        pitch, voicing, envelope, aperiodicity = self.heads(hidden).split(self._sizes, dim=-1)
        return Controls(pitch, voicing, envelope, aperiodicity, hidden[..., :0])

    def pitch_hz(self, logits: Tensor) -> Tensor:
        """Frequencies [B, S] float64 from pitch logits [B, S, classes]."""
        share = torch.softmax(logits.to(torch.float64) * PITCH_SHARPNESS, dim=-1)
        return (share * self.log_pitches).sum(-1).exp()

    def render(self, controls: Controls, f0_hz: Tensor, state: SourceFilterState) -> tuple[Tensor, SourceFilterState]:
        """Samples [B, S * hop] of the controls with pulses at ``f0_hz`` [B, S] float64; tails are not changed."""
        sources, after = self.sources(controls, f0_hz, state)
        pcm, after.ringing = excitation.filtered(
            sources, self.envelopes(controls), self.to_spectrum, state.ringing, self.config.fft
        )
        return pcm, after

    def sources(
        self, controls: Controls, f0_hz: Tensor, state: SourceFilterState, ahead_samples: int = 0
    ) -> tuple[Tensor, SourceFilterState]:
        """Pulses and noise [B, S, 2, hop + ahead], each hop with its continuation, and the next state."""
        c = self.config
        hops = f0_hz.shape[1]
        pulses, phase = excitation.pulse_train(
            f0_hz,
            state.f0_hz,
            state.phase,
            controls.voicing[:, :, 0] < REST_LOGIT,
            hop_samples=c.hop_samples,
            sample_rate_hz=c.sample_rate_hz,
            ahead_samples=ahead_samples,
        )
        noise = excitation.uniform_noise(state.seed, state.position, hops * c.hop_samples + ahead_samples)
        noise = noise.unfold(1, c.hop_samples + ahead_samples, c.hop_samples)
        after = replace(state, position=state.position + hops * c.hop_samples, phase=phase, f0_hz=f0_hz[:, -1])
        return torch.stack((pulses.to(noise.dtype), noise), dim=2), after

    def envelopes(self, controls: Controls) -> Tensor:
        """Natural-log envelopes [B, S, 2, bands] of pulses and of noise; their powers add up to the envelope's."""
        voiced = rowwise_sigmoid(controls.voicing) * rowwise_sigmoid(self.to_bands(-controls.aperiodicity))
        gains = torch.stack((voiced, 1 - voiced), dim=2).clamp_min(1e-6).log() * 0.5
        return controls.envelope[:, :, None] + gains
