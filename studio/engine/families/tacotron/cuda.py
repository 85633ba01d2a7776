"""Tacotron 2's decoder on a GPU: a frame of each row in one CUDA graph."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.families.common.runner import join_heads
from studio.engine.families.tacotron import kernels as tacotron_kernels
from studio.engine.families.tacotron.decode import (
    CAPACITY_SYMBOLS,
    RESULT_WIDTH,
    TacotronDecodeModule,
    TacotronSlots,
)
from studio.engine.families.tacotron.model import Tacotron, frame_values, lstm_step, normalise
from studio.engine.nets.cuda import kernels
from studio.engine.nets.cuda.decoder import GEMV_ROWS, CudaLinear, next_power
from studio.engine.nets.cuda.frame_step import NO_ROW, EmbeddingTable, low_half
from studio.engine.nets.cuda.graphs import MAX_ROWS, GraphCache, batch_sizes, host_buffer, padded_rows, settle
from studio.engine.nets.cuda.sampling_kernels import sample_frames
from studio.engine.tokenizers import dmel

LAUNCH_FRAMES = 4  # sampled before the host reads them
_FIELDS: tuple[str, ...] = ("slot", "symbols", "target", "low", "high", "frame", "temperature")


class _Product:
    """A product [B, K] -> [B, O], float32 outside."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        self._linear, self._dtype = CudaLinear(weight, dtype), dtype

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) > GEMV_ROWS:
            return torch.mm(x.to(self._dtype), self._linear.transposed).float()
        out = torch.empty(len(x), self._linear.outputs, device=x.device)
        self._linear.gemv(x, out, len(x))
        return out


