"""SpeakStream's decode on a CPU: the frame drawn last fed back, the next one drawn, in numpy over the same memory."""

from collections.abc import Sequence

import numpy as np

from studio.engine import dmel
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.one_token import TokenStep, product
from studio.engine.sampling import sample_on_host


class DecodeOnHost:
    """What ``modules.SpeakStreamStep`` does with one frame of each row.

    Args:
        frames: what each level of each channel adds to a frame's embedding, float32 [80 * SYMBOLS, D].
        speakers: [speakers, D].
        head: [D, 80 * LEVELS + 1], the last for the end of the segment; ``bias`` its own.
    """

    def __init__(
        self, tokens: TokenStep, frames: np.ndarray, speakers: np.ndarray, head: np.ndarray, bias: np.ndarray
    ) -> None:
        self._tokens, self._frames, self._speakers, self._head, self._bias = tokens, frames, speakers, head, bias
        self._first = np.arange(dmel.CHANNELS) * dmel.SYMBOLS

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[Drawn]:
        """Feed back each slot's last frame and draw its next."""
        last, speaker = slots.last.numpy()[numbers], slots.speaker.numpy()[numbers]
        x = self._frames[last + self._first].sum(1) + self._speakers[speaker]
        return self.draw(slots, numbers, self._tokens.extend(x, slots.memory, numbers))

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def draw(self, slots: SpeakStreamSlots, numbers: Sequence[int], hidden: np.ndarray) -> list[Drawn]:
        """Draw each slot's next frame from hidden states [B, D] divided by their lengths."""
        out = product(hidden, self._head)
        out += self._bias
        logits = out[:, :-1].reshape(len(out), dmel.CHANNELS, dmel.LEVELS)
        levels = sample_on_host(logits, slots.temperature.numpy()[numbers], slots.noise.next_on_host(numbers))
        slots.last.numpy()[numbers] = levels
        slots.noise.drawn(numbers)
        finite = np.isfinite(out.sum(1))
        return [Drawn(levels[b : b + 1], probability(out[b, -1]), bool(finite[b])) for b in range(len(out))]
