"""The CUDA form of DSM-TTS and of Tacotron 2, run by Triton's interpreter: the same frames as the CPU form."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import engine.nets.interpreted  # noqa: F401 - before the kernels
import numpy as np
import pytest
import torch
from engine.families import test_cuda_form
from engine.families.test_cuda_form import BPE, CPU, frames_of
from engine.nets.compiled import SHARED_MEMORY, Variant, compile_kernels, variant
from tinyvoice import NETS

from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm import kernels as dsm_kernels
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.dsm.policy import DsmInput, DsmOutput
from studio.engine.families.dsm.runner import DsmFamily
from studio.engine.families.tacotron import cuda as tacotron_cuda
from studio.engine.families.tacotron import kernels as tacotron_kernels
from studio.engine.families.tacotron.policy import TacotronChunk, TacotronClause, TacotronFrames
from studio.engine.families.tacotron.runner import TacotronFamily
from studio.engine.nets.cuda import decoder as cuda_decoder
from studio.engine.nets.cuda import sampling_kernels
from studio.engine.nets.cuda.decoder import next_power
from studio.engine.nets.kv_cache import ContextFull
from studio.engine.tokenizers import dmel

# ---------------------------------------------------------------- DSM-TTS


def dsm_family(form: Any, *, is_shared: bool = True) -> DsmFamily:
    """A family with random weights for two rows."""
    torch.manual_seed(7)
    sizes = {"depth_shared": is_shared, "encoder_width": 8, "context_frames": 60, "extract_frames": 12}
    net = Dsm(DsmConfig(1, 32, 1, 32, 1, 16, 1, 32, 20, 2, **sizes)).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.4)
            elif len(parameter) > 1:
                parameter.uniform_(0.5, 1.5)
    for speaker, frames in enumerate((9, 12)):
        net.set_extract(speaker, torch.randint(0, dmel.LEVELS, (frames, dmel.CHANNELS)))
    return DsmFamily(net, cast("Bpe", BPE), 2, CPU, form=form)


def a_step(at: int, groups: str, **changes: Any) -> DsmInput:
    given = DsmInput(at * 7 % 20, at * 5 % 20, 0, at, at == 0, groups, (0,), 1.0, temperature=0.6, seed=1)
    return replace(given, **changes)


def dsm_steps() -> Iterator[list[tuple[int, DsmInput]]]:
    """A guided row, and one that joins it, has another speaker, and is restored at last."""
    guided = {"guidance": 2.0, "speakers": (0, 1), "seed": -3}
    second = {"speakers": (1,), "temperature": 0.0}
    frame = np.arange(80, dtype=np.uint8) % 16
    yield [(0, a_step(0, "none", **guided))]
    yield [(0, a_step(1, "first", **guided)), (1, a_step(0, "none", **second))]
    yield [(0, a_step(2, "all", **guided)), (1, a_step(1, "first", **second))]
    yield [(0, a_step(3, "all", **guided, start=1)), (1, a_step(1, "all", **second, begins=True, last=frame))]


def run_dsm(family: DsmFamily, steps: list[list[tuple[int, DsmInput]]]) -> list[list[DsmOutput]]:
    """The outputs of both rows; each step is one run of the CUDA form."""
    rows, found = [(0, 1), (2, 3)], [[], []]
    for step in steps:
        for module in {id(one): one for one in family.modules.values()}.values():
            mine = [one for one in step if family.modules["warm" if one[1].groups == "none" else "decode"] is module]
            if mine:
                outputs = module.run(family.slots, [rows[k] for k, _ in mine], [given for _, given in mine])
                for (k, _), output in zip(mine, outputs, strict=True):
                    found[k].append(output)
    return found


def assert_same_steps(mine: list[list[DsmOutput]], theirs: list[list[DsmOutput]]) -> None:
    for one, other in zip(mine, theirs, strict=True):
        levels = [np.stack([step.levels for step in steps]) for steps in (one, other)]
        assert (levels[0] == levels[1]).mean() > 0.999
        np.testing.assert_allclose([step.p_word for step in one], [step.p_word for step in other], atol=1e-5)
        assert [step.begins for step in one] == [step.begins for step in other]
        assert all(step.is_finite for step in one)


@pytest.mark.parametrize("is_shared", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dsm_steps(is_shared: bool) -> None:
    """Rows without sound, with the first group and with all of them share a step; one is guided, one is restored."""
    steps, families = [*dsm_steps()], [dsm_family(form, is_shared=is_shared) for form in ("cpu", "cuda")]
    expected, found = (run_dsm(family, steps) for family in families)
    assert_same_steps(found, expected)
    guided, other = found
    assert (guided[0].levels == dmel.PAD).all() and (guided[1].levels[10:] == dmel.PAD).all()
    assert (guided[1].levels[:10] < dmel.LEVELS).all() and (guided[2].levels < dmel.LEVELS).all()
    assert (other[0].levels == dmel.PAD).all()
    for store in ("start", "length"):
        assert torch.equal(getattr(families[0].slots.steps, store), getattr(families[1].slots.steps, store)[:-1])
    assert torch.equal(families[0].slots.last[[0, 2]], families[1].slots.last[[0, 2]])


def test_dsm_steps_of_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products by torch, as for more than 8 tokens."""
    monkeypatch.setattr(cuda_decoder, "GEMV_ROWS", 0)
    steps = [[(0, a_step(at, groups, guidance=2.0))] for at, groups in enumerate(("none", "first", "all"))]
    expected, found = (run_dsm(dsm_family(form), steps) for form in ("cpu", "cuda"))
    assert_same_steps(found[:1], expected[:1])


