"""SpeakStream's memory: keys and values of every slot, and what each draws with."""

from typing import Protocol

import torch

from studio.engine.alphabets import dmel
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.noise.sampling import FrameNoise


class Beginning(Protocol):
    """What a prefill says about its row: see ``row.Prefill``."""

    @property
    def start(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def speaker(self) -> int: ...
    @property
    def temperature(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def frame(self) -> int: ...


class SpeakStreamSlots:
    """The memory of all rows: keys and values, and what each row draws with.

    Attributes:
        last: uint8 [slots, 80], the frame drawn last, not yet fed back.
        speaker, temperature: [slots].
        noise: which noise comes next.
        spare: the last slot, where there is one more than are given to rows.
    """

    @staticmethod
    def made(sizes: DecoderConfig, places: int, capacity_tokens: int, device: torch.device) -> "SpeakStreamSlots":
        """Memory for so many rows; on a GPU one slot more, with which batches are filled up."""
        count = places if device.type == "cpu" else places + 1
        memory = KeyValueSlots(sizes.layers, count, sizes.heads, capacity_tokens, sizes.head_width, device=device)
        return SpeakStreamSlots(memory, count, device)

    def __init__(self, keys_and_values: KeyValueSlots, count: int, device: torch.device) -> None:
        self.memory, self.spare = keys_and_values, count - 1
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)
        self.temperature = torch.ones(count, device=device)
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new owner; the rest is set by its first prefill."""
        self.memory.reset(slot)
        self.noise.reset(slot)

    def place(self, slot: int, given: Beginning) -> None:
        """Take over what a prefill says about its row."""
        self.memory.start[slot], self.memory.length[slot] = given.start, given.at
        self.speaker[slot], self.temperature[slot] = given.speaker, given.temperature
        self.noise.place(slot, given.seed, given.frame)
