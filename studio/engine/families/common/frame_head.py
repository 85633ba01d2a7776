"""Output head and sampling of nets that sample a whole frame at once, in numpy."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from studio.engine.families.common.rows import sigmoid
from studio.engine.nets.cpu.linear import PanelLinear
from studio.engine.nets.sampling import FrameNoise, sample_levels_numpy
from studio.engine.tokenizers import dmel


class SamplingSlots(Protocol):
    """A family's slots with sampling state.

    Attributes:
        last: uint8 [slots, 80], the last sampled frame.
        temperature: [slots].
        noise: position in the noise stream.
    """

    last: Tensor
    temperature: Tensor
    noise: FrameNoise


class CpuFrameHead:
    """Samples frames from hidden states.

    Args:
        head: [D] -> logits [80 * LEVELS + 1], the last for the end.
    """

    def __init__(self, head: PanelLinear) -> None:
        self._head = head

    def sample(
        self, slots: SamplingSlots, numbers: Sequence[int], hidden: np.ndarray
    ) -> list[tuple[np.ndarray, float, bool]]:
        """Sample each slot's next frame from normalized hidden states [B, D].

        Returns:
            For each slot: levels uint8 [1, 80], the probability of the end, and whether all logits are finite.
        """
        out = self._head(hidden)
        logits = out[:, :-1].reshape(len(out), dmel.CHANNELS, dmel.LEVELS)
        levels = sample_levels_numpy(logits, slots.temperature.numpy()[numbers], slots.noise.next_array(numbers))
        slots.last.numpy()[numbers] = levels
        slots.noise.advance(numbers)
        finite = np.isfinite(out.sum(1))
        return [(levels[b : b + 1], sigmoid(out[b, -1]), bool(finite[b])) for b in range(len(out))]