def test_a_full_dsm_slot_is_refused_before_the_step() -> None:
    family = dsm_family("cuda")
    with pytest.raises(ContextFull):
        run_dsm(family, [[(0, a_step(0, "none")), (1, a_step(family.slots.steps.capacity, "all"))]])
    assert family.slots.steps.length.tolist() == [0] * 5


# ---------------------------------------------------------------- Tacotron 2


def tacotron_family(form: Any, stop_bias: float = -9.0) -> TacotronFamily:
    torch.manual_seed(3)
    return TacotronFamily(NETS["tacotron"](stop_bias).eval(), 3, CPU, form=form)


def a_clause(symbols: int, **changes: Any) -> TacotronClause:
    numbers = np.random.default_rng(symbols)
    ids, prosody = numbers.integers(0, 57, symbols).tolist(), numbers.integers(0, 8, symbols).tolist()
    return replace(TacotronClause(ids, prosody, np.full(80, 3, np.uint8), 1, 0.7, 5, 0), **changes)


def run_tacotron(family: TacotronFamily) -> list[TacotronFrames]:
    """Two rows, the second of which begins later, with chunks of different lengths; the other slots are nobody's."""
    encode, decode, slots = family.modules["encode"], family.modules["decode"], family.slots
    encode.run(slots, [(0,)], [a_clause(9)])
    found = decode.run(slots, [(0,)], [TacotronChunk(5)])
    encode.run(slots, [(2,)], [a_clause(70, seed=-4, frame=30, temperature=0.0, speaker=0)])
    found += decode.run(slots, [(0,), (2,)], [TacotronChunk(2), TacotronChunk(4)])
    return found + decode.run(slots, [(2,), (0,)], [TacotronChunk(2), TacotronChunk(0)])


def assert_same_frames(mine: list[TacotronFrames], theirs: list[TacotronFrames]) -> None:
    for one, other in zip(mine, theirs, strict=True):
        assert one.levels.shape == other.levels.shape and one.is_finite
        assert len(one.levels) == 0 or (one.levels == other.levels).mean() > 0.999
        np.testing.assert_allclose(one.p_stop, other.p_stop, rtol=1e-4)
        assert np.array_equal(one.attended, other.attended)


@pytest.mark.parametrize("gemv_rows", [8, 0], ids=["own products", "torch's products"])
def test_tacotron_chunks(gemv_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tacotron_cuda, "GEMV_ROWS", gemv_rows)
    cpu, cuda = tacotron_family("cpu"), tacotron_family("cuda")
    assert_same_frames(run_tacotron(cuda), run_tacotron(cpu))
    for slot, count in ((0, 9), (2, 70)):
        for name in ("last_shares", "sum_shares"):
            mine, theirs = (getattr(family.slots, name) for family in (cuda, cpu))
            torch.testing.assert_close(mine[slot, :count], theirs[slot, :count], atol=1e-5, rtol=1e-4)
            assert mine[slot, count:].isnan().all()
        assert cuda.slots.noise.frame[slot] == cpu.slots.noise.frame[slot]
    assert cuda.slots.decoder_state[1].isnan().all()


