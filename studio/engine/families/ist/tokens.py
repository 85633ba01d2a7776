"""Tokens of IST-LM on a GPU: text tokens and frames at their places, as rows of one embedding table."""

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
from studio.engine.nets.cuda.kernels import GIVEN_FRAME, NO_FRAME
from studio.engine.nets.kv_cache import KVCache
from studio.engine.tokenizers import dmel

if TYPE_CHECKING:
    from studio.engine.families.ist.runner import IstSlots

_EXTRAS = 3


class IstTokens:
    """Plans the tokens of a net; see ``TokenPlanner``."""

    @torch.no_grad()
    def __init__(self, net: Ist, places: int) -> None:
        """``places`` bounds a passage's tokens and frames."""
        self._net, self._table = net, EmbeddingTable(net.level, net.frame)
        waves = sinusoids(torch.arange(places, device=net.ratio.weight.device), net.config.width)
        self._symbol, self._ratio = self._table.add(net.symbol.weight), self._table.add(net.ratio.weight)
        self._text_place = self._table.add(net.text_place * waves)
        self._speech_place = self._table.add(net.speech_place * waves)

    def module(self, slots: "IstSlots") -> TokenModule:
        """The module of all steps."""
        net, decoder = self._net, CudaDecoder(self._net.decoder, max_tokens(slots.cache), slots.cache.keys[0].dtype)
        heads = join_heads(net.levels_out, net.eos_out)
        step = FrameStep(decoder, self._table.joined(), _EXTRAS, *heads, slots.cache, slots.last)
        return TokenModule(step, self, max_frames=1)  # the host numbers each frame's place

    def cache(self, slots: "IstSlots") -> KVCache:
        """See ``TokenPlanner``."""
        return slots.cache

    def prefill(self, slots: "IstSlots", slot: int, given: IstPrefill) -> TokenRows:
        """See ``TokenPlanner``."""
        slots.update(slot, given)
        symbols, places = np.array(given.layout.symbols), np.array(given.layout.places)
        is_frame = symbols == FRAME
        rows = np.where(is_frame, self._table.bias, self._symbol + symbols)
        rows_of_places = places + np.where(is_frame, self._speech_place, self._text_place)
        tokens = TokenRows.make(_EXTRAS, len(symbols), rows, rows_of_places)
        tokens.rows[symbols == self._net.config.symbols.start, 2] = self._ratio + given.ratio
        tokens.source[:] = np.where(is_frame, GIVEN_FRAME, NO_FRAME)
        frames = np.zeros((len(symbols), dmel.CHANNELS), np.uint8)
        if given.layout.frames:
            frames[is_frame] = given.layout.stacked()
        return TokenRows(tokens.rows, tokens.source, frames)

    def feedback(self, slots: "IstSlots", numbers: np.ndarray) -> TokenRows:
        """See ``TokenPlanner``."""
        places = self._speech_place + slots.last_places(numbers)
        return TokenRows.make(_EXTRAS, len(numbers), self._table.bias, places, slots=numbers)

    def output(self, frame: FrameOutput, attended: np.ndarray | None) -> FrameOutput:
        """See ``TokenPlanner``."""
        return frame
