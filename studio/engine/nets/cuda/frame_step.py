"""One step of a frame decoder on a GPU: token embeddings, decoder, heads and sampling, in one CUDA graph.

The host sends int32 numbers for each token and gets back each token's frame; a step has one copy in each direction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.nets.cuda import kernels
from studio.engine.nets.cuda.decoder import CudaDecoder, CudaLinear, TokenIndex, next_power
from studio.engine.nets.cuda.graphs import MAX_FRAMES, GraphCache, batch_sizes, host_buffer, padded_rows, settle
from studio.engine.nets.cuda.kernels import INPUT_FRAME, NO_FRAME
from studio.engine.nets.cuda.sampling_kernels import sample_frames
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.sampling import MASK32
from studio.engine.tokenizers import dmel

MAX_TOKENS = 1024  # of a step
NO_ROW = -1  # in place of a table row, or of the slot that a sample goes to
_FIELDS = ("slot", "start", "visible", "source", "target", "low", "high", "temperature", "position", "frame")
_COUNTED = slice(8, 10)  # fields that a decode step counts up


def low_half(numbers: np.ndarray) -> np.ndarray:
    """The lower 32 bits of int64 numbers, as int32."""
    return (numbers & MASK32).astype(np.uint32).view(np.int32)


@dataclass(frozen=True)
class TokenRows:
    """Inputs of N tokens: what they embed. A token is a sum of table rows, with or without a frame.

    Attributes:
        rows: int32 [N, E], rows of the table beyond those of the frames' levels; -1 for none.
        source: int32 [N], the slot whose last frame is fed back, or INPUT_FRAME, or NO_FRAME.
        levels: uint8 [N, 80], the frames of tokens with INPUT_FRAME; None if there are none.
        visible: int64 [N], encoder steps that each token may attend to; None without cross-attention.
    """

    rows: np.ndarray
    source: np.ndarray
    levels: np.ndarray | None = None
    visible: np.ndarray | None = None

    @staticmethod
    def make(
        extras: int,
        count: int,
        *columns: np.ndarray | int,
        levels: np.ndarray | None = None,
        slots: np.ndarray | None = None,
        visible: np.ndarray | None = None,
    ) -> "TokenRows":
        """``count`` tokens of the rows in ``columns``, with frames ``levels``, the last ones of ``slots``, or none."""
        rows = np.full((count, extras), NO_ROW, np.int32)
        for number, column in enumerate(columns):
            rows[:, number] = column
        source = np.full(count, NO_FRAME if levels is None else INPUT_FRAME, np.int32)
        if slots is not None:
            source[:] = slots
        return TokenRows(rows, source, levels, visible)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, first: int, last: int) -> "TokenRows":
        """Tokens [first, last)."""
        here = slice(first, last)
        levels, visible = (None if one is None else one[here] for one in (self.levels, self.visible))
        return TokenRows(self.rows[here], self.source[here], levels, visible)

    @staticmethod
    def join(parts: Sequence["TokenRows"]) -> "TokenRows":
        """All tokens, in order."""
        if len(parts) == 1:
            return parts[0]
        levels = None
        if any(one.levels is not None for one in parts):
            none = [
                np.zeros((len(one), dmel.CHANNELS), np.uint8) if one.levels is None else one.levels for one in parts
            ]
            levels = np.concatenate(none)
        visible = [one.visible for one in parts if one.visible is not None]
        return TokenRows(
            np.concatenate([one.rows for one in parts]),
            np.concatenate([one.source for one in parts]),
            levels,
            np.concatenate(visible) if visible else None,
        )


@dataclass(frozen=True)
class TokenBatch:
    """N tokens of a step; every array has one number per token.

    Attributes:
        tokens: what they embed.
        slot, position, start: see ``TokenIndex``.
        target: the slot whose next frame is sampled from the token, or -1.
        seed, frame, temperature: of the sampling.
        is_mixed: whether a slot has several tokens.
    """

    tokens: TokenRows
    slot: np.ndarray
    position: np.ndarray
    start: np.ndarray
    target: np.ndarray
    seed: np.ndarray
    frame: np.ndarray
    temperature: np.ndarray
    is_mixed: bool


@dataclass(frozen=True)
class StepFrames:
    """The frames of a step's tokens; only those of sampled tokens mean anything.

    Attributes:
        levels: uint8 [N, 80].
        end: float32 [N], the end's logit.
        check: float32 [N], not finite if a logit was not.
        attended: of each token, shares of the encoder steps it sees, float32 [S], mean of layers and heads.
    """

    levels: np.ndarray
    end: np.ndarray
    check: np.ndarray
    attended: Sequence[np.ndarray] | None = None


class EmbeddingTable:
    """The table of a step's embeddings: levels of each channel first, then what ``add`` appends."""

    @torch.no_grad()
    def __init__(self, level: nn.Embedding, frame: nn.Linear) -> None:
        self._parts = [FrameEmbeddingTable(level, frame).table]
        self.bias = self.add(frame.bias.unsqueeze(0))

    def add(self, weight: Tensor) -> int:
        """Append rows [R, D]; returns the number of the first."""
        self._parts.append(weight.detach())
        return sum(len(one) for one in self._parts[:-1])

    def joined(self) -> Tensor:
        """All rows, [R, D]."""
        return torch.cat(self._parts)


