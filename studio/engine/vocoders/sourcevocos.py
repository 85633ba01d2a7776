"""A source-filter vocoder whose spectra a causal ConvNeXt stack refines before the inverse Fourier transform.

As in Vocos (Siuzdak 2023) the net stays at one rate and an inverse STFT makes the samples; as in HiFTNet (Li et al.
2023) pulses and noise are given, so that phase need not be predicted. Design and measurements are in
docs/adr/0011-source-spectra-refined.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from studio.engine.vocoders import excitation
from studio.engine.vocoders.sourcefilter import (
    CausalBlock,
    Controls,
    SourceFilter,
    SourceFilterConfig,
    SourceFilterState,
)

_FADE_HOPS = 2  # at a response's end, where a phase correction that moves samples before its beginning wraps around


@dataclass(frozen=True)
class SourceVocosConfig(SourceFilterConfig):
    """Sizes of a source-filter vocoder, and of the net that refines its spectra.

    Attributes:
        window: samples of the Hann window over the sources, from the hop on, at least two whole hops; ``fft`` is at
            least two hops longer.
        refine_width, refine_blocks: of the refining net, which runs once per hop.
    """

    window: int = 300
    refine_width: int = 256
    refine_blocks: int = 6


class SourceVocos(SourceFilter):
    """Frames to samples: sources and envelopes of a source-filter model, refined bin by bin.

    A window begins with its hop and reaches over later ones, so a sample is complete once its own hop is known.
    Without refinement, the windows add up to the filtered sources.
    """

    name: ClassVar[str] = "sourcevocos"
    Config: ClassVar[type] = SourceVocosConfig
    config: SourceVocosConfig
    hann: Tensor
    fade: Tensor

    def __init__(self, config: SourceVocosConfig) -> None:
        super().__init__(config)
        c, hop = config, config.hop_samples
        assert c.window % hop == 0 and c.window >= 2 * hop, "windows of whole hops that overlap"
        assert c.fft >= c.window + _FADE_HOPS * hop, "a response outlasts its window"
        self.tell = nn.Linear(c.fine_width, c.refine_width)
        self.hear = nn.Linear(2 * c.window, c.refine_width, bias=False)
        self.refine = nn.ModuleList(CausalBlock(c.refine_width, c.kernel) for _ in range(c.refine_blocks))
        self.refine_norm = nn.LayerNorm(c.refine_width)
        self.correct = nn.Linear(c.refine_width, 3 * (c.fft // 2 + 1))
        nn.init.zeros_(self.correct.weight)
        nn.init.zeros_(self.correct.bias)
        self.register_buffer("hann", torch.hann_window(c.window) * (2 * hop / c.window), persistent=False)
        fade = torch.ones(c.fft)
        fade[-_FADE_HOPS * hop :] = torch.hann_window(2 * _FADE_HOPS * hop)[_FADE_HOPS * hop :]
        self.register_buffer("fade", fade, persistent=False)

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> SourceFilterState:
        """Silence before the first frame; the refining net's tails come after the others."""
        c, state = self.config, super().init_state(rows, device, seed)
        more = [torch.zeros(rows, c.kernel - 1, c.refine_width, device=device) for _ in range(c.refine_blocks)]
        state.tails = state.tails + more
        return state

    def controls_from(self, hidden: Tensor) -> Controls:
        """The source-filter's controls, with the input of the refining net."""
        return super().controls_from(hidden)._replace(detail=self.tell(hidden))

    def render(self, controls: Controls, f0_hz: Tensor, state: SourceFilterState) -> tuple[Tensor, SourceFilterState]:
        """Samples [B, S * hop] of the controls with pulses at ``f0_hz`` [B, S] float64, by the refined spectra."""
        c = self.config
        sources, after = self.sources(controls, f0_hz, state, c.window - c.hop_samples)
        sources = sources * self.hann
        x = controls.detail + self.hear(sources.flatten(2))
        first = len(state.tails) - c.refine_blocks
        tails = state.tails[:first]
        for block, tail in zip(self.refine, state.tails[first:], strict=True):
            x, new = block(x, tail)
            tails.append(new)
        louder, later, noisier = self.correct(self.refine_norm(x)).chunk(3, dim=-1)
        log_magnitude, angle = self.to_spectrum(self.envelopes(controls)).chunk(2, dim=-1)
        gain = (log_magnitude + torch.stack((louder, noisier), dim=2)).exp()
        angle = angle + torch.stack((later, torch.zeros_like(later)), dim=2)
        real, imag = excitation.multiply_polar(torch.fft.rfft(sources, n=c.fft), gain, angle)
        responses = torch.fft.irfft(torch.complex(real.sum(2), imag.sum(2)), n=c.fft) * self.fade
        pcm, ringing = excitation.overlap_add(responses, state.ringing)
        return pcm, replace(after, ringing=ringing, tails=tails)
