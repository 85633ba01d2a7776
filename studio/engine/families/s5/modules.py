"""S5-TTS's modules: word (encode what is in view, draw the step's first frame) and decode (the next frame)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.drawn import probability
from studio.engine.families.head_on_host import HeadOnHost
from studio.engine.families.s5.net import S5, seen_steps
from studio.engine.families.s5.on_host import DecodeOnHost
from studio.engine.families.s5.rule import LARGEST_LOOK_AHEAD
from studio.engine.families.s5.step import Drawn, WordStep
from studio.engine.nets.cross import LeanCross
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.lean import LeanDecoder
from studio.engine.nets.one_token import TokenStep
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.noise.sampling import FrameNoise, sample_levels

MOST_ROWS = 16


class S5Slots:
    """The memory of all rows.

    Attributes:
        frames: keys and values of the decoder's own tokens.
        text: keys and values of the encoder's steps in view, written anew for every word.
        last: uint8 [slots, 80], the frame drawn last, not yet fed back.
        speaker, k, temperature: [slots].
        noise: which noise comes next.
    """

    def __init__(self, frames: KeyValueSlots, text: KeyValueSlots, count: int, device: torch.device) -> None:
        self.frames, self.text = frames, text
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)
        self.k = torch.zeros(count, dtype=torch.int64, device=device)
        self.temperature = torch.ones(count, device=device)
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new owner; the rest is set by its first word."""
        self.frames.reset(slot)
        self.text.reset(slot)
        self.noise.reset(slot)

    def place(self, slot: int, given: WordStep) -> None:
        """Take over what a step says about its row."""
        self.frames.start[slot], self.frames.length[slot] = given.start, given.at
        self.speaker[slot], self.k[slot], self.temperature[slot] = given.speaker, given.k, given.temperature
        self.noise.place(slot, given.seed, given.frame)


