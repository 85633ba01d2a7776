"""Rows of Kyutai's tiny models, spoken step by step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.kyutai import TIME_BASE
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.cpu import CpuKyutaiLM
from studio.engine.families.kyutai.model import load_kyutai_lm
from studio.engine.families.kyutai.passages import KyutaiNet
from studio.engine.families.kyutai.row import KyutaiModel, KyutaiRow
from studio.engine.families.kyutai.runner import KyutaiModule

ORACLES = Path(__file__).parents[2] / "oracles"
SPEECH: dict[str, Any] = json.loads((ORACLES / "kyutai_lm" / "speech.json").read_text())
DELAY = SPEECH["delay_steps"]
OPTIONS = {"cfg": "1", "padding": 0}


def tiny_config(folder: str) -> KyutaiConfig:
    return KyutaiConfig.read_published(json.loads((ORACLES / folder / "tiny.json").read_text()))


def tiny_net(folder: str, form: str) -> KyutaiNet:
    """A tiny model in float32, in one of its ``FORMS``."""
    trained = load_kyutai_lm(ORACLES / folder / "tiny.safetensors", tiny_config(folder), torch.float32)
    return CpuKyutaiLM(trained) if form == "cpu" else trained


FORMS = ("reference", "cpu")
TINY = tiny_config("kyutai_lm")
SIZE = TINY.text_card + 1


def new_row(
    spoken: list[list[int]], look_ahead: int = 2, prefix: np.ndarray | None = None, **options: Any
) -> KyutaiRow:
    """A row that reads words "0", "1", ... as these tokens."""
    model = KyutaiModel(DELAY, TINY.delays[1:], SIZE, look_ahead, (1.0, 2.0), longest_pad=SPEECH["longest_pad"])
    setup = RowSetup((0,), TIME_BASE, 0, OPTIONS | options, 0.0, 1)
    return KyutaiRow(setup, model, lambda word: spoken[int(word)], prefix)


def speak(
    module: KyutaiModule, slots: Any, numbers: tuple[int, ...], row: KyutaiRow, words: int, *, is_late: bool
) -> tuple[list[int], list[np.ndarray], list[ev.Event]]:
    """Fed text, frames and events of a row in these slots.

    Args:
        is_late: each word is committed only when the stream would wait for it.
    """
    left, fed, frames, events = [*map(str, range(words))], list[int](), list[np.ndarray](), list[ev.Event]()
    while not row.is_finished:
        while left and not (is_late and row.next_input() is not None):
            row.commit([left.pop(0)])
        if not left and (not is_late or row.next_input() is None):
            row.end()
        given = row.next_input()
        assert given is not None
        (output,) = module.run(slots, [numbers], [given.inputs])
        fed.append(given.inputs.word if output.begins else given.inputs.pad)
        found = row.on_output(output)
        frames += [*found.frames]
        events += [*found.before, *found.after]
    return fed, frames, events
