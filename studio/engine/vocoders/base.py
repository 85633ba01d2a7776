"""The contract every vocoder keeps: frames in, samples out, an explicit state carried between.

A vocoder takes `frames [B, T, channels]`, log10 mel values (those of dMel levels, or unquantised ones), and gives
`pcm [B, T * frame_samples]` in [-1, 1]. Chunk k of the samples is the span that frame k owns. It is causal: no sample
depends on a frame after its own, and frames given one at a time make the samples of frames given at once. The one
exception is ``overlapped.py``, whose samples come ``look_ahead_frames`` later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from studio.core.errors import BadOption, BadVoice
from studio.engine.weights.sizes import Sizes


@dataclass
class State:
    """What a vocoder remembers; every tensor has one row per stream, and no row touches another.

    Attributes:
        position: [B] int64, the index of the next sample.
        seed: [B] int64, the seed of the noise.
    """

    position: Tensor
    seed: Tensor

    def leaves(self) -> Iterator[Tensor]:
        """All tensors, in a fixed order."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                yield value
            else:
                yield from value

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """A new state with ``change`` applied to every tensor."""
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            values[field.name] = change(value) if isinstance(value, Tensor) else [change(item) for item in value]
        return type(self)(**values)

    def clone(self) -> Self:
        """A snapshot that shares no memory with this state."""
        return self.map(torch.clone)

    def to(self, device: torch.device | str) -> Self:
        """The same state on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def take(self, rows: Tensor) -> Self:
        """A state of the given rows alone (int64 indices), copied."""
        return self.map(lambda tensor: tensor.index_select(0, rows))

    def put(self, rows: Tensor, other: Self) -> None:
        """Overwrite the given rows (int64 indices) in place with those of ``other``."""
        for mine, theirs in zip(self.leaves(), other.leaves(), strict=True):
            mine.index_copy_(0, rows, theirs)


StateT = TypeVar("StateT", bound=State)


class Vocoder(nn.Module, ABC, Generic[StateT]):
    """A causal vocoder.

    Attributes:
        name: what cards call it.
        rows_apart: whether a row's samples on a CPU are the same bit for bit whoever shares the batch (law 3), once its
            linear layers are; one that is not so runs row by row there.
        Config: its configuration, a dataclass of plain values with at least ``channels``, ``frame_samples`` and
            ``sample_rate_hz``.
    """

    name: ClassVar[str]
    rows_apart: ClassVar[bool] = False
    Config: ClassVar[type[Sizes]]
    config: Any

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A vocoder with fresh weights from a card's plain values. Raises BadVoice: they cannot be its sizes."""
        try:
            return cls(cls.Config.read(config))
        except BadOption as error:
            raise BadVoice(f"vocoder {cls.name!r}: {error.what}", error.do) from error

    def plain_config(self) -> dict[str, Any]:
        """The configuration as a card stores it."""
        return self.config.to_dict()

    def parameter_count(self) -> int:
        """How many numbers training has set."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def look_ahead_frames(self) -> int:
        """Frames that must come before the samples of a frame do: none, in a causal vocoder."""
        return 0

    def held_back(self, state: StateT) -> Tensor:
        """Samples of the last ``look_ahead_frames``, which ``step`` has not said yet: [B, T]."""
        return state.position.new_zeros((len(state.position), 0), dtype=torch.float32)

    @abstractmethod
    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> StateT:
        """The state of ``rows`` streams before their first frame; ``seed`` is one for all or [B] int64."""

    @abstractmethod
    def step(self, frames: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """The samples of some more frames, and the state after them; the state given is left as it was.

        Args:
            frames: [B, T, channels] log10 mel values, T >= 1.

        Returns:
            pcm [B, T * frame_samples] and the next state.
        """

    def forward(self, frames: Tensor, seed: int | Tensor = 0) -> Tensor:
        """The samples [B, T * frame_samples] of whole streams, `frames [B, T, channels]`."""
        pcm, _ = self.step(frames, self.init_state(frames.shape[0], frames.device, seed))
        return pcm

    def reset(self, state: StateT, rows: Tensor, seed: int | Tensor = 0) -> None:
        """Give the rows (int64 indices) of a state to new streams, in place."""
        state.put(rows, self.init_state(len(rows), rows.device, seed))


def seed_rows(seed: int | Tensor, rows: int, device: torch.device | str) -> Tensor:
    """Seeds [B] int64 from one for all, or from one for each row."""
    if isinstance(seed, Tensor):
        assert seed.shape == (rows,), "one seed for each row"
        return seed.to(device=device, dtype=torch.int64)
    return torch.full((rows,), seed, dtype=torch.int64, device=device)
