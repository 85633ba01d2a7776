"""IST-LM's modules: prefill (a chunk of text, then a frame) and decode (the next frame, or the end)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.rows import FrameOutput, sigmoid
from studio.engine.families.ist.model import Ist, sinusoids
from studio.engine.families.ist.policy import FRAME
from studio.engine.families.ist.row import IstPrefill
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.sampling import FrameNoise, sample_levels
from studio.engine.tokenizers import dmel

MOST_ROWS = 16


class IstSlots:
    """State of all rows: KV cache and sampling.

    Attributes:
        last: uint8 [slots, 80], the last frame, not yet fed back.
        temperature: [slots].
        place: index of ``last`` in its passage, for each slot (a Python list).
        noise: position in the noise stream.
    """

    def __init__(self, cache: KVCache, count: int, device: torch.device) -> None:
        self.cache = cache
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.temperature = torch.ones(count, device=device)
        self.place = [0] * count
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first prefill sets the rest."""
        self.cache.reset(slot)
        self.noise.reset(slot)

    def update(self, slot: int, given: IstPrefill) -> None:
        """Apply a prefill's inputs to its row's slot."""
        self.cache.start[slot], self.cache.length[slot] = given.start, given.at
        self.temperature[slot] = given.temperature
        self.place[slot] = given.place - 1
        self.noise.seek(slot, given.seed, given.frame)


class IstRunner:
    """Runs a trained net; frame embeddings come from a table, and both heads are one matrix product."""

    @torch.no_grad()
    def __init__(self, net: Ist, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        heads = torch.cat((net.levels_out.weight, net.eos_out.weight))
        bias = torch.cat((net.levels_out.bias, net.eos_out.bias))
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)

    def embed_frames(self, levels: Tensor, places: Tensor) -> Tensor:
        """``Ist.embed_frames`` up to rounding."""
        return (
            self._frames(levels)
            + self.net.frame.bias
            + self.net.speech_place * sinusoids(places, self.net.config.width)
        )

    def embed(self, given: IstPrefill) -> Tensor:
        """All tokens of a prefill, [1, T, D]."""
        net, device, layout = self.net, self.net.ratio.weight.device, given.layout
        symbols = torch.tensor(layout.symbols, device=device)
        places = torch.tensor(layout.places, device=device)
        is_frame = symbols == FRAME
        x = torch.zeros(len(layout), net.config.width, device=device)
        x[~is_frame] = net.embed_symbols(symbols[~is_frame], places[~is_frame])
        x[symbols == net.config.symbols.start] += net.ratio.weight[given.ratio]
        if layout.frames:
            levels = torch.from_numpy(layout.stacked()).to(device)
            x[is_frame] = self.embed_frames(levels, places[is_frame])
        return x.unsqueeze(0)

    def sample(self, slots: IstSlots, numbers: list[int], x: Tensor) -> list[FrameOutput]:
        """Run tokens [B, T, D] and sample each row's next frame, with one copy to the CPU for all rows."""
        count = len(numbers)
        out = self.head(self.decoder.extend(x, slots.cache, numbers))
        logits, eos = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.advance(numbers)
        for slot in numbers:
            slots.place[slot] += 1
        results = torch.cat((eos, out.sum(1, keepdim=True), levels), dim=1).cpu().numpy()
        return [
            FrameOutput(row[2:].astype(np.uint8)[None], sigmoid(row[0]), bool(np.isfinite(row[1]))) for row in results
        ]


class IstPrefillModule:
    """Feeds a chunk, row by row: lengths differ, and padding would change rounding."""

    max_rows = 1

    def __init__(self, runner: IstRunner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(self, slots: IstSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[IstPrefill]) -> list[FrameOutput]:
        """See ``studio.engine.families.base.Module``."""
        outputs: list[FrameOutput] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.update(slot, given)
            outputs += self._runner.sample(slots, [slot], self._runner.embed(given))
        return outputs


class IstDecodeModule:
    """Feeds back the last frame and samples the next; the inputs are in the slots."""

    max_rows = MOST_ROWS

    def __init__(self, runner: IstRunner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(self, slots: IstSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[FrameOutput]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        index = torch.tensor(numbers, device=slots.last.device)
        places = torch.tensor([slots.place[slot] for slot in numbers], device=slots.last.device)
        x = self._runner.embed_frames(slots.last[index], places)
        return self._runner.sample(slots, numbers, x.unsqueeze(1))
