"""SpeakStream's decode on a GPU: all rows in one step of fixed shapes, one copy there and one back."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.batched import BatchedStep
from studio.engine.nets.recorded import Recorded, filled_up
from studio.engine.noise.sampling import sample_levels, uniform


class DecodeOnDevice:
    """What ``modules.SpeakStreamStep`` does with one frame of each row.

    Args:
        embed: frames uint8 [B, 80] of speakers [B] -> [B, D].
        head: [B, D] -> [B, 80 * LEVELS + 1], the last for the end of the segment.
    """

    def __init__(
        self,
        tokens: BatchedStep,
        embed: Callable[[Tensor, Tensor], Tensor],
        head: Callable[[Tensor], Tensor],
        recorded: Recorded,
    ) -> None:
        self._tokens, self._embed, self._head, self._recorded = tokens, embed, head, recorded

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[Drawn]:
        """Feed back each slot's last frame and draw its next. Raises ContextFull."""
        index, span = self._tokens.planned(slots.memory, numbers)
        noise = torch.tensor([[slots.noise.seed[n], slots.noise.frame[n]] for n in numbers], dtype=torch.int64)
        given = torch.cat((index, noise.T))
        rows = filled_up(len(numbers))  # with the spare slot, which is nobody's
        idle = torch.zeros(len(given), rows, dtype=torch.int64)
        idle[0] = slots.spare
        filled = torch.cat((given, idle[:, len(numbers) :]), 1)

        def body(given: Tensor) -> Tensor:
            return self._step(slots, given, span)

        told = self._recorded.run(("decode", id(slots), rows, span), body, [filled], lambda: [idle]).numpy()
        slots.memory.length[list(numbers)] += 1
        slots.noise.drawn(numbers)
        return [
            Drawn(row[2:].astype(np.uint8)[None], probability(row[0]), bool(np.isfinite(row[1])))
            for row in told[: len(numbers)]
        ]

    def _step(self, slots: SpeakStreamSlots, given: Tensor, span: int) -> Tensor:
        """Given int64 [5, B]: slots, where each token goes, the first one held, seeds, frames; answers [B, 2 + 80].

        The logit of s_eos, the sum of all logits (no number where one of them is none), and the levels.
        """
        (slot, _, _, seed, frame), memory = given, slots.memory
        x = self._embed(slots.last[slot], slots.speaker[slot])
        out = self._head(self._tokens.step(x, memory, given[:3], span))
        logits = out[:, :-1].unflatten(1, (dmel.CHANNELS, dmel.LEVELS))
        levels = sample_levels(logits, slots.temperature[slot], uniform(seed, frame, dmel.CHANNELS))
        slots.last[slot] = levels
        return torch.cat((out[:, -1:], out.sum(1, keepdim=True), levels), 1)
