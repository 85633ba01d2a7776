"""S5-TTS's decode on a CPU: the frame drawn last fed back, the next one drawn, in numpy over the same memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from studio.engine import dmel
from studio.engine.families.drawn import probability
from studio.engine.families.s5.row import Drawn
from studio.engine.nets.one_token import TokenCross, TokenStep, product
from studio.engine.sampling import sample_on_host

if TYPE_CHECKING:
    from studio.engine.families.s5.modules import S5Slots


class DecodeOnHost:
    """What ``modules.DecodeModule`` does with one frame of each row.

    Args:
        frames: what each level of each channel adds to a frame's embedding, float32 [80 * SYMBOLS, D].
        rows: what every frame of a speaker at a look-ahead hears, [speakers, look-aheads, D].
        head: [D, 80 * LEVELS + 1], the last for the end of the text; ``bias`` its own.
    """

    def __init__(
        self,
        tokens: TokenStep,
        cross: Sequence[TokenCross],
        frames: np.ndarray,
        rows: np.ndarray,
        head: np.ndarray,
        bias: np.ndarray,
    ) -> None:
        self._tokens, self._cross, self._frames, self._rows = tokens, cross, frames, rows
        self._head, self._bias = head, bias
        self._first = np.arange(dmel.CHANNELS) * dmel.SYMBOLS

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def decode(self, slots: "S5Slots", numbers: Sequence[int]) -> list[Drawn]:
        """Feed back each slot's last frame and draw its next."""
        shares: list[list[np.ndarray]] = []

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            h, found = self._cross[layer](h, slots.text, numbers)
            shares.append(found)
            return h

        last = slots.last.numpy()
        x = self._frames[last[numbers] + self._first].sum(1)
        x += self._rows[slots.speaker.numpy()[numbers], slots.k.numpy()[numbers]]
        hidden = self._tokens.extend(x, slots.frames, numbers, between)
        out = product(hidden, self._head)
        out += self._bias
        logits = out[:, :-1].reshape(len(out), dmel.CHANNELS, dmel.LEVELS)
        levels = sample_on_host(logits, slots.temperature.numpy()[numbers], slots.noise.next_on_host(numbers))
        last[numbers] = levels
        slots.noise.drawn(numbers)
        finite = np.isfinite(out.sum(1))
        attended = [np.concatenate(of_row).mean(0) for of_row in zip(*shares, strict=True)]  # layers and heads
        return [
            Drawn(levels[b : b + 1], probability(out[b, -1]), attended[b], bool(finite[b])) for b in range(len(out))
        ]
