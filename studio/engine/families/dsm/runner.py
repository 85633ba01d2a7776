"""DSM-TTS's modules: warm (only the backbone, during the delay) and decode (also the depth transformer).

Rows of one module run together; rows without sound yet take the cheaper steps (appendix I of the paper). A guided row
runs its second slot beside the first, with the same sound but no text and no speaker.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.dsm.depth import GROUP_CHANNELS, DepthCpuRunner, DepthRunner
from studio.engine.families.dsm.inputs import DsmInput, DsmOutput
from studio.engine.families.dsm.model import Dsm
from studio.engine.families.dsm.policy import MOST_SPEAKERS
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu.decode import CpuCrossAttention, CpuDecodeStep
from studio.engine.nets.cpu.linear import PanelLinear
from studio.engine.nets.cross_attention import CachedCrossAttention
from studio.engine.nets.frame_decoder import CpuFrameEmbeddingTable, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.sampling import FrameNoise, sample_levels, sample_levels_numpy
from studio.engine.tokenizers import dmel

MOST_ROWS = 16
_NOISE = dmel.CHANNELS + 1  # the last one is for the action


class DsmSlots:
    """State of all rows, two slots each.

    Attributes:
        steps: KV cache of the backbone.
        speakers: KV cache of the cross-attention.
        last: uint8 [slots, 80], levels of the step before, in a row's first slot.
        noise: position in the noise stream.
    """

    def __init__(self, steps: KVCache, speakers: KVCache, count: int, device: torch.device) -> None:
        self.steps, self.speakers = steps, speakers
        self.last = torch.full((count, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8, device=device)
        self.noise = FrameNoise(count, _NOISE, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first step sets the rest."""
        for memory in (self.steps, self.speakers):
            memory.reset(slot)
        self.noise.reset(slot)