class FrameStep:
    """Runs token batches of a frame decoder.

    Args:
        table: rows of the embedding, [80 * SYMBOLS + others, D]: those of each level of each channel, then others.
        extras: number of other rows in a token (E).
        head: joined heads of levels and end, [80 * LEVELS + 1, D], without the final norm.
        bias: of the head.
        cache: KV cache on the device; its last slot is the padding's.
        last: uint8 [slots, 80], the last sampled frame of each slot.
        encoded: K and V of encoder steps, for a decoder with cross-attention.
        graphs: whether steps are captured.
    """

    @torch.no_grad()
    def __init__(
        self,
        decoder: CudaDecoder,
        table: Tensor,
        extras: int,
        head: Tensor,
        bias: Tensor,
        cache: KVCache,
        last: Tensor,
        encoded: KVCache | None = None,
        *,
        graphs: GraphCache | None = None,
    ) -> None:
        self.decoder, self.cache, self.last, self._encoded = decoder, cache, last, encoded
        device, tokens = decoder.device, len(decoder.x)
        self.graphs = graphs or GraphCache(device)
        self._table = table.detach().to(decoder.dtype).contiguous()
        self._head: CudaLinear = decoder.head(head)
        self._bias = bias.detach().float().contiguous()
        self._spare = len(last) - 1
        self.max_tokens = tokens
        shape = (len(_FIELDS) + extras, tokens)
        self._host = host_buffer(*shape, dtype=torch.int32, device=device)
        self._numbers = self._host.numpy()
        self._ints = torch.zeros(shape, dtype=torch.int32, device=device)
        self._extras = extras
        fields = dict(zip(_FIELDS, self._ints, strict=False))
        self._index = TokenIndex(*(fields[name] for name in ("slot", "position", "start", "visible")))
        self._of_sampling = [fields[name] for name in ("low", "high", "frame")]
        self._temperature = fields["temperature"].view(torch.float32)
        self._source, self._target = fields["source"], fields["target"]
        self._rows = self._ints[len(_FIELDS) :]
        self._host_input_levels = host_buffer(tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._input_levels = torch.zeros(tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._logits = torch.zeros(tokens, self._head.outputs, device=device)
        self._low_logits = torch.zeros(tokens, self._head.outputs, dtype=decoder.dtype, device=device)
        self._levels = torch.zeros(tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._ends = torch.zeros(tokens, 2, device=device)
        self._host_levels = host_buffer(MAX_FRAMES, tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._host_ends = host_buffer(MAX_FRAMES, tokens, 2, dtype=torch.float32, device=device)

    @property
    def weights(self) -> list[Tensor]:
        """What a step reads once, however many rows it has."""
        return [self._head.weight, *self.decoder.weights]

    def sizes(self, *, mixed: bool) -> Iterator[int]:
        """Padded numbers of tokens: of decode steps up to all slots, of mixed steps up to the limit."""
        return batch_sizes(self.max_tokens if mixed else min(self.max_tokens, self._spare))

    @torch.inference_mode()
    def capture(self, size: int, *, is_mixed: bool) -> None:
        """Capture a step ahead of its first use, on tokens of the spare slot."""
        self._fill_padding(0, size)
        self._copy_in(size, None)
        self.graphs.capture((size, is_mixed), lambda: self._launch(size, is_mixed=is_mixed))
        settle(self.graphs.device)  # the host's buffer is written again

    @torch.inference_mode()
    def run(self, batch: TokenBatch, frames: int = 1) -> list[StepFrames]:
        """One step, or several decode steps in a row. The tokens' slots must have room; lengths are not changed."""
        count = len(batch.tokens)
        size = padded_rows(count)
        assert size <= self.max_tokens, "a step takes at most max_tokens tokens"
        if self.graphs.needs((size, batch.is_mixed)):
            self.capture(size, is_mixed=batch.is_mixed)
        self._fill(batch)
        self._fill_padding(count, size)
        self._copy_in(size, batch.tokens.levels)
        attended = list[Sequence[np.ndarray] | None]()
        for number in range(frames):
            self.graphs.launch((size, batch.is_mixed), lambda: self._launch(size, is_mixed=batch.is_mixed))
            attended.append(self._copy_out(number, count, batch.tokens))
        settle(self.graphs.device)
        levels = self._host_levels[:frames, :count].numpy().copy()
        ends = self._host_ends[:frames, :count].numpy().copy()
        return [StepFrames(levels[k], ends[k, :, 0], ends[k, :, 1], attended[k]) for k in range(frames)]

    def launch(self, size: int) -> None:
        """A decode step on the inputs of the last run, without copies: for measurements."""
        self.graphs.launch((size, False), lambda: self._launch(size, is_mixed=False))

    def _fill(self, batch: TokenBatch) -> None:
        numbers, tokens, count = self._numbers, batch.tokens, len(batch.tokens)
        values = (
            batch.slot, batch.start, 0 if tokens.visible is None else tokens.visible, tokens.source, batch.target,
            low_half(batch.seed), low_half(batch.seed >> 32),
            batch.temperature.astype(np.float32).view(np.int32), batch.position, batch.frame,
        )  # fmt: skip
        for field, value in enumerate(values):
            numbers[field, :count] = value
        numbers[len(_FIELDS) :, :count] = tokens.rows.T

    def _fill_padding(self, count: int, size: int) -> None:
        numbers = self._numbers
        numbers[:, count:size] = 0
        numbers[_FIELDS.index("slot"), count:size] = self._spare
        for field in ("source", "target"):
            numbers[_FIELDS.index(field), count:size] = NO_ROW
        numbers[len(_FIELDS) :, count:size] = NO_ROW

    def _copy_in(self, size: int, levels: np.ndarray | None) -> None:
        self._ints.copy_(self._host, non_blocking=True)
        if levels is not None:
            self._host_input_levels.numpy()[: len(levels)] = levels
            self._input_levels[:size].copy_(self._host_input_levels[:size], non_blocking=True)

    def _launch(self, count: int, *, is_mixed: bool) -> None:
        decoder = self.decoder
        width, block = decoder.config.width, 32
        kernels.embed_tokens[(count, -(-width // block))](
            decoder.x, self._table, self._rows, self._source, self._input_levels, self.last, width, self.max_tokens,
            self._extras, dmel.CHANNELS, next_power(dmel.CHANNELS), dmel.SYMBOLS, block,
        )  # fmt: skip
        decoder.run(count, self._index, self.cache, mixed=is_mixed, encoded=self._encoded)
        logits = decoder.project(self._head, self._logits, self._low_logits, count)
        sample_frames[(count,)](
            logits, self._bias, *self._of_sampling, self._temperature, self._target, self.last, self._levels,
            self._ends, self._head.outputs, 0, 0, dmel.CHANNELS, next_power(dmel.CHANNELS), dmel.LEVELS, True,
            dmel.CHANNELS,
        )  # fmt: skip
        if not is_mixed:
            self._ints[_COUNTED, :count].add_(1)

    def _copy_out(self, number: int, count: int, tokens: TokenRows) -> Sequence[np.ndarray] | None:
        """Copy a step's frames to the host, and return its attention, if it is kept."""
        self._host_levels[number, :count].copy_(self._levels[:count], non_blocking=True)
        self._host_ends[number, :count].copy_(self._ends[:count], non_blocking=True)
        shares, visible = self.decoder.shares, tokens.visible
        if shares is None:
            return None
        assert visible is not None, "cross-attention needs the number of visible steps"
        means = shares[:count, :, : max(1, int(visible.max()))].mean(1) / self.decoder.config.layers
        return [row[:steps] for row, steps in zip(means.cpu().numpy(), visible.tolist(), strict=True)]
