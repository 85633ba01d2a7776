"""The last product of nets that draw a whole frame at once, and the draw, in numpy on a CPU."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.compiled.panels import Panels
from studio.engine.families.drawn import probability
from studio.engine.noise.sampling import FrameNoise, sample_on_host


class DrawingSlots(Protocol):
    """What drawing needs of a family's slots.

    Attributes:
        last: uint8 [slots, 80], the frame drawn last.
        temperature: [slots].
        noise: which noise comes next.
    """

    last: Tensor
    temperature: Tensor
    noise: FrameNoise


class HeadOnHost:
    """Draws frames from hidden states.

    Args:
        head: [D] -> [80 * LEVELS + 1], the last for an end.
    """

    def __init__(self, head: Panels) -> None:
        self._head = head

    def draw(
        self, slots: DrawingSlots, numbers: Sequence[int], hidden: np.ndarray
    ) -> list[tuple[np.ndarray, float, bool]]:
        """Each slot's next frame from [B, D], hidden states divided by their lengths.

        Returns:
            Of each: levels uint8 [1, 80], how likely the end is, and whether what they were drawn from were numbers.
        """
        out = self._head(hidden)
        logits = out[:, :-1].reshape(len(out), dmel.CHANNELS, dmel.LEVELS)
        levels = sample_on_host(logits, slots.temperature.numpy()[numbers], slots.noise.next_on_host(numbers))
        slots.last.numpy()[numbers] = levels
        slots.noise.drawn(numbers)
        finite = np.isfinite(out.sum(1))
        return [(levels[b : b + 1], probability(out[b, -1]), bool(finite[b])) for b in range(len(out))]