class S5Step:
    """The net made ready to run: tables instead of products where a frame's levels choose, heads in one product.

    Attributes:
        on_host: what decodes on a CPU, in float32; None elsewhere.
    """

    @torch.no_grad()
    def __init__(self, net: S5, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self.decoder = LeanDecoder(net.decoder, number_format)
        self._cross = [LeanCross(i, one, number_format) for i, one in enumerate(net.crossings())]
        self._frames = FrameTable(net.level, net.frame)
        self._bias = net.frame.bias.detach()
        heads = torch.cat((net.levels_out.weight, net.stop_out.weight))
        bias = torch.cat((net.levels_out.bias, net.stop_out.bias))
        self.head = Product(self.decoder.folded(net.decoder, heads), bias, number_format)
        self.on_host = None
        if self.decoder.on_host is not None:
            head = HeadOnHost(self.decoder.head_on_host(net.decoder, heads, bias))
            self.on_host = self._for_host(self.decoder.on_host, head)

    def _for_host(self, tokens: TokenStep, head: HeadOnHost) -> DecodeOnHost:
        speakers, ks = torch.arange(self.net.config.speakers), torch.arange(LARGEST_LOOK_AHEAD + 1)
        pairs = torch.cartesian_prod(speakers, ks)
        rows = (self.net.embed_row(pairs[:, 0], pairs[:, 1]) + self._bias).view(len(speakers), len(ks), -1)
        cross = [one.for_tokens() for one in self._cross]
        return DecodeOnHost(tokens, cross, self._frames.on_host(), rows.numpy(), head)

    def embed_frames(self, levels: Tensor) -> Tensor:
        """Frames uint8 [N, 80] -> [N, D], as ``S5.embed_frames`` within rounding."""
        return self._frames(levels) + self._bias

    def encode(self, given: WordStep, slots: S5Slots, slot: int) -> None:
        """Read the words in view, alone, and put the cross-attention's keys and values into a slot."""
        net, device = self.net, slots.last.device
        symbols, words = (torch.tensor([[*values]], device=device) for values in (given.symbols, given.words))
        seen = seen_steps(words, words, torch.tensor([given.k], device=device))
        if not net.config.encoder_mask:
            seen = torch.ones_like(seen)
        places = given.place + torch.arange(symbols.shape[1], device=device).unsqueeze(0)
        memory = net.encode(net.embed_symbols(symbols), places, seen)
        slots.text.start[slot] = 0
        for layer, cross in enumerate(net.crossings()):
            keys, values = cross.keys_values(memory)
            slots.text.write(layer, slot, 0, keys[0], values[0])
        slots.text.length[slot] = symbols.shape[1]

    def feed(
        self, slots: S5Slots, numbers: list[int], x: Tensor, seen: Tensor | None = None
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Run tokens [B, T, D] of slots: the last one's hidden state [B, D], and each layer's shares of each row.

        ``seen`` bool [T, symbols]: what the tokens of one row may attend to; all that is in view unless given.
        """
        shares: list[list[Tensor]] = []

        def between(layer: int, h: Tensor) -> Tensor:
            h, found = self._cross[layer](h, slots.text, numbers, seen)
            shares.append(found)
            return h

        return self.decoder.extend(x, slots.frames, numbers, between), shares

    def draw(self, slots: S5Slots, numbers: list[int], x: Tensor, seen: Tensor | None = None) -> list[Drawn]:
        """Run tokens as ``feed`` does and draw each row's next frame; one copy to the host for all rows."""
        count, layers = len(numbers), len(self._cross)
        hidden, shares = self.feed(slots, numbers, x, seen)
        out = self.head(hidden)
        logits, stop = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.drawn(numbers)
        attended = [torch.stack(of_row).sum(0) / layers for of_row in zip(*shares, strict=True)]
        told = torch.cat((stop, out.sum(1, keepdim=True), levels), dim=1)
        host = torch.cat((told.flatten(), *attended)).cpu().numpy()
        rows = host[: told.numel()].reshape(count, -1)
        parts = np.split(host[told.numel() :], np.cumsum([len(one) for one in attended])[:-1])
        return [
            Drawn(row[2:].astype(np.uint8)[None], probability(row[0]), part, bool(np.isfinite(row[1])))
            for row, part in zip(rows, parts, strict=True)
        ]


class WordModule:
    """Runs a step's beginning, row by row: their lengths differ, and padding would change roundings."""

    most_rows = 1

    def __init__(self, step: S5Step) -> None:
        self._step = step

    @torch.inference_mode()
    def run(self, slots: S5Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[WordStep]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        found: list[Drawn] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            for one in given.again:
                x, seen = self._begun(slots, slot, one)
                self._step.feed(slots, [slot], x, seen)
            x, seen = self._begun(slots, slot, given)
            found += self._step.draw(slots, [slot], x, seen)
        return found

    def _begun(self, slots: S5Slots, slot: int, given: WordStep) -> tuple[Tensor, Tensor | None]:
        """What a step begins with [1, T, D], and what each token may attend to; its text is in the slot then."""
        slots.place(slot, given)
        self._step.encode(given, slots, slot)
        device = slots.last.device
        x = self._step.embed_frames(torch.from_numpy(given.frames).to(device))
        if given.begins:
            x = torch.cat((self._step.net.bos.unsqueeze(0), x))
        here = slice(slot, slot + 1)
        x = x + self._step.net.embed_row(slots.speaker[here], slots.k[here])
        return x.unsqueeze(0), self._seen(given, device)

    def _seen(self, given: WordStep, device: torch.device) -> Tensor | None:
        """What each token may attend to, where they are of several words: the decoder's mask."""
        if not (self._step.net.config.decoder_mask and given.spoken):
            return None
        asking, words, k = (
            torch.tensor([values], device=device) for values in ([*given.spoken], [*given.words], given.k)
        )
        return seen_steps(asking, words, k)[0]


class DecodeModule:
    """Feeds back the frame drawn last and draws the next; the inputs are in the slots already."""

    most_rows = MOST_ROWS

    def __init__(self, step: S5Step) -> None:
        self._step = step

    @torch.inference_mode()
    def run(self, slots: S5Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        if self._step.on_host is not None:
            return self._step.on_host.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self._step.embed_frames(slots.last[index])
        x = x + self._step.net.embed_row(slots.speaker[index], slots.k[index])
        return self._step.draw(slots, numbers, x.unsqueeze(1))
