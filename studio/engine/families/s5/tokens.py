"""Tokens of S5-TTS and T5-TTS on a GPU; a word's text is encoded before the step that needs it."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.common.runner import join_heads
from studio.engine.families.common.token_module import TokenModule, max_tokens
from studio.engine.families.s5.model import S5, encode_text
from studio.engine.families.s5.policy import S5Output, S5StepInput
from studio.engine.nets.cuda.decoder import CudaDecoder
from studio.engine.nets.cuda.frame_step import EmbeddingTable, FrameStep, TokenRows
from studio.engine.nets.kv_cache import KVCache

if TYPE_CHECKING:
    from studio.engine.families.s5.runner import S5Slots

_EXTRAS = 3


class S5Tokens:
    """Plans the tokens of a net; see ``TokenPlanner``."""

    @torch.no_grad()
    def __init__(self, net: S5, slots: "S5Slots") -> None:
        self._net, table = net, EmbeddingTable(net.level, net.frame)
        look_ahead = getattr(net, "look_ahead", None)  # T5-TTS has none
        self._look_ahead = None if look_ahead is None else table.add(look_ahead.weight)
        self._speaker = None if net.speaker is None else table.add(net.speaker.weight)
        self._bos, self._bias = table.add(net.bos.unsqueeze(0)), table.bias
        dtype = slots.frames.keys[0].dtype
        decoder = CudaDecoder(net.decoder, max_tokens(slots.frames), dtype, net.crossings())
        decoder.keep_shares(slots.text.capacity)
        heads = join_heads(net.levels_out, net.stop_out)
        step = FrameStep(decoder, table.joined(), _EXTRAS, *heads, slots.frames, slots.last, slots.text)
        self.module = TokenModule(step, self)

    def cache(self, slots: "S5Slots") -> KVCache:
        """See ``TokenPlanner``."""
        return slots.frames

    def prefill(self, slots: "S5Slots", slot: int, row_input: S5StepInput) -> TokenRows:
        """See ``TokenPlanner``. Steps to be fed again run at once, each over its own text."""
        for one in row_input.again:
            self.module.feed(slots, slot, self._tokens(slots, slot, one))
        return self._tokens(slots, slot, row_input)

    def feedback(self, slots: "S5Slots", numbers: np.ndarray) -> TokenRows:
        """See ``TokenPlanner``."""
        visible = slots.text.bounds_arrays[1][numbers]
        conditions = self._conditions(slots, numbers)
        return TokenRows.make(_EXTRAS, len(numbers), self._bias, *conditions, slots=numbers, visible=visible)

    def output(self, frame: FrameOutput, attended: np.ndarray | None) -> S5Output:
        """See ``TokenPlanner``."""
        assert attended is not None, "the step keeps its attention"
        return S5Output(frame.levels, frame.p_eos, attended, frame.is_finite)

    def _conditions(self, slots: "S5Slots", numbers: np.ndarray | int) -> list[np.ndarray]:
        """Rows of look-ahead and speaker, where the net has them."""
        parts = (self._look_ahead, slots.k), (self._speaker, slots.speaker)
        return [first + values.numpy()[numbers] for first, values in parts if first is not None]

    def _tokens(self, slots: "S5Slots", slot: int, step_input: S5StepInput) -> TokenRows:
        """Encode a step's text into the slot; returns its tokens."""
        slots.update(slot, step_input)
        encode_text(self._net, step_input, slots.text, slot)
        visible = np.full(step_input.tokens, int(slots.text.length[slot]))
        if self._net.config.decoder_mask and step_input.spoken:  # words ascend: what may be seen is a prefix
            visible = np.searchsorted(step_input.words, np.array(step_input.spoken) + step_input.k, side="right")
        conditions = self._conditions(slots, slot)
        bos = TokenRows.make(
            _EXTRAS, int(step_input.begins), self._bos, *conditions, visible=visible[: step_input.begins]
        )
        frames = TokenRows.make(
            _EXTRAS,
            len(step_input.frames),
            self._bias,
            *conditions,
            levels=step_input.frames,
            visible=visible[step_input.begins :],
        )
        return TokenRows.join([bos, frames]) if step_input.begins else frames
