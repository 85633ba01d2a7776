"""RichTTS's prefill module; decode is SpeakStream's."""

from collections.abc import Sequence

import torch
from torch import Tensor

from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.richtts.model import RichTts
from studio.engine.families.richtts.policy import RichTtsInput
from studio.engine.families.speakstream.runner import SpeakStreamRunner, SpeakStreamSlots


class RichTtsPrefillModule:
    """Prefills a piece, one row at a time: lengths differ, and padding would change rounding."""

    max_rows = 1

    def __init__(self, net: RichTts, runner: SpeakStreamRunner) -> None:
        self._net, self._runner = net, runner

    @torch.inference_mode()
    def run(
        self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[RichTtsInput]
    ) -> list[FrameOutput]:
        """See ``studio.engine.families.base.Module``."""
        outputs: list[FrameOutput] = []
        for (slot,), piece in zip(rows, inputs, strict=True):
            slots.start(slot, (0, 0), piece.speaker, piece.temperature, piece.seed, piece.frame)
            outputs += self._runner.sample(slots, [slot], self._embedded(piece, slots.speaker[slot : slot + 1]))
        return outputs

    def _embedded(self, piece: RichTtsInput, speaker: Tensor) -> Tensor:
        """All tokens, [1, T, D]; ``speaker`` int64 [1]."""
        text = self._net.embed_symbols(torch.tensor([[*piece.symbols]], device=speaker.device), speaker)[0]
        silence = torch.from_numpy(piece.silence).to(speaker.device)
        frames = self._runner.embed_frames(silence, speaker.expand(len(silence)))
        return torch.cat((text, frames)).unsqueeze(0)
