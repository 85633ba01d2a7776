"""RichTTS's net (paper 000, section III.B): SpeakStream's decoder over a text and then its speech, not interleaved."""

from dataclasses import dataclass

from studio.engine.families.richtts.policy import SYMBOLS
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.loading import NetConfig
from studio.engine.nets.transformer import DecoderConfig


@dataclass(frozen=True)
class RichTtsConfig(NetConfig):
    """NetConfig; ``longest_word_frames`` for each word of a piece is where one without an end is cut."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    longest_word_frames: int = 60

    @staticmethod
    def named(name: str, speakers: int = 2) -> "RichTtsConfig":
        """``paper`` (36 layers, 258M parameters: section IV.A), ``small`` (at most 3M) or ``tiny`` (at most 1M)."""
        sizes = {
            "paper": RichTtsConfig(36, 768, 12, 3072, speakers),
            "small": RichTtsConfig(5, 192, 3, 768, speakers),
            "tiny": RichTtsConfig(3, 128, 2, 512, speakers),
        }
        return RichTtsConfig.pick(name, sizes)


class RichTts(FrameDecoder):
    """Decoder over the characters of a whole piece, then its dMel frames."""

    def __init__(self, config: RichTtsConfig) -> None:
        sizes = DecoderConfig(config.layers, config.width, config.heads, config.hidden)
        super().__init__(sizes, SYMBOLS, config.speakers, config.level_width)
        self.config = config
