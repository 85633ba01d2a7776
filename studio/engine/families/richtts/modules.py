"""RichTTS's modules: prefill (a piece's text and its first frame); decode is SpeakStream's, for the decoder is."""

from collections.abc import Sequence

import torch
from torch import Tensor

from studio.engine.families.drawn import Drawn
from studio.engine.families.richtts.net import RichTts
from studio.engine.families.richtts.row import Piece
from studio.engine.families.speakstream.modules import SpeakStreamStep
from studio.engine.families.speakstream.slots import SpeakStreamSlots


class PrefillModule:
    """Reads a piece, row by row: their lengths differ, and padding would change roundings."""

    most_rows = 1

    def __init__(self, net: RichTts, step: SpeakStreamStep) -> None:
        self._net, self._step = net, step

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Piece]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        found: list[Drawn] = []
        for (slot,), piece in zip(rows, inputs, strict=True):
            slots.place(slot, piece)
            found += self._step.draw(slots, [slot], self._embedded(piece, slots.speaker[slot : slot + 1]))
        return found

    def _embedded(self, piece: Piece, speaker: Tensor) -> Tensor:
        """All tokens, [1, T, D]; ``speaker`` int64 [1]."""
        text = self._net.embed_symbols(torch.tensor([[*piece.symbols]], device=speaker.device), speaker)[0]
        silence = torch.from_numpy(piece.silence).to(speaker.device)
        frames = self._step.embed_frames(silence, speaker.expand(len(silence)))
        return torch.cat((text, frames)).unsqueeze(0)
