"""SpeakStream's decode on a CPU: the frame drawn last fed back, the next one drawn, in numpy over the same memory."""

from collections.abc import Sequence

import numpy as np

from studio.engine.families.drawn import Drawn
from studio.engine.families.head_on_host import HeadOnHost
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.frames import FrameTableOnHost
from studio.engine.nets.one_token import TokenStep


class DecodeOnHost:
    """What ``modules.SpeakStreamStep`` does with one frame of each row.

    Args:
        frames: what a frame's levels say; ``speakers`` [speakers, D] is added to it.
    """

    def __init__(self, tokens: TokenStep, frames: FrameTableOnHost, speakers: np.ndarray, head: HeadOnHost) -> None:
        self._tokens, self._frames, self._speakers, self._head = tokens, frames, speakers, head

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[Drawn]:
        """Feed back each slot's last frame and draw its next."""
        last, speaker = slots.last.numpy()[numbers], slots.speaker.numpy()[numbers]
        x = self._frames(last) + self._speakers[speaker]
        return self.draw(slots, numbers, self._tokens.extend(x, slots.memory, numbers))

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def draw(self, slots: SpeakStreamSlots, numbers: Sequence[int], hidden: np.ndarray) -> list[Drawn]:
        """Draw each slot's next frame from hidden states [B, D] divided by their lengths."""
        return [Drawn(*one) for one in self._head.draw(slots, numbers, hidden)]
