"""Tokens of SpeakStream and RichTTS on a GPU: their inputs as rows of one embedding table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.engine.families.base import Module
from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.common.runner import join_heads
from studio.engine.families.common.token_module import TokenModule, max_tokens
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.families.speakstream.policy import BOS, SegmentInput, SegmentPrefill
from studio.engine.nets.cuda.decoder import CudaDecoder
from studio.engine.nets.cuda.frame_step import EmbeddingTable, FrameStep, TokenRows
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.kv_cache import KVCache
from studio.engine.tokenizers import dmel

if TYPE_CHECKING:
    from studio.engine.families.speakstream.runner import SpeakStreamSlots


class FrameDecoderTokens:
    """Tokens of a ``FrameDecoder``: a symbol or a frame, with the speaker.

    Attributes:
        table: of the embeddings; a family adds its own before ``step``.
    """

    extras = 2

    def __init__(self, net: FrameDecoder) -> None:
        self.net, self.table = net, EmbeddingTable(net.level, net.frame)
        self.symbol, self.speaker = self.table.add(net.symbol.weight), self.table.add(net.speaker.weight)

    def module(self, slots: "SpeakStreamSlots") -> TokenModule:
        """The module of all steps."""
        net, decoder = self.net, CudaDecoder(self.net.decoder, max_tokens(slots.cache), slots.cache.keys[0].dtype)
        heads = join_heads(net.levels_out, net.eos_out)
        return TokenModule(FrameStep(decoder, self.table.joined(), self.extras, *heads, slots.cache, slots.last), self)

    def cache(self, slots: "SpeakStreamSlots") -> KVCache:
        """See ``TokenPlanner``."""
        return slots.cache

    def prefill(self, slots: "SpeakStreamSlots", slot: int, row_input: Any) -> TokenRows:
        """See ``TokenPlanner``: symbols, then frames of silence."""
        slots.start(slot, (0, 0), row_input.speaker, row_input.temperature, row_input.seed, row_input.frame)
        return TokenRows.join(
            [self.symbols(row_input.symbols, row_input.speaker), self.frames(row_input.silence, row_input.speaker)]
        )

    def feedback(self, slots: "SpeakStreamSlots", numbers: np.ndarray) -> TokenRows:
        """See ``TokenPlanner``."""
        speakers = self.speaker + slots.speaker.numpy()[numbers]
        return TokenRows.make(self.extras, len(numbers), self.table.bias, speakers, slots=numbers)

    def output(self, frame: FrameOutput, attended: np.ndarray | None) -> FrameOutput:
        """See ``TokenPlanner``."""
        return frame

    def symbols(self, ids: Sequence[int], speaker: int) -> TokenRows:
        """Tokens of symbols."""
        return TokenRows.make(self.extras, len(ids), self.symbol + np.array(ids, np.int64), self.speaker + speaker)

    def frames(self, frames: np.ndarray, speaker: int) -> TokenRows:
        """Tokens of frames uint8 [N, 80]."""
        return TokenRows.make(self.extras, len(frames), self.table.bias, self.speaker + speaker, levels=frames)


class SpeakStreamTokens(FrameDecoderTokens):
    """Tokens of SpeakStream: s_bos embeds its window as well."""

    extras = 5

    def __init__(self, net: SpeakStream) -> None:
        super().__init__(net)
        self._windows = [self.table.add(one.weight) for one in (net.scheme, net.spoken, net.look_ahead)]
        self._longest_look_ahead = net.look_ahead.num_embeddings - 1

    def prefill(self, slots: "SpeakStreamSlots", slot: int, row_input: SegmentPrefill) -> TokenRows:
        """See ``TokenPlanner``."""
        span = (row_input.start, row_input.at + row_input.known)
        slots.start(slot, span, row_input.speaker, row_input.temperature, row_input.seed, row_input.frame)
        parts = [part for segment in row_input.segments for part in self._segment(segment, row_input.speaker)]
        tokens = TokenRows.join([part for part in parts if len(part)])
        return tokens.part(row_input.known, len(tokens))

    def _segment(self, segment: SegmentInput, speaker: int) -> list[TokenRows]:
        eos = np.full((int(segment.after_eos), dmel.CHANNELS), dmel.EOS, np.uint8)
        scheme, spoken, look_ahead = segment.window
        window = (scheme, spoken, min(look_ahead, self._longest_look_ahead))
        rows = [first + number for first, number in zip(self._windows, window, strict=True)]
        bos = TokenRows.make(self.extras, 1, self.symbol + BOS, self.speaker + speaker, *rows)
        frames = self.frames(eos, speaker), self.frames(segment.frames, speaker)
        return [frames[0], self.symbols(segment.symbols, speaker), bos, frames[1]]


def token_modules(tokens: FrameDecoderTokens, slots: "SpeakStreamSlots") -> Mapping[str, Module]:
    """The modules of a family whose prefill and decode are one."""
    module = tokens.module(slots)
    return {"prefill": module, "decode": module}
