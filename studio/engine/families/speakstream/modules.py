"""SpeakStream's modules: prefill (a segment's text and its first frame) and decode (the next frame, or the end)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine import dmel
from studio.engine.families.speakstream.net import SpeakStream
from studio.engine.families.speakstream.row import Drawn, Prefill
from studio.engine.sampling import sample_levels
from studio.engine.slots import KeyValueSlots


class SpeakStreamSlots:
    """The memory of all rows: keys and values, and what each row draws with."""

    def __init__(self, keys_and_values: KeyValueSlots, count: int, device: torch.device) -> None:
        self.memory = keys_and_values
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)  # drawn, not yet fed back
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)
        self.temperature = torch.zeros(count, device=device)
        self.seed = torch.zeros(count, dtype=torch.int64, device=device)
        self.frame = torch.zeros(count, dtype=torch.int64, device=device)  # the next to be drawn

    def reset(self, slot: int) -> None:
        """Give a slot to a new owner; the rest is set by its first prefill."""
        self.memory.reset(slot)

    def place(self, slot: int, given: Prefill) -> None:
        """Take over what a prefill says about its row."""
        self.memory.start[slot], self.memory.length[slot] = given.start, given.at
        self.speaker[slot], self.temperature[slot] = given.speaker, given.temperature
        self.seed[slot], self.frame[slot] = given.seed, given.frame


class PrefillModule:
    """Runs a segment's beginning, row by row: their lengths differ, and padding would change roundings."""

    most_rows = 1

    def __init__(self, net: SpeakStream) -> None:
        self.net = net

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Prefill]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        found: list[Drawn] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.place(slot, given)
            x = self._embedded(given, slots.speaker[slot : slot + 1])
            found += _draw(self.net, slots, [slot], x)
        return found

    def _embedded(self, given: Prefill, speaker: Tensor) -> Tensor:
        """All tokens, [1, T, D]; ``speaker`` int64 [1]."""
        net, device = self.net, speaker.device
        pieces: list[Tensor] = []
        if given.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(net.embed_frames(eos, speaker))
        if given.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*given.symbols]], device=device), speaker)[0])
        pieces.append(net.embed_bos(torch.tensor([given.window], device=device), speaker))
        if len(given.frames):
            frames = torch.from_numpy(given.frames).to(device)
            pieces.append(net.embed_frames(frames, speaker.expand(len(frames))))
        return torch.cat(pieces).unsqueeze(0)


class DecodeModule:
    """Feeds back the frame drawn last and draws the next; the inputs are in the slots already."""

    most_rows = 1

    def __init__(self, net: SpeakStream) -> None:
        self.net = net

    @torch.inference_mode()
    def run(self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        index = torch.tensor(numbers, device=slots.last.device)
        x = self.net.embed_frames(slots.last[index], slots.speaker[index])
        return _draw(self.net, slots, numbers, x.unsqueeze(1))


def _draw(net: SpeakStream, slots: SpeakStreamSlots, numbers: list[int], x: Tensor) -> list[Drawn]:
    """Run tokens [B, T, D] of slots and draw each row's next frame; one copy to the host for all rows."""
    hidden = net.decoder.extend(x, slots.memory, numbers)[:, -1]
    logits, eos = net.heads(hidden)
    index = torch.tensor(numbers, device=x.device)
    levels = sample_levels(logits, slots.temperature[index], slots.seed[index], slots.frame[index])
    slots.last[index] = levels
    slots.frame[index] += 1
    finite = logits.flatten(1).sum(1).isfinite()
    told = torch.cat((eos.sigmoid().unsqueeze(1), finite.unsqueeze(1), levels), dim=1).cpu().numpy()
    return [Drawn(row[2:].astype(np.uint8)[None], float(row[0]), bool(row[1])) for row in told]
