"""DSM-TTS on a GPU: the backbone and, where a row has sound, the depth transformer's groups, in one CUDA graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.families.dsm import kernels as dsm_kernels
from studio.engine.families.dsm.depth import GROUP_CHANNELS, GROUPS, DepthTransformer
from studio.engine.families.dsm.kernels import NO_GUIDE, UNGUIDED
from studio.engine.families.dsm.model import Dsm
from studio.engine.families.dsm.policy import MOST_SPEAKERS, DsmInput, DsmOutput
from studio.engine.families.dsm.slots import ACTION_CHANNEL, DsmSlots, SpeakerEmbeddings
from studio.engine.nets.cuda import kernels
from studio.engine.nets.cuda.decoder import CudaDecoder, TokenIndex, next_power
from studio.engine.nets.cuda.frame_step import MAX_TOKENS, NO_ROW, EmbeddingTable, low_half
from studio.engine.nets.cuda.graphs import MAX_ROWS, GraphCache, batch_sizes, host_buffer, padded_rows, settle
from studio.engine.nets.cuda.kernels import NO_FRAME
from studio.engine.nets.cuda.sampling_kernels import sample_frames
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.tokenizers import dmel

# What the host sends for each token. first, others: the slot whose last levels get a sample of the first group and of
# the others, or -1; guide: the token without text and speaker that guides this one; rows of the table.
_ROWS = ("text", "ahead", "bias")
_FIELDS: tuple[str, ...] = (
    "slot", "position", "start", "visible", "source", "first", "others", "low", "high", "frame", "temperature",
    "alpha", "guide", *_ROWS,
)  # fmt: skip
_PADDING = {
    **dict.fromkeys(("first", "others", *_ROWS), NO_ROW),
    "source": NO_FRAME,
    "guide": NO_GUIDE,
}
_ALIGNED = 8  # outputs of a product in bfloat16 are a multiple of this


class _GroupDecoder(CudaDecoder):
    """The layers of a group."""

    def _splits(self, tokens: int) -> int:
        return 1  # a context of at most eight groups


class CudaDepth:
    """The depth transformer: each group is one token of each row, at the group's position.

    Its KV cache lives as long as a step: its slots are the rows of the batch.

    Args:
        backbone: its hidden states are the inputs.
        action: the head of the backbone that is multiplied together with the inputs.
    """

    @torch.no_grad()
    def __init__(self, trained: DepthTransformer, level: nn.Embedding, backbone: CudaDecoder, action: nn.Linear):
        c, own = trained.config, range(len(trained.stacks))
        tokens, device, dtype = len(backbone.x), backbone.device, backbone.dtype
        self._backbone, self._width = backbone, c.width
        self._stacks = [_GroupDecoder(trained.stack(g), tokens, dtype) for g in own]
        self._cache = KVCache(c.layers, tokens, c.heads, GROUPS, c.head_width, device=device, dtype=dtype)
        entries = [trained.entry(g) for g in own]
        unused = torch.zeros(_ALIGNED - 1, action.in_features, device=device)
        self._entry = backbone.head(torch.cat([*(one.weight for one in entries), action.weight, unused]))
        self._action_bias = action.bias.detach().float().contiguous()
        self._biases = [entries[g % len(own)].bias + trained.group[g] for g in range(GROUPS)]
        for g, level_input in enumerate(trained.level_inputs(), 1):
            self._biases[g] = self._biases[g] + level_input.bias
        self._tables = [
            FrameEmbeddingTable(level, level_input).table.to(dtype) for level_input in trained.level_inputs()
        ]
        heads = trained.heads()
        self._heads = [self._stacks[g % len(own)].head(head.weight) for g, head in enumerate(heads)]
        self._head_biases = [head.bias.detach().float().contiguous() for head in heads]

        def buffer(width: int, of: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(tokens, width, dtype=of, device=device)

        self._entered, self._low_entered = (buffer(self._entry.outputs, of) for of in (torch.float32, dtype))
        self._logits, self._low_logits = (buffer(self._heads[0].outputs, of) for of in (torch.float32, dtype))
        zeros = torch.zeros(tokens, dtype=torch.int32, device=device)
        rows = torch.arange(tokens, dtype=torch.int32, device=device)
        self._at = [TokenIndex(rows, torch.full_like(zeros, g), zeros, zeros) for g in range(GROUPS)]

    def enter(self, count: int, fields: Mapping[str, Tensor], ends: Tensor) -> Tensor:
        """Project the backbone's hidden states; sets the action's logit and noise in ``ends`` float32 [N, 3].

        Returns:
            The inputs of all groups, with the action's logit behind them.
        """
        entered = self._backbone.project(self._entry, self._entered, self._low_entered, count)
        of_sampling = [fields[name] for name in ("low", "high", "frame")]
        column = len(self._stacks) * self._width
        dsm_kernels.read_actions[(count,)](
            entered, self._action_bias, *of_sampling, ends, self._entry.outputs, column, ACTION_CHANNEL, num_warps=1
        )
        return entered

    def sample(
        self, count: int, entered: Tensor, fields: Mapping[str, Tensor], last: Tensor, levels: Tensor, ends: Tensor
    ) -> None:
        """Sample ``levels`` uint8 [N, 80] group by group.

        Args:
            last: uint8 [slots, 80], gets those that ``fields`` names a slot for.
            ends: a sum of each token's logits is added to its last column.
        """
        width, block, outputs = self._width, min(128, next_power(self._width)), self._heads[0].outputs
        of_sampling = [fields[name] for name in ("low", "high", "frame", "temperature")]
        for g in range(GROUPS):
            stack, before = self._stacks[g % len(self._stacks)], max(0, g - 1)
            dsm_kernels.enter_group[(count, -(-width // block))](
                entered, self._biases[g], self._tables[before], levels, stack.x, self._entry.outputs,
                g % len(self._stacks) * width, width, before * GROUP_CHANNELS, GROUP_CHANNELS,
                next_power(GROUP_CHANNELS), dmel.SYMBOLS, dmel.CHANNELS, block, g == 0,
            )  # fmt: skip
            stack.run(count, self._at[g], self._cache, mixed=False)
            logits = stack.project(self._heads[g], self._logits, self._low_logits, count)
            dsm_kernels.guide_logits[(count,)](
                logits, fields["guide"], fields["alpha"], ends, outputs, next_power(outputs), num_warps=1
            )
            sample_frames[(count,)](
                logits, self._head_biases[g], *of_sampling, fields["others" if g else "first"], last, levels, ends,
                outputs, 0, g * GROUP_CHANNELS, GROUP_CHANNELS, next_power(GROUP_CHANNELS), dmel.LEVELS, False,
                dmel.CHANNELS,
            )  # fmt: skip


@dataclass(frozen=True)
class DsmSamples:
    """What a step sampled for N tokens.

    Attributes:
        levels: uint8 [N, 80]; anything in a step without depth.
        action, noise: float32 [N], the action's logit and noise.
        check: float32 [N], not finite if a logit of the levels was not.
    """

    levels: np.ndarray
    action: np.ndarray
    noise: np.ndarray
    check: np.ndarray


class DsmStep:
    """Runs batches of at most ``max_tokens`` tokens, one for each slot.

    Attributes:
        text, ahead, bias: first rows of the table.
    """

    @torch.no_grad()
    def __init__(self, net: Dsm, slots: DsmSlots, graphs: GraphCache | None = None) -> None:
        self._slots, device = slots, slots.last.device
        self._spare = slots.steps.slots - 1
        self.max_tokens = tokens = min(MAX_TOKENS, padded_rows(self._spare))
        self.graphs = graphs or GraphCache(device)
        self._backbone = CudaDecoder(net.decoder, tokens, slots.steps.keys[0].dtype, net.crossings())
        table = EmbeddingTable(net.level, net.frame)
        self.bias, self.text, self.ahead = table.bias, table.add(net.text.weight), table.add(net.ahead.weight)
        self._table = table.joined().to(self._backbone.dtype).contiguous()
        self._depth = CudaDepth(net.depth, net.level, self._backbone, net.action_out)
        self._host = host_buffer(len(_FIELDS), tokens, dtype=torch.int32, device=device)
        self._numbers = dict(zip(_FIELDS, self._host.numpy(), strict=True))
        self._ints = torch.zeros(len(_FIELDS), tokens, dtype=torch.int32, device=device)
        self._fields = dict(zip(_FIELDS, self._ints, strict=True))
        for name in ("temperature", "alpha"):
            self._fields[name] = self._fields[name].view(torch.float32)
        self._index = TokenIndex(*(self._fields[name] for name in ("slot", "position", "start", "visible")))
        self._levels = torch.zeros(tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._ends = torch.zeros(tokens, 3, device=device)
        self._host_levels = host_buffer(tokens, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self._host_ends = host_buffer(tokens, 3, dtype=torch.float32, device=device)

    def sizes(self) -> list[int]:
        """Padded numbers of tokens."""
        return [*batch_sizes(min(self.max_tokens, self._spare))]

    @torch.inference_mode()
    def capture(self, size: int, *, has_depth: bool) -> None:
        """Capture a step ahead of its first use, on tokens of the spare slot."""
        self._send({}, 0, size)
        self.graphs.capture((size, has_depth), partial(self._launch, size, has_depth=has_depth))
        settle(self.graphs.device)  # the host's buffer is written again

    def run(self, fields: Mapping[str, np.ndarray | int], count: int, *, has_depth: bool) -> DsmSamples:
        """One step of ``count`` tokens; ``fields`` has numbers [N] for each of ``_FIELDS``."""
        size = padded_rows(count)
        key = size, has_depth
        if self.graphs.needs(key):  # a capture runs the step: not on the rows' slots
            self.capture(size, has_depth=has_depth)
        self._send(fields, count, size)
        self.graphs.launch(key, partial(self._launch, size, has_depth=has_depth))
        self._host_levels[:count].copy_(self._levels[:count], non_blocking=True)
        self._host_ends[:count].copy_(self._ends[:count], non_blocking=True)
        settle(self.graphs.device)
        return DsmSamples(self._host_levels[:count].numpy().copy(), *self._host_ends[:count].numpy().T.copy())

    def _send(self, fields: Mapping[str, np.ndarray | int], count: int, size: int) -> None:
        """Copy the numbers of ``count`` tokens and of padding to the device."""
        padding = {"slot": self._spare, **_PADDING}
        for name, numbers in self._numbers.items():
            numbers[count:size] = padding.get(name, 0)
            if fields:
                numbers[:count] = fields[name]
        self._ints.copy_(self._host, non_blocking=True)

    def _launch(self, count: int, *, has_depth: bool) -> None:
        decoder, slots, fields = self._backbone, self._slots, self._fields
        width, block = decoder.config.width, 32
        kernels.embed_tokens[(count, -(-width // block))](
            decoder.x, self._table, self._ints[-len(_ROWS) :], fields["source"], self._levels, slots.last, width,
            self.max_tokens, len(_ROWS), dmel.CHANNELS, next_power(dmel.CHANNELS), dmel.SYMBOLS, block,
        )  # fmt: skip
        decoder.run(count, self._index, slots.steps, mixed=False, encoded=slots.speakers)
        entered = self._depth.enter(count, fields, self._ends)
        if has_depth:
            self._depth.sample(count, entered, fields, slots.last, self._levels, self._ends)


class DsmCudaModule:
    """Both modules: rows without sound yet join those with sound; see ``studio.engine.families.base.Module``.

    A guided row has two tokens: the second, in its second slot, has neither text nor speaker, and gets the same levels.
    """

    max_rows = MAX_ROWS

    def __init__(self, net: Dsm, slots: DsmSlots) -> None:
        self._step, self._speakers = DsmStep(net, slots), SpeakerEmbeddings(net)
        self._nothing = net.config.symbols.nothing

    def capture_steps(self) -> list[Callable[[], None]]:
        """See ``studio.engine.families.base.SupportsCapture``."""
        step = self._step
        return [partial(step.capture, size, has_depth=depth) for depth, size in product((False, True), step.sizes())]

    @torch.inference_mode()
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """One step of several rows. Raises ContextFull."""
        for step_input in inputs:
            slots.steps.check_room(step_input.start, step_input.at + 1)
        for row, step_input in zip(rows, inputs, strict=True):
            slots.update(row, step_input, self._speakers)
        fields = self._fields(rows, inputs)
        has_depth = any(one.groups != "none" for one in inputs)
        samples = self._step.run(fields, len(fields["slot"]), has_depth=has_depth)
        slots.steps.bounds_arrays[1][fields["slot"]] += 1
        return [_output(samples, b, step_input) for b, step_input in enumerate(inputs)]

    def _fields(self, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> dict[str, np.ndarray]:
        """The numbers of all tokens: one for each row, then one more for each guided row."""
        step, count = self._step, len(rows)
        guided = [b for b, one in enumerate(inputs) if one.guidance != 1.0]
        source = np.array([row[0] for row in rows])
        groups = np.array([one.groups for one in inputs])
        guide = np.full(count, UNGUIDED)
        guide[guided] = count + np.arange(len(guided))
        seeds = np.array([one.seed for one in inputs], np.int64)
        ones = {name: np.array([getattr(one, name) for one in inputs]) for name in ("at", "start", "text", "ahead")}
        floats = {
            name: np.array([getattr(one, name) for one in inputs], np.float32).view(np.int32)
            for name in ("temperature", "guidance")
        }
        fields = {
            "slot": source, "position": ones["at"], "start": ones["start"], "visible": np.full(count, MOST_SPEAKERS),
            "source": source, "first": np.where(groups == "none", NO_ROW, source),
            "others": np.where(groups == "all", source, NO_ROW), "low": low_half(seeds), "high": low_half(seeds >> 32),
            "frame": ones["at"], "temperature": floats["temperature"], "alpha": floats["guidance"], "guide": guide,
            "text": step.text + ones["text"], "ahead": step.ahead + ones["ahead"], "bias": np.full(count, step.bias),
        }  # fmt: skip
        if not guided:
            return fields
        changes = {
            "slot": [rows[b][1] for b in guided],
            **dict.fromkeys(("first", "others"), NO_ROW),
            "guide": NO_GUIDE,
            "text": step.text + self._nothing,
            "ahead": step.ahead + self._nothing,
        }
        more = {name: np.broadcast_to(changes.get(name, one[guided]), len(guided)) for name, one in fields.items()}
        return {name: np.concatenate((one, more[name])) for name, one in fields.items()}


def _output(samples: DsmSamples, b: int, step_input: DsmInput) -> DsmOutput:
    """A row's part of a step; groups that were not asked for are padding."""
    levels = samples.levels[b].copy()
    levels[{"none": 0, "first": GROUP_CHANNELS, "all": dmel.CHANNELS}[step_input.groups] :] = dmel.PAD
    check = np.float32(0.0) if step_input.groups == "none" else samples.check[b]
    return DsmOutput.of(levels, samples.action[b], float(samples.noise[b]), check, step_input.temperature)
