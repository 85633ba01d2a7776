"""IST-LM's modules: prefill (a chunk of text and the frame after it) and decode (the next frame, or the end)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.ist.layout import FRAME
from studio.engine.families.ist.net import Ist, sinusoids
from studio.engine.families.ist.row import Prefill
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.lean import LeanDecoder
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.noise.sampling import FrameNoise, sample_levels

MOST_ROWS = 16


class IstSlots:
    """The memory of all rows: keys and values, and what each row draws with.

    Attributes:
        last: uint8 [slots, 80], the frame drawn last, not yet fed back.
        temperature: [slots].
        place: of each slot, on the host: the place of ``last`` in its stretch.
        noise: which noise comes next.
    """

    def __init__(self, keys_and_values: KeyValueSlots, count: int, device: torch.device) -> None:
        self.memory = keys_and_values
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.temperature = torch.ones(count, device=device)
        self.place = [0] * count
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new owner; the rest is set by its first prefill."""
        self.memory.reset(slot)
        self.noise.reset(slot)

    def take_over(self, slot: int, given: Prefill) -> None:
        """What a prefill says about its row."""
        self.memory.start[slot], self.memory.length[slot] = given.start, given.at
        self.temperature[slot] = given.temperature
        self.place[slot] = given.place - 1
        self.noise.place(slot, given.seed, given.frame)


class IstStep:
    """The net made ready to run: tables instead of products where a frame's levels choose, heads in one product."""

    @torch.no_grad()
    def __init__(self, net: Ist, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self.decoder = LeanDecoder(net.decoder, number_format)
        self._frames = FrameTable(net.level, net.frame)
        heads = torch.cat((net.levels_out.weight, net.eos_out.weight))
        bias = torch.cat((net.levels_out.bias, net.eos_out.bias))
        self.head = Product(self.decoder.folded(net.decoder, heads), bias, number_format)

    def embed_frames(self, levels: Tensor, places: Tensor) -> Tensor:
        """As ``Ist.embed_frames`` within rounding."""
        return (
            self._frames(levels)
            + self.net.frame.bias
            + self.net.speech_place * sinusoids(places, self.net.config.width)
        )

    def embed(self, given: Prefill) -> Tensor:
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

    def draw(self, slots: IstSlots, numbers: list[int], x: Tensor) -> list[Drawn]:
        """Run tokens [B, T, D] of slots and draw each row's next frame; one copy to the host for all rows."""
        count = len(numbers)
        out = self.head(self.decoder.extend(x, slots.memory, numbers))
        logits, eos = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.drawn(numbers)
        for slot in numbers:
            slots.place[slot] += 1
        told = torch.cat((eos, out.sum(1, keepdim=True), levels), dim=1).cpu().numpy()
        return [Drawn(row[2:].astype(np.uint8)[None], probability(row[0]), bool(np.isfinite(row[1]))) for row in told]


class PrefillModule:
    """Runs a chunk, row by row: their lengths differ, and padding would change roundings."""

    most_rows = 1

    def __init__(self, step: IstStep) -> None:
        self._step = step

    @torch.inference_mode()
    def run(self, slots: IstSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Prefill]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        found: list[Drawn] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.take_over(slot, given)
            found += self._step.draw(slots, [slot], self._step.embed(given))
        return found


class DecodeModule:
    """Feeds back the frame drawn last and draws the next; the inputs are in the slots already."""

    most_rows = MOST_ROWS

    def __init__(self, step: IstStep) -> None:
        self._step = step

    @torch.inference_mode()
    def run(self, slots: IstSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        index = torch.tensor(numbers, device=slots.last.device)
        places = torch.tensor([slots.place[slot] for slot in numbers], device=slots.last.device)
        x = self._step.embed_frames(slots.last[index], places)
        return self._step.draw(slots, numbers, x.unsqueeze(1))
