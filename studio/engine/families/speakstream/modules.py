"""SpeakStream's modules: prefill (a segment's text and its first frame), decode (the next frame, or the end).

Where it changes no sample, text of the first segment is read before the segment can begin.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.head_on_host import HeadOnHost
from studio.engine.families.speakstream.fed import Ahead, Prefill, Stretch
from studio.engine.families.speakstream.net import SpeakStream
from studio.engine.families.speakstream.on_device import DecodeOnDevice
from studio.engine.families.speakstream.on_host import DecodeOnHost
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.frame_decoder import FrameDecoder
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.lean import LeanDecoder
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.recorded import MOST_ROWS_ON_DEVICE, Recorded
from studio.engine.nets.stretches import StretchStep
from studio.engine.noise.sampling import sample_levels

MOST_ROWS = 16


class SpeakStreamStep:
    """The net made ready to run: tables instead of products where a frame's levels choose, heads in one product.

    Attributes:
        on_host: what decodes on a CPU, in float32; None elsewhere.
        on_device: what decodes on a GPU; None elsewhere.
    """

    @torch.no_grad()
    def __init__(self, net: FrameDecoder, number_format: NumberFormat = "float32") -> None:
        self.decoder = LeanDecoder(net.decoder, number_format)
        self._frames = FrameTable(net.level, net.frame)
        self._speakers = net.speaker.weight + net.frame.bias
        heads = torch.cat((net.levels_out.weight, net.eos_out.weight))
        bias = torch.cat((net.levels_out.bias, net.eos_out.bias))
        self.head = Product(self.decoder.folded(net.decoder, heads), bias, number_format)
        device = heads.device
        self.on_device = None if device.type == "cpu" else self.for_device(Recorded(device))
        self.on_host: DecodeOnHost | None = None
        if self.decoder.on_host is not None:
            head = HeadOnHost(self.decoder.head_on_host(net.decoder, heads, bias))
            self.on_host = DecodeOnHost(self.decoder.on_host, self._frames.on_host(), self._speakers.numpy(), head)

    def for_device(self, recorded: Recorded) -> DecodeOnDevice:
        """What decodes all rows in one step."""
        return DecodeOnDevice(self.decoder.batched, self.embed_frames, self.head, recorded)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames uint8 [N, 80] of speakers [N] -> [N, D], as ``SpeakStream.embed_frames`` within rounding."""
        return self._frames(levels) + self._speakers[speaker]

    def draw(self, slots: SpeakStreamSlots, numbers: list[int], x: Tensor) -> list[Drawn]:
        """Run tokens [B, T, D] of slots and draw each row's next frame; one copy to the host for all rows."""
        count = len(numbers)
        hidden = self.decoder.extend(x, slots.memory, numbers)
        if self.on_host is not None:
            return self.on_host.draw(slots, numbers, hidden.numpy())
        out = self.head(hidden)
        logits, eos = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.drawn(numbers)
        told = torch.cat((eos, out.sum(1, keepdim=True), levels), dim=1).cpu().numpy()
        return [Drawn(row[2:].astype(np.uint8)[None], probability(row[0]), bool(np.isfinite(row[1]))) for row in told]


class PrefillModule:
    """Runs a segment's beginning, row by row: their lengths differ, and padding would change roundings."""

    most_rows = 1

    def __init__(self, net: SpeakStream, step: SpeakStreamStep) -> None:
        self._net, self._step = net, step

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Prefill]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        found: list[Drawn] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.place(slot, given)
            slots.memory.length[slot] += given.known
            found += self._step.draw(slots, [slot], self._embedded(given, slots.speaker[slot : slot + 1]))
        return found

    def _embedded(self, given: Prefill, speaker: Tensor) -> Tensor:
        """All tokens, [1, T, D]; ``speaker`` int64 [1]."""
        pieces = [piece for stretch in given.stretches for piece in self._pieces(stretch, speaker)]
        return torch.cat(pieces)[given.known :].unsqueeze(0)

    def _pieces(self, given: Stretch, speaker: Tensor) -> list[Tensor]:
        net, device = self._net, speaker.device
        pieces: list[Tensor] = []
        if given.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(self._step.embed_frames(eos, speaker))
        if given.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*given.symbols]], device=device), speaker)[0])
        pieces.append(net.embed_bos(torch.tensor([given.window], device=device), speaker))
        if len(given.frames):
            frames = torch.from_numpy(given.frames).to(device)
            pieces.append(self._step.embed_frames(frames, speaker.expand(len(frames))))
        return pieces


class ReadModule:
    """Feeds text of the first segment while its other words are awaited, on a CPU; nothing is drawn."""

    most_rows = 1

    def __init__(self, net: SpeakStream, stretches: StretchStep) -> None:
        self._net, self._stretches = net, stretches

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Ahead]) -> list[None]:
        """See ``studio.engine.families.base.Module``."""
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.memory.start[slot], slots.memory.length[slot] = 0, given.at
            embedded = self._net.embed_symbols(torch.tensor([[*given.symbols]]), torch.tensor([given.speaker]))
            self._stretches.read(embedded[0].numpy(), slots.memory, slot)
        return [None] * len(rows)


class DecodeModule:
    """Feeds back the frame drawn last and draws the next; the inputs are in the slots already."""

    def __init__(self, step: SpeakStreamStep) -> None:
        self._step = step
        self.most_rows = MOST_ROWS if step.on_device is None else MOST_ROWS_ON_DEVICE

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        if self._step.on_host is not None:
            return self._step.on_host.decode(slots, numbers)
        if self._step.on_device is not None:
            return self._step.on_device.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self._step.embed_frames(slots.last[index], slots.speaker[index])
        return self._step.draw(slots, numbers, x.unsqueeze(1))
