"""RichTTS's net (paper 000, section III.B): SpeakStream's decoder over a text and then its speech, not interleaved.

What SpeakStream's net has beyond it tells a segment's window; here there is none.
"""

from dataclasses import dataclass

from studio.core.errors import BadOption
from studio.engine.families.richtts.rule import SYMBOLS
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.weights.sizes import Sizes


@dataclass(frozen=True)
class Config(Sizes):
    """Sizes; ``longest_word_frames`` for each word of a piece is where one without an end is cut."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    longest_word_frames: int = 60

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper`` (36 layers, 258M parameters: section IV.A), ``small`` (at most 3M) or ``tiny`` (at most 1M)."""
        sizes = {
            "paper": Config(36, 768, 12, 3072, speakers),
            "small": Config(5, 192, 3, 768, speakers),
            "tiny": Config(3, 128, 2, 512, speakers),
        }
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]


class RichTts(FrameDecoder):
    """The characters of a whole piece, then its dMel frames."""

    def __init__(self, config: Config) -> None:
        sizes = DecoderConfig(config.layers, config.width, config.heads, config.hidden)
        super().__init__(sizes, SYMBOLS, config.speakers, config.level_width)
        self.config = config
