"""T5-TTS's net (paper 001): S5-TTS's encoder and decoder without look-ahead masks.

It has no look-ahead embedding and no auxiliary attention.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from studio.core.errors import BadOption
from studio.engine.families.s5.model import S5, S5Config


@dataclass(frozen=True)
class T5Config(S5Config):
    """S5-TTS's sizes without its masks. A sentence is cut at ``longest_word_frames`` per word."""

    encoder_mask: bool = False
    decoder_mask: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_mask or self.decoder_mask:
            raise BadOption("T5-TTS has no look-ahead masks", "leave out encoder_mask and decoder_mask")

    @staticmethod
    def named(name: str, speakers: int = 2) -> "T5Config":
        """``paper``, ``small`` or ``tiny``: the sizes of S5-TTS."""
        sizes = S5Config.named(name, speakers).to_dict()
        return T5Config(**{**sizes, "encoder_mask": False, "decoder_mask": False})


class T5(S5):
    """Phonemes of a whole sentence and dMel frames in; the next frame's 80 channels and p_stop out."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        del self.look_ahead, self.aligner

    def embed_row(self, speaker: Tensor, k: Tensor) -> Tensor:
        """Embedding of every decoder step: speakers int64 [B] -> [B, D]; zeros where a reference gives the speaker."""
        if self.speaker is None:
            return torch.zeros(len(speaker), self.config.width, device=speaker.device, dtype=self.bos.dtype)
        return self.speaker(speaker)