class TacotronStep:
    """Samples frames of rows; the state is float32, weights and encoder outputs are bfloat16 on a GPU."""

    @torch.no_grad()
    def __init__(self, net: Tacotron, slots: TacotronSlots, graphs: GraphCache | None = None) -> None:
        self._config, self._slots = net.config, slots
        self._device, dtype = slots.last.device, slots.encoded.dtype
        self._spare = len(slots.last) - 1
        self.max_rows = rows = padded_rows(min(MAX_ROWS, self._spare))
        self.graphs = graphs or GraphCache(self._device)
        cell, attention, head = net.attention_lstm, net.attention, net.head
        of_input, of_hidden, bias, other_bias = net.decoder_lstm.all_weights[0]
        self._prenet = [_Product(layer.weight, dtype) for layer in (net.prenet_in, net.prenet_out)]
        self._attention_gates = _Product(torch.cat((cell.weight_ih, cell.weight_hh), 1), dtype)
        self._decoder_gates = _Product(torch.cat((of_input, of_hidden), 1), dtype)
        self._attention_bias = (cell.bias_ih + cell.bias_hh).detach()
        self._decoder_bias = (bias + other_bias).detach()
        self._query = _Product(attention.query.weight, dtype)
        self._kernel = attention.location_kernel().permute(1, 2, 0).float().contiguous()
        self._score = attention.score.weight[0].detach().float().contiguous()
        self._state, self._up, self._down = (_Product(one.weight, dtype) for one in (head.state, head.up, head.down))
        table = EmbeddingTable(head.level, head.frame)
        self._frames = table.joined().to(dtype).contiguous()
        weight, head_bias = join_heads(net.levels_out, net.stop_out)
        self._heads, self._head_bias = _Product(weight, dtype), head_bias.detach().float().contiguous()

        def buffer(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(rows, *shape, dtype=dtype, device=self._device)

        self._bias_row = torch.full((1, rows), table.bias, dtype=torch.int32, device=self._device)
        self._scores, self._context = buffer(CAPACITY_SYMBOLS), buffer(net.config.width)
        self._levels, self._attended, self._ends = buffer(dmel.CHANNELS, dtype=torch.uint8), buffer(1), buffer(2)
        self._embedded, self._result = buffer(net.config.head_width), buffer(RESULT_WIDTH)
        shape = LAUNCH_FRAMES, len(_FIELDS), rows
        self._host = host_buffer(*shape, dtype=torch.int32, device=self._device)
        self._numbers = self._host.numpy()
        self._all = torch.zeros(shape, dtype=torch.int32, device=self._device)
        self._now = torch.zeros(shape[1:], dtype=torch.int32, device=self._device)
        self._fields = dict(zip(_FIELDS, self._now, strict=True))
        self._fields["temperature"] = self._fields["temperature"].view(torch.float32)
        self._results = torch.zeros(LAUNCH_FRAMES, rows, RESULT_WIDTH, device=self._device)
        self._host_results = host_buffer(*self._results.shape, dtype=torch.float32, device=self._device)

    def sizes(self) -> list[int]:
        """Padded numbers of rows."""
        return [*batch_sizes(self.max_rows)]

    @torch.inference_mode()
    def capture(self, size: int) -> None:
        """Capture a frame of ``size`` rows ahead of its first use, in the spare slot."""
        self._numbers[0] = 0
        self._numbers[0, _FIELDS.index("slot")] = self._spare
        self._numbers[0, _FIELDS.index("target")] = NO_ROW
        self._now.copy_(self._host[0])
        self.graphs.capture(size, partial(self._launch, size))

    def draw(self, slots: TacotronSlots, numbers: list[int], frames: Sequence[int]) -> list[np.ndarray]:
        """See ``TacotronDrawer``. A row with fewer frames than others goes on in the spare slot."""
        index, wanted, size = np.array(numbers), np.minimum(frames, LAUNCH_FRAMES), padded_rows(len(numbers))
        launches = int(wanted.max())
        if self.graphs.needs(size):  # a capture runs the step: not on the rows' slots
            self.capture(size)
        for number in range(launches):
            self._fill(number, index, wanted > number)
        self._all[:launches].copy_(self._host[:launches], non_blocking=True)
        for number in range(launches):
            self._now.copy_(self._all[number])
            self.graphs.launch(size, partial(self._launch, size))
            self._results[number, :size].copy_(self._result[:size])
        self._host_results[:launches].copy_(self._results[:launches], non_blocking=True)
        settle(self._device)
        slots.noise.frame[index] += wanted
        host_results = self._host_results.numpy()
        return [host_results[:count, row].copy() for row, count in enumerate(wanted)]

    def _fill(self, number: int, index: np.ndarray, is_active: np.ndarray) -> None:
        """The numbers of a launch; rows that have their frames, and padding, are in the spare slot."""
        slots, count, fields = self._slots, len(index), dict(zip(_FIELDS, self._numbers[number], strict=True))
        seed = slots.noise.seed[index]
        values = {
            "slot": np.where(is_active, index, self._spare),
            "symbols": np.where(is_active, slots.symbols[index], 0),
            "target": np.where(is_active, index, NO_ROW),
            "low": low_half(seed),
            "high": low_half(seed >> 32),
            "frame": slots.noise.frame[index] + number,
            "temperature": slots.temperature.numpy()[index].view(np.int32),
        }
        padding = {"slot": self._spare, "target": NO_ROW}
        for name, field in fields.items():
            field[:count], field[count:] = values[name], padding.get(name, 0)

    def _launch(self, count: int) -> None:
        """One frame of the rows in ``_now``, to ``_result``."""
        slots, fields = self._slots, self._fields
        index = fields["slot"][:count].long()
        noise = [fields[name] for name in ("low", "high", "frame")]
        looked = self._look_at(slots.last[index], noise)
        seen = torch.cat((looked, slots.context[index], slots.attention_hidden[index]), 1)
        hidden, state = lstm_step(self._attention_gates(seen) + self._attention_bias, slots.attention_state[index])
        slots.attention_hidden[index], slots.attention_state[index] = hidden, state
        context = self._attend(count, self._query(hidden))
        slots.context[index] = context
        seen = torch.cat((hidden, context, slots.decoder_hidden[index]), 1)
        decoded, state = lstm_step(self._decoder_gates(seen) + self._decoder_bias, slots.decoder_state[index])
        slots.decoder_hidden[index], slots.decoder_state[index] = decoded, state
        logits = self._heads(self._run_head(count, decoded, context))
        sample_frames[(count,)](
            logits, self._head_bias, *noise, fields["temperature"], fields["target"], slots.last, self._levels,
            self._ends, logits.shape[1], 0, 0, dmel.CHANNELS, next_power(dmel.CHANNELS), dmel.LEVELS, True,
            dmel.CHANNELS,
        )  # fmt: skip
        columns = self._ends[:count], self._attended[:count], self._levels[:count].float()
        torch.cat(columns, 1, out=self._result[:count])

    def _look_at(self, levels: Tensor, noise: list[Tensor]) -> Tensor:
        """The pre-net, with dropout from this frame's noise: [B, P]."""
        x, width = frame_values(levels), self._config.prenet_width
        for number, layer in enumerate(self._prenet):
            x = layer(x)
            tacotron_kernels.relu_dropout[(len(x),)](
                x, *noise, width, dmel.CHANNELS + number * width, self._config.prenet_dropout, next_power(width)
            )
        return x

    def _attend(self, count: int, query: Tensor) -> Tensor:
        """Context [B, D]; the shares in the slots, and ``_attended``, are set as well."""
        c, slots, fields = self._config, self._slots, self._fields
        widths = c.attention_width, next_power(c.attention_width), c.width, next_power(c.width)
        tacotron_kernels.attend_by_location[(count,)](
            query, slots.keys, slots.encoded, slots.last_shares, slots.sum_shares, self._kernel, self._score,
            fields["slot"], fields["symbols"], self._scores, self._context, self._attended, CAPACITY_SYMBOLS, *widths,
            c.location_kernel, max(8, min(64, 8192 // max(widths))), num_warps=8,
        )  # fmt: skip
        return self._context[:count]

    def _run_head(self, count: int, decoded: Tensor, context: Tensor) -> Tensor:
        """See ``TacotronHead``: [B, H]."""
        width, block = self._config.head_width, 32
        kernels.embed_tokens[(count, -(-width // block))](
            self._embedded, self._frames, self._bias_row, self._fields["slot"], self._levels, self._slots.last, width,
            self.max_rows, 1, dmel.CHANNELS, next_power(dmel.CHANNELS), dmel.SYMBOLS, block,
        )  # fmt: skip
        x = self._state(normalise(torch.cat((decoded, context), 1))) + self._embedded[:count]
        return normalise(x + self._down(F.relu(self._up(normalise(x))).square()))


class TacotronCudaModule(TacotronDecodeModule):
    """``TacotronDecodeModule`` on a GPU."""

    max_rows = MAX_ROWS

    def __init__(self, net: Tacotron, slots: TacotronSlots) -> None:
        self.step = TacotronStep(net, slots)
        super().__init__(self.step)

    def capture_steps(self) -> list[Callable[[], None]]:
        """See ``studio.engine.families.base.SupportsCapture``."""
        return [partial(self.step.capture, size) for size in self.step.sizes()]
