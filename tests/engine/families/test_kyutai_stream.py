"""Kyutai's rules of feeding text, and whole utterances, against Kyutai's own code (``make_kyutai_lm.py``)."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from engine.families.kyutai_rows import DELAY, FORMS, OPTIONS, ORACLES, SIZE, SPEECH, TINY, new_row, speak, tiny_net
from oracles import kyutai_scripts
from safetensors.torch import load_file
from torch import Tensor

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.kyutai import TIME_BASE, KyutaiSettings
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.kyutai import passages
from studio.engine.families.kyutai.model import load_kyutai_lm
from studio.engine.families.kyutai.passages import KyutaiNet, KyutaiSlots
from studio.engine.families.kyutai.policy import NEW_WORD, PAD, KyutaiInput, KyutaiOutput, KyutaiPolicy, sentence_case
from studio.engine.families.kyutai.row import KyutaiModel, KyutaiRow
from studio.engine.families.kyutai.runner import KyutaiModule

ORACLE = ORACLES / "kyutai_lm"


@pytest.fixture(scope="module", params=FORMS)
def net(request: pytest.FixtureRequest) -> KyutaiNet:
    return tiny_net("kyutai_lm", request.param)


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    return load_file(ORACLE / "reference.safetensors")


def new_policy(**other: int) -> KyutaiPolicy:
    return KyutaiPolicy(SIZE, **{"look_ahead": 2, "longest_pad": SPEECH["longest_pad"], **other})


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_utterance_is_kyutais(
    net: KyutaiNet, reference: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch, row: int, is_late: bool
) -> None:
    """Words committed at once, or each only when the stream would wait for it."""
    labels = {name: reference[name][[row]] for name in ("cfg", "control")}
    monkeypatch.setattr(passages, "read_labels", lambda *_: labels)  # one of them has none
    speakers, slots = [(reference["speakers"][[row]], reference["present"][[row]])], KyutaiSlots(net, 2, 5)
    module = KyutaiModule(net, KyutaiSettings(DELAY, 2, (1.0,)), speakers, slots, None)
    spoken = SPEECH["words"][row]
    fed, frames, events = speak(module, slots, (0,), new_row(spoken), len(spoken), is_late=is_late)
    expected, end = reference["frames"][row], int(reference["ends"][row])
    begun = [event.sample // TIME_BASE.frame_samples for event in events if isinstance(event, ev.WordStart)]
    assert begun == reference[f"begun_{row}"].tolist()
    assert [event.sample for event in events if isinstance(event, ev.WordEnd)][-1] == TIME_BASE.samples(end)
    assert fed[:end] == reference["fed"][row, :end].tolist()
    assert len(frames) == end + 2, "four steps after the end, two of which the acoustic delay takes"
    assert np.array_equal(np.stack(frames, 1), expected[:, DELAY : DELAY + len(frames)])
    assert (expected[:, :DELAY] == -1).all()


@pytest.mark.parametrize("is_late", [False, True])
def test_words_are_fed_as_by_kyutai_in_a_thousand_runs(is_late: bool) -> None:
    """Step by step: the token that is fed, whether a word begins, and where the text ends."""
    stored = np.load(kyutai_scripts.FILE)
    fed, begins, at = stored["fed"].tolist(), np.unpackbits(stored["began"]).astype(bool).tolist(), 0
    assert len(stored["end"]) == kyutai_scripts.RUNS == 1000
    for number, end in enumerate(stored["end"].tolist()):
        script = kyutai_scripts.script(number)
        policy = KyutaiPolicy(kyutai_scripts.SIZE, script.look_ahead, script.longest_pad, script.initial_pad)
        words = iter(script.words)
        if not is_late:
            for word in words:
                policy.commit(*word)
        for step, wanted in enumerate(script.wanted[: end + 5]):
            while not policy.can_step:
                if word := next(words, None):
                    policy.commit(*word)
                else:
                    policy.ended = True
            begun = len(policy.begun)
            about = f"run {number}, step {step} of {script}"
            assert (policy.token(wanted), policy.feed(wanted)) == (fed[at], fed[at]), about
            assert (len(policy.begun) > begun) == begins[at], about
            assert policy.end_step == (end if step >= end else None), about
            at += 1
    assert at == len(fed)


def silent(begins: bool, p_word: float = 0.5) -> KyutaiOutput:
    return KyutaiOutput(np.zeros(len(TINY.delays) - 1, np.int64), begins, p_word, True)


def test_a_flush_closes_a_passage_and_later_words_begin_another() -> None:
    row, events, fresh, frames = new_row([[4], [5, 6], [7]]), list[ev.Event](), list[int](), 0

    def run(begins: bool) -> None:
        nonlocal frames
        while (given := row.next_input()) is not None:
            fresh.append(given.inputs.step)
            output = row.on_output(silent(begins))
            frames += len(output.frames)
            events.extend([*output.before, *output.after])

    row.commit(["0", "1"])
    run(True)
    assert fresh == [0, 1] and row.unspoken == 2, "the first word waits for the two after it"
    row.flush()
    run(True)
    assert fresh.count(0) == 1 and row.unspoken == 0 and not row.is_finished
    row.commit(["2"])
    row.end()
    run(True)
    assert row.is_finished and fresh.count(0) == 2
    starts = [(one.i, one.sample // 1920) for one in events if isinstance(one, ev.WordStart)]
    segments = [(one.words, one.frame, one.seen) for one in events if isinstance(one, ev.Segment)]
    first = next(one.frame for one in events if isinstance(one, ev.Eos) and one.segment == 1)
    assert starts == [(0, 2), (1, 3), (2, first + 2)]
    assert segments == [([0], 0, [0, 1]), ([1], 3, [1]), ([2], first, [2])]
    assert [one.frame for one in events if isinstance(one, ev.Eos)] == [3, first, frames]
    assert [one.i for one in events if isinstance(one, ev.WordEnd)] == [0, 1, 2]


def test_each_word_has_padding_and_passages_say_who_speaks() -> None:
    model = KyutaiModel(DELAY, TINY.delays[1:], SIZE, 0, (1.0, 2.0), first=(1,), longest_pad=5)
    row = KyutaiRow(RowSetup((0,), TIME_BASE, 0, OPTIONS | {"padding": 2}, 0.0, 1), model, lambda word: [7, 8])
    row.commit(["0", "1"])
    row.end()
    fed = []
    while (given := row.next_input()) is not None:
        fed.append(given.inputs.word)
        row.on_output(silent(True))
    # A word of three tokens, the first of which says who speaks, has four more steps.
    assert fed[:13] == [PAD, PAD, NEW_WORD, 1, 7, 8, PAD, NEW_WORD, 7, 8, PAD, PAD, PAD]
    with pytest.raises(BadOption, match=r"cfg cannot be 3\.0; there are 1\.0, 2\.0"):
        row.check({"cfg": "3", "padding": 1})


def test_no_word_begins_before_those_it_shows_are_committed() -> None:
    policy = new_policy(initial_pad=0)
    assert not policy.can_step
    for token in (4, 5):
        policy.commit([token])
    assert not policy.can_step, "the second stream shows the third word"
    policy.commit([6, 7])
    assert policy.can_step
    assert divmod(policy.feed(NEW_WORD), SIZE) == (1 + NEW_WORD, 4)
    assert not policy.can_step, "the next step may begin the second word"
    policy.ended = True
    assert policy.can_step
    assert divmod(policy.feed(PAD), SIZE) == (1 + 6, PAD), "the third word, a token a step"
    assert divmod(policy.feed(PAD), SIZE) == (1 + 7, PAD)
    assert divmod(policy.feed(PAD), SIZE) == (0, PAD)


def test_a_word_begins_after_the_longest_pad_and_not_within_another() -> None:
    policy = new_policy(initial_pad=0, look_ahead=0)
    policy.commit([4, 5, 6])
    policy.commit([7])
    policy.ended = True
    fed = [policy.feed(NEW_WORD if step == 1 else PAD) for step in range(8)]
    assert fed == [NEW_WORD, 4, 5, 6, PAD, PAD, NEW_WORD, 7] and policy.begun == [0, 6]


def test_other_tokens_are_pads() -> None:
    policy = new_policy(look_ahead=0)
    policy.commit([4])
    policy.ended = True
    assert [policy.feed(9) for _ in range(3)] == [PAD, PAD, NEW_WORD], "after the initial two"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_padded_batch_as_on_a_gpu_gives_what_each_row_gives_alone(
    reference: dict[str, Tensor], dtype: torch.dtype
) -> None:
    """Three rows at other steps and temperatures; the fourth slot pads the batch."""
    net = load_kyutai_lm(ORACLE / "tiny.safetensors", TINY, dtype)
    speakers = [(reference["speakers"][[row]], reference["present"][[row]]) for row in (0, 1)]
    settings, outputs = KyutaiSettings(DELAY, 2, (1.0, 1.5, 2.0)), list[list[list[KyutaiOutput]]]()
    for spare in (None, 3):
        slots = KyutaiSlots(net, 4, 5)
        module = KyutaiModule(net, settings, speakers, slots, spare)
        if spare is not None:
            for capture in module.capture_steps():
                capture()
        found = [list[KyutaiOutput]() for _ in range(3)]
        for at in range(14):
            rows = [row for row in range(3) if at >= 2 * row]  # they begin one after another
            inputs = [
                KyutaiInput(at - 2 * row, at, at - 2 * row >= DELAY, PAD, 4, row % 2, 1.5, 0.4 * row, 7 + row)
                for row in rows
            ]
            for row, output in zip(rows, module.run(slots, [(row,) for row in rows], inputs), strict=True):
                found[row].append(output)
        outputs.append(found)
    for alone, together in zip(*outputs, strict=True):
        for one, other in zip(alone, together, strict=True):
            assert one.is_finite and other.is_finite and abs(one.p_word - other.p_word) < 0.02
            if dtype == torch.float32:
                assert np.array_equal(one.codes, other.codes) and one.begins == other.begins


def test_a_row_of_the_cpu_form_does_not_depend_on_its_batch(reference: dict[str, Tensor]) -> None:
    """Bit for bit (law 3)."""
    net, found = tiny_net("kyutai_lm", "cpu"), list[list[KyutaiOutput]]()
    speakers = [(reference["speakers"][[row]], reference["present"][[row]]) for row in (0, 1)]
    for groups in ([[0, 1, 2, 3, 4]], [[0], [1], [2], [3], [4]], [[3, 1], [0, 4, 2]]):
        slots, outputs = KyutaiSlots(net, 5, 5), dict[tuple[int, int], KyutaiOutput]()
        module = KyutaiModule(net, KyutaiSettings(DELAY, 2, (1.0, 1.5, 2.0)), speakers, slots, None)
        for step in range(DELAY + 12):
            for group in groups:
                inputs = [KyutaiInput(step, step, step >= DELAY, PAD, 4, row % 2, 1.5, 0.5, 7 + row) for row in group]
                for row, output in zip(group, module.run(slots, [(row,) for row in group], inputs), strict=True):
                    outputs[row, step] = output
        found.append([outputs[key] for key in sorted(outputs)])
    for together, alone, mixed in zip(*found, strict=True):
        assert together.p_word == alone.p_word == mixed.p_word and together.begins == alone.begins == mixed.begins
        assert np.array_equal(together.codes, alone.codes) and np.array_equal(together.codes, mixed.codes)
    assert len({tuple(one.codes) for one in found[0]}) > 20


def test_sentences_and_i_have_capitals() -> None:
    words = "it's late. i know, i'm in italy. in it?".split()
    cased = [sentence_case(word, before) for before, word in pairwise(["", *words])]
    assert " ".join(cased) == "It's late. I know, I'm in italy. In it?"
    read = list[str]()
    model = KyutaiModel(DELAY, TINY.delays[1:], SIZE, 0, (1.0,))
    row = KyutaiRow(RowSetup((0,), TIME_BASE, 0, OPTIONS, 0.0, 1), model, lambda word: [read.append(word) or 7])
    row.commit(words[:2])
    row.next_input()
    row.commit(words[2:])
    row.next_input()
    assert read == cased
