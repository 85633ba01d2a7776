"""Law 3 (docs/laws.md) over every registered family: a row does not depend on its batch."""

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from engine.families.family_engines import FAMILIES, ROWS, TEXT, choices, facts_of, opened
from listening import samples
from tinyvoice import PREFIXED

from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine
from studio.engine.voices import load_voice

pytestmark = pytest.mark.slow

COMPARED_AT = (1, 9, 16)  # engine steps: an early one, and two in mid-stream with rows at different positions


@pytest.mark.parametrize("number_format", ["float32", "int8"])
@pytest.mark.parametrize("name", [*FAMILIES, "vocstream", PREFIXED])
def test_law_3_samples_do_not_depend_on_the_batch(
    name: str, number_format: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Eight utterances that start one after another, two of them cancelled: each gives what it gives alone."""
    with opened(name, tmp_path_factory, number_format) as engine:
        card, sizes = engine.cards()[0], list[int]()
        facts = facts_of(card.family)
        module = engine.voice(card.name).family.modules[facts.decode]
        run = module.run

        def counted(slots: Any, rows: Any, inputs: Any) -> Any:
            sizes.append(len(rows))
            return run(slots, rows, inputs)

        module.run = counted
        speakers = [card.speakers[k % len(card.speakers)] for k in range(ROWS)]
        requests = [
            SpeakRequest(
                voice=f"{card.name}:{one}",
                seed=k,
                temperature=0.5 + 0.05 * k,
                options=facts.window(1 + (2 * k) % 5),
            )
            for k, one in enumerate(speakers)
        ]
        texts = [TEXT[4 * k :] for k in range(ROWS)]
        if facts.leaves_early:  # longer texts let the rows meet
            texts = [f"{text} {TEXT} {TEXT}" for text in texts]

        def begin(k: int) -> Any:
            utterance = engine.open(requests[k])
            utterance.push_text(texts[k])
            return utterance

        alone = []
        for k in range(ROWS):
            utterance = begin(k)
            utterance.end()
            alone.append(samples([*utterance.events()]))
        assert set(sizes) == {1}
        together = []
        for k in range(ROWS):
            together.append(begin(k))
            if k == 4:
                together[1].cancel()
            if k not in (1, 6):
                together[k].end()
        together[6].cancel()
        for k, utterance in enumerate(together):
            sound = samples([*utterance.events()])
            assert np.array_equal(sound, alone[k][: len(sound)]), f"utterance {k}"
            assert k in (1, 6) or len(sound) == len(alone[k]) > 0
        assert max(sizes) >= 4 or name == "toy", "they never met"  # the toy may end before others begin


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_law_3_one_row_unpadded_against_eight(engine: LocalEngine, device: str) -> None:
    """A row alone and among eight, from the same slots: equal outputs and state within 1e-4 (float32)."""
    card = engine.cards()[0]
    voice = load_voice(card, engine._voices.voices[card.name][1], torch.device(device), ROWS)
    options, rows = choices(card), []
    for k in range(ROWS):
        row = voice.open(k % len(card.speakers), options[0], 0.7, seed=k)
        row.commit(TEXT.replace(",", "").replace(".", "").split()[k % 4 :])
        row.end()
        rows.append(row)
    compared, slots = 0, ROWS * voice.family.slots_per_row
    for turn in range(max(COMPARED_AT) + 1):
        pending = [(row, next_input) for row in rows if (next_input := row.next_input()) is not None]
        for name, module in voice.family.modules.items():
            here = [(row, next_input) for row, next_input in pending if next_input.module == name]
            for first in range(0, len(here), module.max_rows):
                batch = here[first : first + module.max_rows]
                shared = len(batch) > 1 and turn in COMPARED_AT
                before = copy.deepcopy(voice.family.slots) if shared else None
                results = module.run(voice.family.slots, [row.slots for row, _ in batch], [w.inputs for _, w in batch])
                for k, (row, next_input) in enumerate(batch):
                    if before is not None:
                        (alone,) = module.run(before, [row.slots], [next_input.inputs])
                        _same(alone, results[k], exactly=device == "cpu")
                        for slot in row.slots:
                            compared += _same_slots(before, voice.family.slots, slot, slots)
                    row.on_output(results[k])
    assert compared, "no two rows were ever in one batch"


def _same(one: Any, other: Any, *, exactly: bool) -> None:
    """Compare outputs: floats within 1e-4 relative, samples exactly."""
    if is_dataclass(one):
        for field in fields(one):
            _same(getattr(one, field.name), getattr(other, field.name), exactly=exactly)
    elif isinstance(one, tuple | list):
        for mine, theirs in zip(one, other, strict=True):
            _same(mine, theirs, exactly=exactly)
    elif isinstance(one, float | np.floating) or (isinstance(one, np.ndarray) and one.dtype.kind == "f"):
        np.testing.assert_allclose(_logit(one), _logit(other), rtol=1e-4, atol=1e-4)
    elif exactly:  # rounding on a GPU may change a sample
        assert np.array_equal(one, other)


def _logit(p: Any) -> np.ndarray:
    """The logit of a probability; any other number unchanged."""
    values = np.asarray(p, np.float64)
    inside = (values > 0) & (values < 1)
    return np.where(inside, np.log(np.where(inside, values, 0.5) / (1 - np.where(inside, values, 0.5))), values)


def _same_slots(one: Any, other: Any, slot: int, slots: int) -> int:
    """Compare all float tensors whose first dimension is the slot; returns their number."""
    if isinstance(one, torch.Tensor):
        if one.dim() == 0 or one.shape[0] != slots or not one.is_floating_point():
            return 0
        assert torch.allclose(one[slot], other[slot], rtol=1e-4, atol=1e-4, equal_nan=True)
        return 1
    if isinstance(one, list | tuple):
        return sum(_same_slots(a, b, slot, slots) for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return sum(_same_slots(one[key], other[key], slot, slots) for key in one)
    mine, theirs = getattr(one, "__dict__", {}), getattr(other, "__dict__", {})
    return sum(_same_slots(mine[name], theirs[name], slot, slots) for name in mine)
