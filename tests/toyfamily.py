"""A family added by another package: a small recurrent net that speaks each word for three frames.

`installed` registers its entry point.
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

from studio.core.cards import Card
from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.options import OptionSpec
from studio.engine.families.base import FamilyInfo, ModuleInput, NotFinite, RowOutput
from studio.engine.nets.linear import RowwiseLinear
from studio.engine.nets.loading import load_weights
from studio.engine.tokenizers import dmel

WIDTH = 16
FRAMES = 3  # per word; the last one ends it
OPTIONS = (OptionSpec("wait", "int", 1, "Wait", "words that must follow before a word is spoken", low=0, high=2),)


@dataclass(frozen=True)
class Config:
    """The card's `config`."""

    speakers: int = 2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Net(nn.Module):
    """Embeddings, a recurrent layer and an output layer."""

    def __init__(self, config: "Config") -> None:
        super().__init__()
        self.config, speakers = config, config.speakers
        self.word = nn.Embedding(32, WIDTH)
        self.speaker = nn.Embedding(speakers, WIDTH)
        self.recurrent = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, dmel.CHANNELS)
        self.silence: torch.Tensor
        self.register_buffer("silence", torch.full((speakers, 4, dmel.CHANNELS), 3, dtype=torch.uint8))


@dataclass(frozen=True)
class Step:
    """Input of one frame; ``word`` is set at the first frame of a word."""

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
    """The only module."""

    max_rows = 8

    def __init__(self, net: Net) -> None:
        self._net, self._recurrent = net, RowwiseLinear(net.recurrent.weight, net.recurrent.bias)
        self._output = RowwiseLinear(net.output.weight, net.output.bias)

    @torch.inference_mode()
    def run(self, slots: Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[Step]) -> list[tuple[Any, float]]:
        index = torch.tensor([slot for (slot,) in rows], device=slots.state.device)
        for slot, given in zip(index, inputs, strict=True):
            if given.fresh:
                slots.state[slot] = math.sin(given.seed)
            if given.word is not None:
                slots.state[slot] += self._net.word.weight[given.word] + self._net.speaker.weight[given.speaker]
        state = self._recurrent(slots.state[index]).sin()
        slots.state[index] = state
        levels = (7.5 + 7.5 * self._output(state).sin()).round().to(torch.uint8).cpu().numpy()
        return [(levels[k : k + 1], float(state[k, 0])) for k in range(len(inputs))]


class ToyRow:
    """One request: three frames for each word, in order."""

    def __init__(self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], seed: int) -> None:
        self.slots = slots
        self._speaker, self._seed, self._wait = speaker, seed, options["wait"]
        self._words: list[str] = []
        self._flushed = self._spoken = self._frame = self._frames = 0
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
    def is_finished(self) -> bool:
        return self._ended and self.unspoken == 0 and self._frame == 0

    @property
    def unspoken(self) -> int:
        return len(self._words) - self._spoken

    def next_input(self) -> ModuleInput | None:
        if self._frame:
            return ModuleInput("step", Step(False, None, self._speaker, self._seed))
        is_due = self.unspoken > (0 if self._ended or self._flushed > self._spoken else self._wait)
        word = sum(map(ord, self._words[self._spoken])) % 32 if is_due else None
        return ModuleInput("step", Step(self._frames == 0, word, self._speaker, self._seed)) if is_due else None

    def on_output(self, outputs: tuple[np.ndarray, float]) -> RowOutput:
        levels, p = outputs
        if not math.isfinite(p):
            raise NotFinite("the net's output is not finite", "check its weights")
        sample, before, after = 600 * self._frames, list[Event](), list[Event]()
        if self._frame == 0:
            seen = [*range(self._spoken, min(len(self._words), self._spoken + self._wait + 1))]
            before = [
                Segment(index=self._spoken, words=[self._spoken], seen=seen, sample=sample, frame=self._frames),
                WordStart(i=self._spoken, sample=sample, source="action"),
            ]
        before.append(Frames(first_frame=self._frames, p_eos=[p], levels=levels))
        self._frames, self._frame = self._frames + 1, self._frame + 1
        if self._frame == FRAMES:
            after = [
                WordEnd(i=self._spoken, sample=sample + 600, source="action"),
                Eos(segment=self._spoken, frame=self._frames, p=1.0, forced=False),
            ]
            self._spoken, self._frame = self._spoken + 1, 0
        return RowOutput(levels, before, after)

    def on_cancel(self) -> list[Event]:
        return []

    def checkpoint(self) -> None:
        return None

    def restore(self, checkpoint: Any) -> None:
        raise AssertionError("there are no checkpoints")

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        self._words[i:] = words


class ToyFamily:
    """A loaded net with its slots."""

    slots_per_row = 1

    def __init__(self, net: Net, rows: int, device: torch.device) -> None:
        self._net = net.eval()
        self.slots = Slots(rows, device)
        self.modules = {"step": StepModule(net)}

    def prompt(self, speaker: int) -> np.ndarray:
        return self._net.silence[speaker].cpu().numpy()

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> ToyRow:
        return ToyRow(slots, speaker, options, seed)


def _load(card: Card, folder: Path, device: torch.device, rows: int) -> ToyFamily:
    net = Net(Config(**card.config))
    load_weights(net, folder, card, "toy.safetensors")
    return ToyFamily(net.to(device), rows, device)


INFO = FamilyInfo("toy", "none", OPTIONS, 1, _load)


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Register the family's entry point, as an installed package would."""
    about = folder / "toyfamily-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toyfamily\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[studio.families]\ntoy = toyfamily:INFO\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