def test_a_tacotron_run_that_fails_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after some of its frames."""
    families = [tacotron_family("cuda") for _ in range(2)]
    rows, chunks = [(0,), (1,)], [TacotronChunk(2), TacotronChunk(2)]
    for family in families:
        for slot in range(2):
            family.modules["encode"].run(family.slots, [(slot,)], [a_clause(5 + slot)])
    decode = families[0].modules["decode"]
    graphs, launches = cast("Any", decode).step.graphs, list[Any]()
    launch = graphs.launch

    def fail_once(*given: Any) -> None:
        launches.append(given)
        if len(launches) == 2:
            raise RuntimeError("out of memory")
        launch(*given)

    monkeypatch.setattr(graphs, "launch", fail_once)
    with pytest.raises(RuntimeError):
        decode.run(families[0].slots, rows, chunks)
    again, straight = (one.modules["decode"].run(one.slots, rows, chunks) for one in families)
    assert all(np.array_equal(one.levels, other.levels) for one, other in zip(again, straight, strict=True))


@pytest.mark.slow
def test_tacotron_utterances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses that end within a launch of several frames."""
    monkeypatch.setitem(test_cuda_form.OPTIONS, "tacotron", {"clause_words": 2})
    expected, found = (frames_of(tacotron_family(form, 0.0), "tacotron") for form in ("cpu", "cuda"))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        assert (mine == theirs).mean() > 0.999


# ---------------------------------------------------------------- GPUs that are not here


def kernels_of(low: str) -> list[Variant]:
    """All kernels for the sizes of the papers; ``low`` is the type of products by cuBLAS or of our own."""
    full, ints, levels, int_, half = "*fp32", "*i32", "*u8", "i32", "*bf16"
    noise = {"low_ptr": ints, "high_ptr": ints, "frame_ptr": ints}
    entered = {"entered_ptr": low, "bias_ptr": full, "WIDTH": int_}
    sampling = {"logits_ptr": low, "bias_ptr": full, **noise, "temperature_ptr": full, "target_ptr": ints,
                "last_ptr": levels, "levels_ptr": levels, "end_ptr": full, "WIDTH": int_, "FIRST": int_,
                "CHANNEL": int_}  # fmt: skip
    attention = {
        **dict.fromkeys(("query_ptr", "last_ptr", "total_ptr", "kernel_ptr", "score_ptr", "scores_ptr"), full),
        **dict.fromkeys(("context_ptr", "attended_ptr"), full), "keys_ptr": half, "encoded_ptr": half,
        "slot_ptr": ints, "symbols_ptr": ints, "CAPACITY": int_,
    }  # fmt: skip
    group = {"C": 10, "CP": 16, "STRIDE": 80}
    made = [
        variant(dsm_kernels.read_actions, {**entered, **noise, "out_ptr": full, "COLUMN": int_}, {"CHANNEL": 80},
                num_warps=1),
        variant(dsm_kernels.guide_logits,
                {"logits_ptr": low, "guide_ptr": ints, "alpha_ptr": full, "out_ptr": full, "WIDTH": int_}, {"WP": 256},
                num_warps=1),
        variant(sampling_kernels.sample_frames, sampling, {**group, "L": 16, "END": False}),
        variant(tacotron_kernels.relu_dropout, {"x_ptr": full, **noise, "WIDTH": int_, "FIRST": int_, "SHARE": "fp32"},
                {"WP": 256}),
    ]  # fmt: skip
    entry = {**entered, "table_ptr": half, "levels_ptr": levels, "x_ptr": full, "FIRST": int_, "OUT": int_}
    for is_first in (True, False):
        constants = {**group, "SYMBOLS": dmel.SYMBOLS, "BD": 128, "IS_FIRST": is_first}
        made.append(variant(dsm_kernels.enter_group, {**entry, "CHANNEL": int_}, constants))
    for a, d, block in ((128, 512, 16), (96, 160, 32)):
        sizes = {"A": a, "AP": next_power(a), "D": d, "DP": next_power(d), "K": 31, "BLOCK": block}
        made.append(variant(tacotron_kernels.attend_by_location, attention, sizes, num_warps=8))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("low", ["*fp32", "*bf16"])
def test_every_kernel_compiles_for_a_gpu(low: str, tmp_path: Path) -> None:
    variants = kernels_of(low)
    for one, shared in zip(variants, compile_kernels(variants, tmp_path), strict=True):
        assert all(shared[capability] <= SHARED_MEMORY[capability] for capability in SHARED_MEMORY), one
