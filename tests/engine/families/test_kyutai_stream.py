"""Kyutai's rules of feeding text, and whole utterances, against Kyutai's own code (``make_kyutai_lm.py``)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import KyutaiLM, load_kyutai_lm
from studio.engine.families.kyutai.policy import NEW_WORD, PAD, KyutaiPolicy
from studio.engine.families.kyutai.stream import KyutaiStream

ORACLE = Path(__file__).parents[2] / "oracles" / "kyutai_lm"
TINY = KyutaiConfig.read_published(json.loads((ORACLE / "tiny.json").read_text()))
SPEECH: dict[str, Any] = json.loads((ORACLE / "speech.json").read_text())
SIZE = TINY.text_card + 1


@pytest.fixture(scope="module")
def net() -> KyutaiLM:
    return load_kyutai_lm(ORACLE / "tiny.safetensors", TINY, torch.float32)


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    return load_file(ORACLE / "reference.safetensors")


def new_policy(**other: int) -> KyutaiPolicy:
    return KyutaiPolicy(SIZE, **{"look_ahead": 2, "longest_pad": SPEECH["longest_pad"], **other})


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_utterance_is_kyutais(net: KyutaiLM, reference: dict[str, Tensor], row: int, is_late: bool) -> None:
    """Words committed at once, or each only when the stream would wait for it."""
    labels = {name: reference[name][[row]] for name in ("cfg", "control")}
    state = net.begin(reference["speakers"][[row]], reference["present"][[row]], labels)
    policy, words = new_policy(), [*SPEECH["words"][row]]
    stream = KyutaiStream(
        net, state, policy, delay_steps=SPEECH["delay_steps"], choose=lambda logits: logits.argmax(-1)
    )
    fed, feed = list[int](), policy.feed
    policy.feed = lambda wanted: fed.append(feed(wanted)) or fed[-1]  # pyright: ignore
    frames = list[Tensor]()
    while not stream.is_over:
        while words and not (is_late and policy.can_step):
            policy.commit(words.pop(0))
        if not words and not policy.can_step:
            policy.end()
        if (frame := stream.step()) is not None:
            frames.append(frame)
    expected, delay = reference["frames"][row], SPEECH["delay_steps"]
    end = int(reference["ends"][row])
    assert policy.end_step == end and policy.begun == reference[f"begun_{row}"].tolist()
    assert fed[:end] == reference["fed"][row, :end].tolist()
    assert len(frames) == end + 2, "four steps after the end, two of which the acoustic delay takes"
    assert torch.equal(torch.stack(frames, 1), expected[:, delay : delay + len(frames)])
    assert (expected[:, :delay] == -1).all() and not words


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
    policy.end()
    assert policy.can_step
    assert divmod(policy.feed(PAD), SIZE) == (1 + 6, PAD), "the third word, a token a step"
    assert divmod(policy.feed(PAD), SIZE) == (1 + 7, PAD)
    assert divmod(policy.feed(PAD), SIZE) == (0, PAD)


def test_a_word_begins_after_the_longest_pad_and_not_within_another() -> None:
    policy = new_policy(initial_pad=0, look_ahead=0)
    policy.commit([4, 5, 6])
    policy.commit([7])
    policy.end()
    fed = [policy.feed(NEW_WORD if step == 1 else PAD) for step in range(8)]
    assert fed == [NEW_WORD, 4, 5, 6, PAD, PAD, NEW_WORD, 7] and policy.begun == [0, 6]


def test_other_tokens_are_pads() -> None:
    policy = new_policy(look_ahead=0)
    policy.commit([4])
    policy.end()
    assert [policy.feed(9) for _ in range(3)] == [PAD, PAD, NEW_WORD], "after the initial two"
