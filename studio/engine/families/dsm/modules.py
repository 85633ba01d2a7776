"""DSM-TTS's modules: warm (the backbone alone, while no sound is due) and decode (the depth transformer too).

Rows of different phases meet in a batch: those of one module run together, and the pool gives who has no sound yet
the shorter turns (appendix I of the paper). A guided row runs its second slot beside the first: the same sound,
no text, no speaker.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.dsm.depth import GROUP_CHANNELS, LeanDepth
from studio.engine.families.dsm.net import Dsm
from studio.engine.families.dsm.on_host import DepthOnHost, DsmOnHost
from studio.engine.families.dsm.rule import MOST_SPEAKERS
from studio.engine.families.dsm.step import Drawn, Step
from studio.engine.nets.cross import LeanCross
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.lean import LeanDecoder
from studio.engine.nets.one_token import TokenStep
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.noise.sampling import FrameNoise, sample_levels

MOST_ROWS = 16
_NOISE = dmel.CHANNELS + 1  # the last one is the action's


class DsmSlots:
    """The memory of all rows, two slots each.

    Attributes:
        steps: keys and values of the backbone.
        speakers: keys and values of those whom it attends to.
        last: uint8 [slots, 80], what the step before drew, in a row's first slot.
        noise: which noise comes next.
    """

    def __init__(self, steps: KeyValueSlots, speakers: KeyValueSlots, count: int, device: torch.device) -> None:
        self.steps, self.speakers = steps, speakers
        self.last = torch.full((count, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8, device=device)
        self.noise = FrameNoise(count, _NOISE, device)

    def reset(self, slot: int) -> None:
        """Give a slot to a new owner; the rest is set by its first step."""
        for memory in (self.steps, self.speakers):
            memory.reset(slot)
        self.noise.reset(slot)


class DsmStep:
    """The net made ready to run: a table instead of a product where a frame's levels choose.

    Attributes:
        on_host: what takes steps on a CPU, in float32; None elsewhere.
    """

    @torch.no_grad()
    def __init__(self, net: Dsm, number_format: NumberFormat = "float32") -> None:
        self.net, self._nothing = net, net.config.symbols.nothing
        self.decoder = LeanDecoder(net.decoder, number_format)
        self._cross = [LeanCross(i, one, number_format) for i, one in enumerate(net.crossings())]
        self._frames = FrameTable(net.level, net.frame)
        self._bias = net.frame.bias.detach()
        self._action = Product(
            self.decoder.folded(net.decoder, net.action_out.weight), net.action_out.bias, number_format
        )
        self._depth = LeanDepth(net.depth, net.level, net.decoder, number_format)
        self._embedded = net.encoder(net.extract)
        self.on_host = None if self.decoder.on_host is None else self._for_host(self.decoder.on_host)

    def _for_host(self, tokens: TokenStep) -> DsmOnHost:
        net = self.net
        return DsmOnHost(
            tokens,
            [cross.for_tokens() for cross in self._cross],
            DepthOnHost(self._depth),
            net.text.weight.detach().numpy(),
            net.ahead.weight.detach().numpy(),
            self._frames.on_host(),
            self._bias.numpy(),
            self.decoder.head_on_host(net.decoder, net.action_out.weight, net.action_out.bias),
            self._nothing,
        )

    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> list[Drawn]:
        """A step of several rows, all of them warm or none."""
        for row, given in zip(rows, inputs, strict=True):
            self._take_over(slots, row, given)
        if self.on_host is not None:
            return self.on_host.run(slots, rows, inputs)
        return self.told(slots, rows, inputs, self.backbone(slots, rows, inputs))

    def backbone(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> Tensor:
        """A step of each row: hidden states of first slots, then of the second slots of those that are guided.

        Returns:
            [N, D], each divided by its length.
        """
        guided = [b for b, given in enumerate(inputs) if given.guidance != 1.0]
        device = slots.last.device
        text = [given.text for given in inputs] + [self._nothing] * len(guided)
        ahead = [given.ahead for given in inputs] + [self._nothing] * len(guided)
        heard = torch.tensor([slot for slot, *_ in rows] + [rows[b][0] for b in guided], device=device)
        x = self.net.text.weight[torch.tensor(text, device=device)]
        x = x + self.net.ahead.weight[torch.tensor(ahead, device=device)]
        x = x + self._frames(slots.last[heard]) + self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: Tensor) -> Tensor:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self.decoder.extend(x.unsqueeze(1), slots.steps, numbers, between)

    def sound(self, inputs: Sequence[Step], hidden: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Each row's channels, uint8 [B, 80], one group after another; and a sum that is a number if all is well, [B].

        A guided row's logits are l0 + alpha (lc - l0), where l0 is its second slot's (equation 8).
        """
        count, device = len(inputs), hidden.device
        guided = torch.tensor([b for b, given in enumerate(inputs) if given.guidance != 1.0], device=device).long()
        alpha = torch.tensor([given.guidance for given in inputs], device=device)[guided, None, None]
        temperature = torch.tensor([given.temperature for given in inputs], device=device)
        check = torch.zeros(count, device=device)

        def draw(group: int, found: Tensor) -> Tensor:
            logits = found[:count]
            if len(guided):
                without = found[count:]
                logits = logits.index_copy(0, guided, without + alpha * (logits[guided] - without))
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_levels(logits, temperature, noise[:, here])
            check.add_(logits.sum((1, 2)))
            return torch.cat((levels, levels[guided])) if len(guided) else levels

        made = self._depth.frame(hidden, draw)[:count]
        alone = torch.tensor([given.groups == "first" for given in inputs], device=device)
        made[:, GROUP_CHANNELS:].masked_fill_(alone[:, None], dmel.PAD)
        return made, check

    def told(
        self,
        slots: DsmSlots,
        rows: Sequence[tuple[int, ...]],
        inputs: Sequence[Step],
        hidden: Tensor,
    ) -> list[Drawn]:
        """What a step drew; one copy to the host for all rows. Rows that all warm up draw the action alone."""
        count = len(inputs)
        noise = slots.noise.next([slot for slot, *_ in rows])
        action = self._action(hidden[:count])
        if inputs[0].groups == "none":
            levels = torch.full((count, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8, device=hidden.device)
            check = hidden[:count].sum(1)
        else:
            levels, check = self.sound(inputs, hidden, noise)
            slots.last[torch.tensor([slot for slot, *_ in rows], device=hidden.device)] = levels
        host = torch.cat((action, check[:, None], noise[:, -1:], levels), 1).cpu().numpy()
        return [
            Drawn.of(row[3:].astype("uint8"), row[0], float(row[2]), row[1], given.temperature)
            for row, given in zip(host, inputs, strict=True)
        ]

    def _take_over(self, slots: DsmSlots, row: tuple[int, ...], given: Step) -> None:
        """What a step says about its row's slots."""
        pair = row if given.guidance != 1.0 else row[:1]
        for slot in pair:
            slots.steps.start[slot], slots.steps.length[slot] = given.start, given.at
        slots.noise.place(row[0], given.seed, given.at)
        if given.last is not None:
            slots.last[row[0]] = torch.from_numpy(given.last).to(slots.last.device)
        elif given.begins:
            slots.last[row[0]] = dmel.PAD
        if given.begins:
            for slot, who in zip(pair, (given.speakers, ()), strict=False):
                self._attend_to(slots.speakers, slot, who)

    def _attend_to(self, slots: KeyValueSlots, slot: int, who: Sequence[int]) -> None:
        device = self._embedded.device
        which = torch.tensor([[*who, *[-1] * (MOST_SPEAKERS - len(who))]], device=device)
        memory = self.net.speakers(self._embedded, which)
        for layer, cross in enumerate(self.net.crossings()):
            keys, values = cross.keys_values(memory)
            slots.write(layer, slot, 0, keys[0], values[0])
        slots.length[slot] = MOST_SPEAKERS


class StepModule:
    """Runs a step of several rows, warm or not."""

    most_rows = MOST_ROWS

    def __init__(self, step: DsmStep) -> None:
        self._step = step

    @torch.inference_mode()
    def run(self, slots: DsmSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> list[Drawn]:
        """See ``studio.engine.families.base.Module``."""
        return self._step.run(slots, rows, inputs)
