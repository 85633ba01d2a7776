"""Vocoders that are not causal, in chunks: spliced and cross-faded (paper 004, section 2.1.4, equation 4).

    S_cur = G([tail(M_pre), M_cur]);  head(S_cur) = alpha * head(S_cur) + beta * tail(S_pre)

The samples of the newest frames are held back until the chunk after them is there to be faded into, so that what comes
out is ``look_ahead_frames`` late.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.vocoders.base import State, Vocoder, seed_rows
from studio.engine.vocoders.fades import equal_power


@dataclass
class OverlapState(State):
    """What a chunk leaves to the next one.

    Attributes:
        tail: its last frames, [B, overlap, channels].
        held: their samples, not said yet, [B, overlap * frame_samples].
    """

    tail: Tensor
    held: Tensor


class OverlappedVocoder(Vocoder[OverlapState]):
    """A generator that looks both ways, run chunk by chunk.

    What it makes depends on where the chunks end, so that streamed equals at once only where nothing is faded.
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
        """Frames that come before the samples of a frame do."""
        return int(self.config.overlap_frames)

    @abstractmethod
    def generate(self, frames: Tensor) -> Tensor:
        """Samples [B, T * frame_samples] of frames [B, T, channels] that stand alone."""

    def forward(self, frames: Tensor, seed: int | Tensor = 0) -> Tensor:
        """Samples of whole streams, nothing spliced and nothing faded."""
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
        made = self.generate(spliced)
        faded = made[:, : len(self.rise)] * self.rise + state.held * self.fall
        made = torch.cat((faded, made[:, len(self.rise) :]), dim=1)
        after = OverlapState(state.position + now, state.seed, spliced[:, frames.shape[1] :], made[:, now:])
        return made[:, :now], after

    def held_back(self, state: OverlapState) -> Tensor:
        """Samples of the newest frames, as they are where nothing follows: [B, look_ahead_frames * frame_samples]."""
        return state.held
