"""Tokens of IST-LM on a GPU: text tokens and frames at their positions, as rows of one embedding table."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.common.runner import join_heads
from studio.engine.families.common.token_module import TokenModule, max_tokens
from studio.engine.families.ist.model import Ist, sinusoids
from studio.engine.families.ist.policy import FRAME
from studio.engine.families.ist.row import IstPrefill
from studio.engine.nets.cuda.decoder import CudaDecoder
from studio.engine.nets.cuda.frame_step import EmbeddingTable, FrameStep, TokenRows
from studio.engine.nets.cuda.kernels import INPUT_FRAME, NO_FRAME
from studio.engine.nets.kv_cache import KVCache
from studio.engine.tokenizers import dmel

if TYPE_CHECKING:
    from studio.engine.families.ist.runner import IstSlots

_EXTRAS = 3


class IstTokens:
    """Plans the tokens of a net; see ``TokenPlanner``."""

    @torch.no_grad()
    def __init__(self, net: Ist, positions: int) -> None:
        """``positions`` bounds a passage's tokens and frames."""
        self._net, self._table = net, EmbeddingTable(net.level, net.frame)
        waves = sinusoids(torch.arange(positions, device=net.ratio.weight.device), net.config.width)
        self._symbol, self._ratio = self._table.add(net.symbol.weight), self._table.add(net.ratio.weight)
        self._text_place = self._table.add(net.text_place * waves)
        self._speech_place = self._table.add(net.speech_place * waves)

    def module(self, slots: "IstSlots") -> TokenModule:
        """The module of all steps."""
        net, decoder = self._net, CudaDecoder(self._net.decoder, max_tokens(slots.cache), slots.cache.keys[0].dtype)
        heads = join_heads(net.levels_out, net.eos_out)
        step = FrameStep(decoder, self._table.joined(), _EXTRAS, *heads, slots.cache, slots.last)
        return TokenModule(step, self, max_frames=1)  # the host numbers the positions of frames

    def cache(self, slots: "IstSlots") -> KVCache:
        """See ``TokenPlanner``."""
        return slots.cache

    def prefill(self, slots: "IstSlots", slot: int, row_input: IstPrefill) -> TokenRows:
        """See ``TokenPlanner``."""
        slots.update(slot, row_input)
        symbols, positions = np.array(row_input.layout.symbols), np.array(row_input.layout.positions)
        is_frame = symbols == FRAME
        rows = np.where(is_frame, self._table.bias, self._symbol + symbols)
        position_rows = positions + np.where(is_frame, self._speech_place, self._text_place)
        tokens = TokenRows.make(_EXTRAS, len(symbols), rows, position_rows)
        tokens.rows[symbols == self._net.config.symbols.start, 2] = self._ratio + row_input.ratio
        tokens.source[:] = np.where(is_frame, INPUT_FRAME, NO_FRAME)
        frames = np.zeros((len(symbols), dmel.CHANNELS), np.uint8)
        if row_input.layout.frames:
            frames[is_frame] = row_input.layout.stacked()
        return TokenRows(tokens.rows, tokens.source, frames)

    def feedback(self, slots: "IstSlots", numbers: np.ndarray) -> TokenRows:
        """See ``TokenPlanner``."""
        positions = self._speech_place + slots.last_positions(numbers)
        return TokenRows.make(_EXTRAS, len(numbers), self._table.bias, positions, slots=numbers)

    def output(self, frame: FrameOutput, attended: np.ndarray | None) -> FrameOutput:
        """See ``TokenPlanner``."""
        return frame
