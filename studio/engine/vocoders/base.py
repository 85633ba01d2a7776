"""The contract of vocoders: frames in, samples out, with an explicit state.

A vocoder takes `frames [B, T, channels]`, log10 mel values (those of dMel levels, or unquantised ones), and returns
`pcm [B, T * frame_samples]` in [-1, 1]. Chunk k of the samples is the span that frame k owns. It is causal: no sample
depends on a later frame, and frames given one at a time make the same samples as frames given at once. The exception
is ``overlapped.py``, whose samples come ``look_ahead_frames`` later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from studio.core.cards import Card
from studio.core.errors import BadOption, BadVoice
from studio.engine.nets.loading import NetConfig, load_weights, parameter_limit


@dataclass
class VocoderState:
    """State of a vocoder; every tensor has one row per stream.

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
        """A state with ``change`` applied to every tensor."""
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            values[field.name] = change(value) if isinstance(value, Tensor) else [change(item) for item in value]
        return type(self)(**values)

    def clone(self) -> Self:
        """A copy."""
        return self.map(torch.clone)

    def to(self, device: torch.device | str) -> Self:
        """The same state on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def take(self, rows: Tensor) -> Self:
        """A copy of the given rows (int64 indices)."""
        return self.map(lambda tensor: tensor.index_select(0, rows))

    def put(self, rows: Tensor, other: Self) -> None:
        """Overwrite the given rows (int64 indices) in place with those of ``other``."""
        for mine, theirs in zip(self.leaves(), other.leaves(), strict=True):
            mine.index_copy_(0, rows, theirs)


StateT = TypeVar("StateT", bound=VocoderState)


class Vocoder(nn.Module, ABC, Generic[StateT]):
    """A causal vocoder.

    Attributes:
        name: as on cards.
        is_batch_invariant: whether a row's samples on a CPU do not depend on its batch, bit for bit (law 3), with
            ``RowwiseLinear`` layers; other vocoders run row by row there.
        takes_codes: whether frames are codes instead of mels.
        Config: a dataclass with at least ``channels``, ``frame_samples`` and ``sample_rate_hz``.
    """

    name: ClassVar[str]
    is_batch_invariant: ClassVar[bool] = False
    takes_codes: ClassVar[bool] = False
    Config: ClassVar[type[NetConfig]]
    config: Any

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A vocoder with fresh weights. Raises BadVoice: the values are no valid configuration."""
        return cls(cls._read_config(config))

    @classmethod
    def load(cls, card: Card, folder: Path) -> Self:
        """The vocoder of a card with its weights. Raises BadVoice."""
        file = f"{cls.name}.safetensors"
        with parameter_limit(folder, card, file):
            vocoder = cls.from_config(card.vocoders[cls.name])
        load_weights(vocoder, folder, card, file)
        return vocoder

    @classmethod
    def _read_config(cls, config: Mapping[str, Any]) -> Any:
        try:
            return cls.Config.read(config)
        except BadOption as error:
            raise BadVoice(f"vocoder {cls.name!r}: {error.what}", error.do) from error

    def plain_config(self) -> dict[str, Any]:
        """The configuration as stored on a card."""
        return self.config.to_dict()

    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def look_ahead_frames(self) -> int:
        """Frames needed beyond the one that is vocoded; 0 in a causal vocoder."""
        return 0

    def held_back(self, state: StateT) -> Tensor:
        """Samples of the last ``look_ahead_frames``, which ``step`` has not returned yet: [B, T]."""
        return state.position.new_zeros((len(state.position), 0), dtype=torch.float32)

    @abstractmethod
    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> StateT:
        """The initial state of ``rows`` streams; ``seed`` is one for all or [B] int64."""

    @abstractmethod
    def step(self, frames: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """The samples of more frames, and the next state; the given state is not changed.

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
        """Reset rows (int64 indices) of a state in place."""
        state.put(rows, self.init_state(len(rows), rows.device, seed))


def seed_rows(seed: int | Tensor, rows: int, device: torch.device | str) -> Tensor:
    """Seeds [B] int64, from one for all or one per row."""
    if isinstance(seed, Tensor):
        assert seed.shape == (rows,), "one seed for each row"
        return seed.to(device=device, dtype=torch.int64)
    return torch.full((rows,), seed, dtype=torch.int64, device=device)
