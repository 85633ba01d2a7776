"""S5-TTS's decode on a CPU: the frame drawn last fed back, the next one drawn, in numpy over the same memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from studio.engine.families.head_on_host import HeadOnHost
from studio.engine.families.s5.step import Drawn
from studio.engine.nets.frames import FrameTableOnHost
from studio.engine.nets.one_token import TokenCross, TokenStep

if TYPE_CHECKING:
    from studio.engine.families.s5.modules import S5Slots


class DecodeOnHost:
    """What ``modules.DecodeModule`` does with one frame of each row.

    Args:
        frames: what a frame's levels say.
        rows: what is added to it for a speaker at a look-ahead, [speakers, look-aheads, D].
    """

    def __init__(
        self,
        tokens: TokenStep,
        cross: Sequence[TokenCross],
        frames: FrameTableOnHost,
        rows: np.ndarray,
        head: HeadOnHost,
    ) -> None:
        self._tokens, self._cross, self._frames, self._rows, self._head = tokens, cross, frames, rows, head

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def decode(self, slots: "S5Slots", numbers: Sequence[int]) -> list[Drawn]:
        """Feed back each slot's last frame and draw its next."""
        shares: list[list[np.ndarray]] = []

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            h, found = self._cross[layer](h, slots.text, numbers)
            shares.append(found)
            return h

        x = self._frames(slots.last.numpy()[numbers])
        x += self._rows[slots.speaker.numpy()[numbers], slots.k.numpy()[numbers]]
        drawn = self._head.draw(slots, numbers, self._tokens.extend(x, slots.frames, numbers, between))
        attended = [np.concatenate(of_row).mean(0) for of_row in zip(*shares, strict=True)]  # layers and heads
        return [
            Drawn(levels, p_stop, part, is_finite)
            for (levels, p_stop, is_finite), part in zip(drawn, attended, strict=True)
        ]
