"""SpeakStream's net (paper 000, section III.B): one decoder-only stream of characters and dMel frames."""

from dataclasses import dataclass

from torch import Tensor, nn

from studio.engine.families.speakstream.policy import BOS, LARGEST_WINDOW, SCHEMES, SYMBOLS
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.loading import NetConfig
from studio.engine.nets.transformer import DecoderConfig


@dataclass(frozen=True)
class SpeakStreamConfig(NetConfig):
    """Sizes. For ``context_frames``, ``kept_frames`` and ``longest_word_frames`` see ``RowLimits``."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    context_frames: int = 600
    kept_frames: int = 360
    longest_word_frames: int = 60

    @staticmethod
    def named(name: str, speakers: int = 2) -> "SpeakStreamConfig":
        """``paper`` (36 layers, 258M parameters: section IV.A), ``small`` (shipped) or ``tiny`` (at most 1M)."""
        sizes = {
            "paper": SpeakStreamConfig(36, 768, 12, 3072, speakers),
            "small": SpeakStreamConfig(4, 256, 4, 1024, speakers),
            "tiny": SpeakStreamConfig(3, 128, 2, 512, speakers),
        }
        return SpeakStreamConfig.pick(name, sizes)


class SpeakStream(FrameDecoder):
    """Decoder over characters and dMel frames, segment by segment; each s_bos embeds its window."""

    def __init__(self, config: SpeakStreamConfig) -> None:
        sizes = DecoderConfig(config.layers, config.width, config.heads, config.hidden)
        super().__init__(sizes, SYMBOLS, config.speakers, config.level_width)
        self.config = config
        self.scheme = nn.Embedding(len(SCHEMES), config.width)
        self.spoken = nn.Embedding(LARGEST_WINDOW + 1, config.width)
        self.look_ahead = nn.Embedding(2 * LARGEST_WINDOW, config.width)
        for table in (self.scheme, self.spoken, self.look_ahead):
            nn.init.normal_(table.weight, std=0.5)

    def embed_bos(self, windows: Tensor, speaker: Tensor) -> Tensor:
        """s_bos with its window (scheme, words spoken now, look-ahead present): [N, 3] and [N] -> [N, D]."""
        scheme, spoken, look_ahead = windows.unbind(-1)
        look_ahead = look_ahead.clamp(max=self.look_ahead.num_embeddings - 1)
        bos = self.symbol.weight[BOS] + self.scheme(scheme) + self.spoken(spoken) + self.look_ahead(look_ahead)
        return bos + self.speaker(speaker)
