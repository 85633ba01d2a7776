"""The CUDA form of every family, run by Triton's interpreter: the same frames as the CPU form."""

from collections.abc import Mapping, Sequence
from typing import Any

import engine.nets.interpreted  # noqa: F401 - before the kernels
import numpy as np
import pytest
import tinyvoice
import torch

from studio.core.options import default_options
from studio.engine.families.base import PENDING, Family, family_info
from studio.engine.families.common import token_module
from studio.engine.families.ist.runner import IstFamily
from studio.engine.families.richtts.runner import RichTtsFamily
from studio.engine.families.s5.runner import S5Family
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.families.t5.runner import T5Family
from studio.text import phonemes

CPU = torch.device("cpu")
TEXTS = (["the", "morning", "light"], ["slowly"])
# Segments end by themselves, or where a word is cut; the interpreter takes a tenth of a second for a frame.
END_BIAS = {"speakstream": 1.7, "richtts": 1.4, "t5": -2.0}
OPTIONS: dict[str, Mapping[str, Any]] = {"speakstream": {"m": 2}, "richtts": {"mode": "ngram", "n": 2}}


def family_of(name: str, form: Any) -> Family:
    """A family with random weights in two slots."""
    torch.manual_seed(7)
    net = tinyvoice.NETS[name](END_BIAS.get(name, 0.0))
    match name:
        case "speakstream":
            return SpeakStreamFamily(net, 2, CPU, form=form)
        case "richtts":
            return RichTtsFamily(net, 2, CPU, form=form)
        case "ist":
            return IstFamily(net, BPE, 2, CPU, form=form)
        case "s5":
            return S5Family(net, 2, CPU, form=form)
        case _:
            return T5Family(net, 2, CPU, form=form)


class BPE:
    """Every word is two tokens."""

    @staticmethod
    def encode(word: str, before: Sequence[str] = ()) -> list[int]:
        return [len(word) % 20, ord(word[0]) % 20]


def frames_of(family: Family, name: str, many: int = 1, steps: int = 400) -> list[np.ndarray]:
    """All frames of two utterances, the second of which begins some steps later; ``many`` frames a run where it can."""
    phonemes.load()
    info = family_info(name)
    options = {**default_options(info.options), **OPTIONS.get(name, {})}
    rows, frames = [], [[], []]
    for slot, text in enumerate(TEXTS):
        text = text[:1] if name == "t5" else text  # it speaks up to the limit of every word
        family.slots.reset(slot)
        row = family.row((slot,), 0, options, 0.6, 5 + slot)
        row.commit(text)
        row.end()
        rows.append(row)
    for step in range(steps):
        active = [(k, row, row.next_input()) for k, row in enumerate(rows) if step >= 5 * k and not row.is_finished]
        if all(row.is_finished for row in rows):
            break
        for module in {id(module): module for module in family.modules.values()}.values():
            part = [one for one in active if one[2] is not None and family.modules[one[2].module] is module]
            for first in range(0, len(part), module.max_rows):
                batch = part[first : first + module.max_rows]
                slots, inputs = [row.slots for _, row, _ in batch], [wanted.inputs for _, _, wanted in batch]
                count = many if getattr(module, "max_frames", 1) >= many and not any(inputs) else 1
                outputs = module.run(family.slots, slots, inputs, *[count] * (count > 1))
                for (k, row, _), output in zip(batch, outputs, strict=True):
                    for one in output if count > 1 else [output]:
                        wanted = row.next_input()
                        if one is PENDING or wanted is None or (one is not output and wanted.inputs is not None):
                            break
                        frames[k].append(row.on_output(one).frames)
    assert all(row.is_finished for row in rows)
    return [np.concatenate(one) for one in frames]


@pytest.mark.slow
@pytest.mark.timeout(900)  # Triton's interpreter on a busy machine
@pytest.mark.parametrize("name", ["speakstream", "richtts", "ist", "s5", "t5"])
def test_the_cuda_form_samples_the_frames_of_the_cpu_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows, mixed steps, and prefills that take several steps."""
    monkeypatch.setattr(token_module, "MAX_CHUNK", 7)
    expected = frames_of(family_of(name, "cpu"), name)
    for many in {"speakstream": (3,), "s5": (1, 3)}.get(name, (1,)):  # the interpreter takes half a minute for a run
        found = frames_of(family_of(name, "cuda"), name, many)
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.shape == theirs.shape
            assert (mine == theirs).mean() > 0.999