class DsmCpuRunner:
    """A step of ``DsmRunner`` in numpy, over the same slots; rows are independent (law 3).

    Args:
        text, ahead: embeddings of symbols, [symbols, D].
        frames: table of frame embeddings; ``bias`` [D] is added.
        action: [D] -> [1].
        nothing: text symbol of a guided row's second slot.
    """

    def __init__(
        self,
        tokens: CpuDecodeStep,
        cross: Sequence[CpuCrossAttention],
        depth: DepthCpuRunner,
        text: np.ndarray,
        ahead: np.ndarray,
        frames: CpuFrameEmbeddingTable,
        bias: np.ndarray,
        action: PanelLinear,
        nothing: int,
    ) -> None:
        self._tokens, self._cross, self._depth, self._nothing = tokens, cross, depth, nothing
        self._text, self._ahead, self._frames, self._bias, self._action = text, ahead, frames, bias, action

    @np.errstate(all="ignore")  # NotFinite is raised by the row
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """One step of rows whose slots are up to date."""
        count, firsts = len(inputs), [slot for slot, *_ in rows]
        guided = np.array([b for b, given in enumerate(inputs) if given.guidance != 1.0], dtype=np.int64)
        hidden = self._hidden(slots, rows, inputs, guided)
        noise = slots.noise.next_array(firsts)
        action = self._action(hidden[:count])[:, 0]
        levels, check = np.full((count, dmel.CHANNELS), dmel.PAD, np.uint8), hidden[:count].sum(1)
        if inputs[0].groups != "none":
            levels, check = self._levels(inputs, hidden, guided, noise)
            slots.last.numpy()[firsts] = levels
        return [
            DsmOutput.of(levels[b], action[b], float(noise[b, -1]), check[b], given.temperature)
            for b, given in enumerate(inputs)
        ]

    def _hidden(
        self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput], guided: np.ndarray
    ) -> np.ndarray:
        """See ``DsmRunner.backbone``."""
        nothing = [self._nothing] * len(guided)
        past = slots.last.numpy()[[rows[b][0] for b in (*range(len(rows)), *guided)]]
        x = self._text[[given.text for given in inputs] + nothing]
        x = x + self._ahead[[given.ahead for given in inputs] + nothing]
        x += self._frames(past)
        x += self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self._tokens.extend(x, slots.steps, numbers, between)

    def _levels(
        self, inputs: Sequence[DsmInput], hidden: np.ndarray, guided: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``DsmRunner._sample_levels``."""
        count = len(inputs)
        alpha = np.array([inputs[b].guidance for b in guided], np.float32)[:, None, None]
        temperature = np.array([given.temperature for given in inputs], np.float32)
        check = np.zeros(count, np.float32)

        def draw(group: int, all_logits: np.ndarray) -> np.ndarray:
            logits = all_logits[:count]
            if len(guided):
                without = all_logits[count:]
                logits[guided] = without + alpha * (logits[guided] - without)
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_levels_numpy(logits, temperature, noise[:, here])
            np.add(check, logits.sum((1, 2)), out=check)
            return np.concatenate((levels, levels[guided])) if len(guided) else levels

        levels = self._depth.frame(hidden, draw)[:count]
        levels[[given.groups == "first" for given in inputs], GROUP_CHANNELS:] = dmel.PAD
        return levels, check


class DsmRunner:
    """The net levels ready to run: a table instead of a product where a frame's levels choose.

    Attributes:
        cpu: what takes steps on a CPU, in float32; None elsewhere.
    """

    @torch.no_grad()
    def __init__(self, net: Dsm, number_format: NumberFormat = "float32") -> None:
        self.net, self._nothing = net, net.config.symbols.nothing
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._cross = [CachedCrossAttention(i, one, number_format) for i, one in enumerate(net.crossings())]
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._bias = net.frame.bias.detach()
        self._action = RowwiseLinear(
            self.decoder.folded_head(net.decoder, net.action_out.weight), net.action_out.bias, number_format
        )
        self._depth = DepthRunner(net.depth, net.level, net.decoder, number_format)
        self._embedded = net.encoder(net.extract)
        self.cpu = None if self.decoder.cpu_decode is None else self._for_cpu(self.decoder.cpu_decode)

    def _for_cpu(self, tokens: CpuDecodeStep) -> DsmCpuRunner:
        net = self.net
        return DsmCpuRunner(
            tokens,
            [cross.for_decode() for cross in self._cross],
            DepthCpuRunner(self._depth),
            net.text.weight.detach().numpy(),
            net.ahead.weight.detach().numpy(),
            self._frames.for_cpu(),
            self._bias.numpy(),
            self.decoder.cpu_head(net.decoder, net.action_out.weight, net.action_out.bias),
            self._nothing,
        )

    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """One step of several rows: all of them warm, or none."""
        for row, given in zip(rows, inputs, strict=True):
            self._update_slots(slots, row, given)
        if self.cpu is not None:
            return self.cpu.run(slots, rows, inputs)
        return self._sample(slots, rows, inputs, self.backbone(slots, rows, inputs))

    def backbone(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> Tensor:
        """Hidden states of the first slots, then of the second slots of guided rows.

        Returns:
            [N, D], each divided by its length.
        """
        guided = [b for b, given in enumerate(inputs) if given.guidance != 1.0]
        device = slots.last.device
        text = [given.text for given in inputs] + [self._nothing] * len(guided)
        ahead = [given.ahead for given in inputs] + [self._nothing] * len(guided)
        source = torch.tensor([slot for slot, *_ in rows] + [rows[b][0] for b in guided], device=device)
        x = self.net.text.weight[torch.tensor(text, device=device)]
        x = x + self.net.ahead.weight[torch.tensor(ahead, device=device)]
        x = x + self._frames(slots.last[source]) + self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: Tensor) -> Tensor:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self.decoder.extend(x.unsqueeze(1), slots.steps, numbers, between)

    def _sample_levels(self, inputs: Sequence[DsmInput], hidden: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Levels of each row, uint8 [B, 80]; and a sum [B] that is finite if all logits were.

        A guided row's logits are l0 + alpha (lc - l0), where l0 is its second slot's (equation 8).
        """
        count, device = len(inputs), hidden.device
        guided = torch.tensor([b for b, given in enumerate(inputs) if given.guidance != 1.0], device=device).long()
        alpha = torch.tensor([given.guidance for given in inputs], device=device)[guided, None, None]
        temperature = torch.tensor([given.temperature for given in inputs], device=device)
        check = torch.zeros(count, device=device)

        def draw(group: int, all_logits: Tensor) -> Tensor:
            logits = all_logits[:count]
            if len(guided):
                without = all_logits[count:]
                logits = logits.index_copy(0, guided, without + alpha * (logits[guided] - without))
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_levels(logits, temperature, noise[:, here])
            check.add_(logits.sum((1, 2)))
            return torch.cat((levels, levels[guided])) if len(guided) else levels

        levels = self._depth.frame(hidden, draw)[:count]
        alone = torch.tensor([given.groups == "first" for given in inputs], device=device)
        levels[:, GROUP_CHANNELS:].masked_fill_(alone[:, None], dmel.PAD)
        return levels, check

    def _sample(
        self,
        slots: DsmSlots,
        rows: Sequence[tuple[int, ...]],
        inputs: Sequence[DsmInput],
        hidden: Tensor,
    ) -> list[DsmOutput]:
        """Sample the step's outputs, with one copy to the CPU for all rows; warm rows have only the action."""
        count = len(inputs)
        noise = slots.noise.next([slot for slot, *_ in rows])
        action = self._action(hidden[:count])
        if inputs[0].groups == "none":
            levels = torch.full((count, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8, device=hidden.device)
            check = hidden[:count].sum(1)
        else:
            levels, check = self._sample_levels(inputs, hidden, noise)
            slots.last[torch.tensor([slot for slot, *_ in rows], device=hidden.device)] = levels
        host = torch.cat((action, check[:, None], noise[:, -1:], levels), 1).cpu().numpy()
        return [
            DsmOutput.of(row[3:].astype("uint8"), row[0], float(row[2]), row[1], given.temperature)
            for row, given in zip(host, inputs, strict=True)
        ]

    def _update_slots(self, slots: DsmSlots, row: tuple[int, ...], given: DsmInput) -> None:
        """Apply a step's inputs to its row's slots."""
        pair = row if given.guidance != 1.0 else row[:1]
        for slot in pair:
            slots.steps.start[slot], slots.steps.length[slot] = given.start, given.at
        slots.noise.seek(row[0], given.seed, given.at)
        if given.last is not None:
            slots.last[row[0]] = torch.from_numpy(given.last).to(slots.last.device)
        elif given.begins:
            slots.last[row[0]] = dmel.PAD
        if given.begins:
            for slot, who in zip(pair, (given.speakers, ()), strict=False):
                self._attend_to(slots.speakers, slot, who)

    def _attend_to(self, slots: KVCache, slot: int, who: Sequence[int]) -> None:
        device = self._embedded.device
        which = torch.tensor([[*who, *[-1] * (MOST_SPEAKERS - len(who))]], device=device)
        memory = self.net.speakers(self._embedded, which)
        for layer, cross in enumerate(self.net.crossings()):
            keys, values = cross.keys_values(memory)
            slots.write(layer, slot, 0, keys[0], values[0])
        slots.length[slot] = MOST_SPEAKERS


class DsmStepModule:
    """Module for one step of several rows, warm or not."""

    max_rows = MOST_ROWS

    def __init__(self, runner: DsmRunner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[DsmInput]) -> list[DsmOutput]:
        """See ``studio.engine.families.base.Module``."""
        return self._runner.run(slots, rows, inputs)
