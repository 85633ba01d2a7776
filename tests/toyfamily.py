"""A family from another package: a small recurrent net that speaks every word for three frames, one word behind.

It stands for what strangers write: `installed` puts its entry point where Python looks for them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from studio.core.cards import Card, OptionSpec
from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, NotFinite, Turn, Want
from studio.engine.nets.products import Product
from studio.engine.weights.loading import load_weights

WIDTH = 16
FRAMES = 3  # of a word, the last of which ends it
OPTIONS = (OptionSpec("wait", "int", 1, "Wait", "words that must follow before a word is spoken", low=0, high=2),)


@dataclass(frozen=True)
class Config:
    """As the card stores it."""

    speakers: int = 2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Net(nn.Module):
    """What a word adds to the state, how the state goes on, and what it sounds like."""

    def __init__(self, config: "Config") -> None:
        super().__init__()
        self.config, speakers = config, config.speakers
        self.word = nn.Embedding(32, WIDTH)
        self.speaker = nn.Embedding(speakers, WIDTH)
        self.onward = nn.Linear(WIDTH, WIDTH)
        self.sound = nn.Linear(WIDTH, dmel.CHANNELS)
        self.silence: torch.Tensor
        self.register_buffer("silence", torch.full((speakers, 4, dmel.CHANNELS), 3, dtype=torch.uint8))


@dataclass(frozen=True)
class Step:
    """One frame more: of a new word where there is one."""

    fresh: bool
    word: int | None
    speaker: int
    seed: int


class Slots:
    """The recurrent state [slots, D]."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.state = torch.full((count, WIDTH), math.nan, device=device)

    def reset(self, slot: int) -> None:
        self.state[slot] = math.nan


class StepModule:
    """The net's one function."""

    most_rows = 8

    def __init__(self, net: Net) -> None:
        self._net, self._onward = net, Product(net.onward.weight, net.onward.bias)
        self._sound = Product(net.sound.weight, net.sound.bias)

    @torch.inference_mode()
    def run(self, slots: Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> list[tuple[Any, float]]:
        index = torch.tensor([slot for (slot,) in rows], device=slots.state.device)
        for slot, given in zip(index, inputs, strict=True):
            if given.fresh:
                slots.state[slot] = math.sin(given.seed)
            if given.word is not None:
                slots.state[slot] += self._net.word.weight[given.word] + self._net.speaker.weight[given.speaker]
        state = self._onward(slots.state[index]).sin()
        slots.state[index] = state
        levels = (7.5 + 7.5 * self._sound(state).sin()).round().to(torch.uint8).cpu().numpy()
        return [(levels[k : k + 1], float(state[k, 0])) for k in range(len(inputs))]


class ToyRow:
    """One utterance: a word, three frames, the next word."""

    def __init__(self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], seed: int) -> None:
        self.slots = slots
        self._speaker, self._seed, self._wait = speaker, seed, options["wait"]
        self._words: list[str] = []
        self._flushed = self._said = self._frame = self._made = 0
        self._ended = False

    def commit(self, words: Sequence[str]) -> None:
        self._words += words

    def flush(self) -> None:
        self._flushed = len(self._words)

    def end(self) -> None:
        self._ended = True

    def check(self, options: Mapping[str, Any]) -> None:
        pass

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        self._wait = options["wait"]

    @property
    def over(self) -> bool:
        return self._ended and self.unspoken == 0 and self._frame == 0

    @property
    def unspoken(self) -> int:
        return len(self._words) - self._said

    def want(self) -> Want | None:
        if self._frame:
            return Want("step", Step(False, None, self._speaker, self._seed))
        there = self.unspoken > (0 if self._ended or self._flushed > self._said else self._wait)
        word = sum(map(ord, self._words[self._said])) % 32 if there else None
        return Want("step", Step(self._made == 0, word, self._speaker, self._seed)) if there else None

    def took(self, outputs: tuple[np.ndarray, float]) -> Turn:
        levels, p = outputs
        if not math.isfinite(p):
            raise NotFinite("the net answered something that is no number", "look at its weights")
        sample, before, after = 600 * self._made, list[Event](), list[Event]()
        if self._frame == 0:
            seen = [*range(self._said, min(len(self._words), self._said + self._wait + 1))]
            before = [
                Segment(index=self._said, words=[self._said], seen=seen, sample=sample, frame=self._made),
                WordStart(i=self._said, sample=sample, source="action"),
            ]
        before.append(Frames(first_frame=self._made, p_eos=[p], levels=levels))
        self._made, self._frame = self._made + 1, self._frame + 1
        if self._frame == FRAMES:
            after = [
                WordEnd(i=self._said, sample=sample + 600, source="action"),
                Eos(segment=self._said, frame=self._made, p=1.0, forced=False),
            ]
            self._said, self._frame = self._said + 1, 0
        return Turn(levels, before, after)

    def broken_off(self) -> list[Event]:
        return []

    def mark(self) -> None:
        return None

    def back(self, mark: Any) -> None:
        raise AssertionError("nothing was marked")

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        self._words[i:] = words


class ToyFamily:
    """The net with its slots."""

    slots_per_row = 1

    def __init__(self, net: Net, places: int, device: torch.device) -> None:
        self._net = net.eval()
        self.slots = Slots(places, device)
        self.modules = {"step": StepModule(net)}

    def prompt(self, speaker: int) -> np.ndarray:
        return self._net.silence[speaker].cpu().numpy()

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> ToyRow:
        return ToyRow(slots, speaker, options, seed)


def _load(card: Card, folder: Path, device: torch.device, places: int) -> ToyFamily:
    net = Net(Config(**card.config))
    load_weights(net, folder, card, "toy.safetensors")
    return ToyFamily(net.to(device), places, device)


INFO = FamilyInfo("toy", "none", OPTIONS, 1, _load)


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The entry point of this family, as installing a package would put it there."""
    about = folder / "toyfamily-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toyfamily\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[studio.families]\ntoy = toyfamily:INFO\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
