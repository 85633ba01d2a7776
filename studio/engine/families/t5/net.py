"""T5-TTS's net (paper 001): S5-TTS's encoder and decoder, whose attention is never masked but by time.

It is told no look-ahead, and needs no auxiliary attention: nobody asks which word a frame is of before it is made.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from studio.core.errors import BadOption
from studio.engine.families.s5.net import S5
from studio.engine.families.s5.net import Config as S5Config


@dataclass(frozen=True)
class Config(S5Config):
    """S5-TTS's sizes, without its masks; ``longest_word_frames`` for each word is where a sentence is cut."""

    encoder_mask: bool = False
    decoder_mask: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_mask or self.decoder_mask:
            raise BadOption("T5-TTS has no look-ahead masks", "leave encoder_mask and decoder_mask out, or write false")

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper``, ``small`` or ``tiny``: as large as the S5-TTS that it is beside."""
        sizes = S5Config.named(name, speakers).to_dict()
        return Config(**{**sizes, "encoder_mask": False, "decoder_mask": False})


class T5(S5):
    """Phonemes of a whole sentence and dMel frames in; the next frame's 80 channels and p_stop out."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        del self.look_ahead, self.aligner

    def embed_row(self, speaker: Tensor, k: Tensor) -> Tensor:
        """What every step of a row's decoder hears: speakers, int64 [B] -> [B, D]; nothing where a reference tells."""
        if self.speaker is None:
            return torch.zeros(len(speaker), self.config.width, device=speaker.device, dtype=self.bos.dtype)
        return self.speaker(speaker)
