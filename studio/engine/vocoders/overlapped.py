"""Non-causal vocoders in spliced and cross-faded chunks (paper 004, section 2.1.4, equation 4).

    S_cur = G([tail(M_pre), M_cur]);  head(S_cur) = alpha * head(S_cur) + beta * tail(S_pre)

The samples of the newest frames are held back until the next chunk is there for the cross-fade, so output is
``look_ahead_frames`` late.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder, VocoderState, seed_rows


@dataclass(frozen=True)
class CrossFade:
    """Overlapping frames, and the gains of both sides.

    Attributes:
        curve: samples -> the rising and the falling gain, [samples] each.
    """

    frames: int
    curve: Callable[[int], tuple[Tensor, Tensor]]


def equal_power(samples: int) -> tuple[Tensor, Tensor]:
    """alpha and beta of paper 004's equation 4, rising and falling [samples] each: their squares sum to one."""
    at = _quarter(samples)
    return at.sin().float(), at.cos().float()


def hann(samples: int) -> tuple[Tensor, Tensor]:
    """The two halves of a Hann window, rising and falling [samples] each: they sum to one."""
    at = _quarter(samples)
    return at.sin().square().float(), at.cos().square().float()


def _quarter(samples: int) -> Tensor:
    """Angles of a quarter turn at the middles of ``samples`` steps."""
    return (torch.arange(samples, dtype=torch.float64) + 0.5) / samples * (math.pi / 2)


FADES = {
    "equal-power": CrossFade(4, equal_power),  # paper 004, section 2.1.4
    "hann": CrossFade(2, hann),  # paper 001: two codec frames overlap, weighted by a Hanning window
}


@dataclass
class OverlapState(VocoderState):
    """The end of a chunk, for the next one.

    Attributes:
        tail: its last frames, [B, overlap, channels].
        held: their samples, held back, [B, overlap * frame_samples].
    """

    tail: Tensor
    held: Tensor


class OverlappedVocoder(Vocoder[OverlapState]):
    """A non-causal generator, run chunk by chunk.

    Its samples depend on the chunk boundaries, so streaming equals one run only where nothing is faded.
    """

    rise: Tensor
    fall: Tensor

    def __init__(self, overlap_frames: int, frame_samples: int) -> None:
        super().__init__()
        assert overlap_frames >= 1, "chunks overlap"
        rise, fall = equal_power(overlap_frames * frame_samples)
        self.register_buffer("rise", rise, persistent=False)
        self.register_buffer("fall", fall, persistent=False)

    @property
    def look_ahead_frames(self) -> int:
        """Frames needed beyond the one that is vocoded."""
        return int(self.config.overlap_frames)

    @abstractmethod
    def generate(self, frames: Tensor) -> Tensor:
        """Samples [B, T * frame_samples] of frames [B, T, channels], without state."""

    def forward(self, frames: Tensor, seed: int | Tensor = 0) -> Tensor:
        """Samples of whole streams, without splicing or fading."""
        return self.generate(frames)

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> OverlapState:
        """Silence before the first frame."""
        count, c = self.look_ahead_frames, self.config
        return OverlapState(
            position=torch.zeros(rows, dtype=torch.int64, device=device),
            seed=seed_rows(seed, rows, device),
            tail=torch.full((rows, count, c.channels), dmel.LOWEST, device=device),
            held=torch.zeros(rows, count * c.frame_samples, device=device),
        )

    def step(self, frames: Tensor, state: OverlapState) -> tuple[Tensor, OverlapState]:
        """As ``Vocoder.step``, but the samples are of frames ``look_ahead_frames`` before these."""
        now = frames.shape[1] * self.config.frame_samples
        spliced = torch.cat((state.tail, frames), dim=1)
        pcm = self.generate(spliced)
        faded = pcm[:, : len(self.rise)] * self.rise + state.held * self.fall
        pcm = torch.cat((faded, pcm[:, len(self.rise) :]), dim=1)
        after = OverlapState(state.position + now, state.seed, spliced[:, frames.shape[1] :], pcm[:, now:])
        return pcm[:, :now], after

    def held_back(self, state: OverlapState) -> Tensor:
        """Samples of the newest frames, not faded: [B, look_ahead_frames * frame_samples]."""
        return state.held
