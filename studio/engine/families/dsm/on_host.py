"""A step of DSM-TTS on a CPU, in numpy over the slots' own memory: the backbone, then the depth transformer.

A frame is eight runs of the depth transformer, one after another: at its width they cost calls, and one of numpy is a
third of one of torch. Rows do not know each other (law 3).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from studio.engine.alphabets import dmel
from studio.engine.compiled.panels import Panels
from studio.engine.families.dsm.depth import GROUP_CHANNELS, GROUPS, LeanDepth
from studio.engine.families.dsm.step import Drawn, Step
from studio.engine.nets.frames import FrameTableOnHost
from studio.engine.nets.one_token import TokenCross, TokenStep, unit
from studio.engine.noise.sampling import sample_on_host

if TYPE_CHECKING:
    from studio.engine.families.dsm.modules import DsmSlots


class DepthOnHost:
    """A trained depth transformer made ready to run on a CPU."""

    def __init__(self, lean: LeanDepth) -> None:
        self._layers = [[layer.for_tokens() for layer in stack] for stack in lean.layers]
        self._turns = lean.turns.numpy().view(np.float32)
        self._enter = lean.enter_on_host()
        self._heard = [(table.on_host(), bias.numpy()) for table, bias in lean.heard]
        self._group, self._out = lean.group.numpy(), lean.out_on_host()
        self._kept = lean.kept_shape

    def frame(self, hidden: np.ndarray, draw: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """As ``LeanDepth.frame``: [N, D] and a draw from logits [N, 10, 16], to uint8 [N, 80]."""
        entered, count = [enter(hidden) for enter in self._enter], len(hidden)
        kept = np.empty((len(self._layers[0]), 2, count, *self._kept), np.float32)  # keys and values, group by group
        rows, first, found = np.arange(count), np.zeros(count, np.int64), list[np.ndarray]()
        for group in range(GROUPS):
            turns, length = np.repeat(self._turns[group : group + 1], count, axis=0), np.full(count, group)
            h = entered[group % len(entered)] + self._group[group]
            if found:
                table, bias = self._heard[group - 1]
                h += table(found[-1])
                h += bias
            for number, layer in enumerate(self._layers[group % len(self._layers)]):
                layer.attend(h, (kept[number, 0], kept[number, 1]), rows, (first, length), turns)
                layer.feed(h)
            logits = self._out[group](unit(h))
            found.append(draw(group, logits.reshape(len(h), GROUP_CHANNELS, dmel.LEVELS)))
        return np.concatenate(found, 1)


class DsmOnHost:
    """What ``modules.DsmStep`` does with a step of each row.

    Args:
        text, ahead: embeddings of symbols, [symbols, D].
        frames: what a frame's levels say; ``bias`` [D] is added to it.
        action: [D] -> [1].
        nothing: the symbol of a guided row's second slot.
    """

    def __init__(
        self,
        tokens: TokenStep,
        cross: Sequence[TokenCross],
        depth: DepthOnHost,
        text: np.ndarray,
        ahead: np.ndarray,
        frames: FrameTableOnHost,
        bias: np.ndarray,
        action: Panels,
        nothing: int,
    ) -> None:
        self._tokens, self._cross, self._depth, self._nothing = tokens, cross, depth, nothing
        self._text, self._ahead, self._frames, self._bias, self._action = text, ahead, frames, bias, action

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def run(self, slots: "DsmSlots", rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> list[Drawn]:
        """A step of rows whose slots were told of it."""
        count, firsts = len(inputs), [slot for slot, *_ in rows]
        guided = np.array([b for b, given in enumerate(inputs) if given.guidance != 1.0], dtype=np.int64)
        hidden = self._hidden(slots, rows, inputs, guided)
        noise = slots.noise.next_on_host(firsts)
        action = self._action(hidden[:count])[:, 0]
        levels, check = np.full((count, dmel.CHANNELS), dmel.PAD, np.uint8), hidden[:count].sum(1)
        if inputs[0].groups != "none":
            levels, check = self._sound(inputs, hidden, guided, noise)
            slots.last.numpy()[firsts] = levels
        return [
            Drawn.of(levels[b], action[b], float(noise[b, -1]), check[b], given.temperature)
            for b, given in enumerate(inputs)
        ]

    def _hidden(
        self, slots: "DsmSlots", rows: Sequence[tuple[int, ...]], inputs: Sequence[Step], guided: np.ndarray
    ) -> np.ndarray:
        """Hidden states of first slots, then of the second slots of guided rows, [N, D], divided by their lengths."""
        nothing = [self._nothing] * len(guided)
        heard = slots.last.numpy()[[rows[b][0] for b in (*range(len(rows)), *guided)]]
        x = self._text[[given.text for given in inputs] + nothing]
        x = x + self._ahead[[given.ahead for given in inputs] + nothing]
        x += self._frames(heard)
        x += self._bias
        numbers = [slot for slot, *_ in rows] + [rows[b][1] for b in guided]

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            return self._cross[layer](h, slots.speakers, numbers)[0]

        return self._tokens.extend(x, slots.steps, numbers, between)

    def _sound(
        self, inputs: Sequence[Step], hidden: np.ndarray, guided: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each row's channels, uint8 [B, 80], and a sum that is a number if all is well, [B].

        A guided row's logits are l0 + alpha (lc - l0), where l0 is its second slot's (equation 8).
        """
        count = len(inputs)
        alpha = np.array([inputs[b].guidance for b in guided], np.float32)[:, None, None]
        temperature = np.array([given.temperature for given in inputs], np.float32)
        check = np.zeros(count, np.float32)

        def draw(group: int, found: np.ndarray) -> np.ndarray:
            logits = found[:count]
            if len(guided):
                without = found[count:]
                logits[guided] = without + alpha * (logits[guided] - without)
            here = slice(group * GROUP_CHANNELS, (group + 1) * GROUP_CHANNELS)
            levels = sample_on_host(logits, temperature, noise[:, here])
            np.add(check, logits.sum((1, 2)), out=check)
            return np.concatenate((levels, levels[guided])) if len(guided) else levels

        made = self._depth.frame(hidden, draw)[:count]
        made[[given.groups == "first" for given in inputs], GROUP_CHANNELS:] = dmel.PAD
        return made, check
