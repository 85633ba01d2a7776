"""Text of the first segment is read while its other words are awaited, and nobody hears a difference."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch
from engine.families.test_speakstream_row import LIMITS, SILENCE, output
from listening import Listener, is_consistent, tiny_engine
from serve.serving import eventually
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.traces.trace import Trace
from studio.engine.engine import LocalEngine
from studio.engine.families.speakstream.policy import ReadAheadInput, SegmentPrefill, spell
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.runner import SpeakStreamSlots
from studio.engine.nets.cpu.decoder import EXACT_TOKENS

WORDS = "seven old ships went out beyond the harbour".split()
OPTIONS = {"scheme": "S1", "m": 5, "n": 1}


# --- the row by table ------------------------------------------------------------------------------


def a_row(tokens: int = 64, **options: Any) -> SpeakStreamRow:
    return SpeakStreamRow(row_setup(OPTIONS | options), LIMITS, SILENCE, tokens)


def ahead(row: SpeakStreamRow) -> ReadAheadInput:
    """What is to be read ahead, and is."""
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "read" and row.next_input() is next_input, (
        "asking twice changes nothing"
    )
    assert not len(row.on_output(None).frames)
    return next_input.inputs


def prefill(row: SpeakStreamRow) -> SegmentPrefill:
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "prefill"
    return next_input.inputs


def spelt(*words: str) -> list[int]:
    return [symbol for word in words for symbol in spell(word)]


def test_words_are_read_as_they_come_and_the_segment_feeds_the_rest() -> None:
    row = a_row()
    assert row.next_input() is None
    for k, word in enumerate(WORDS[:4]):
        row.commit([word])
        read = ahead(row)
        assert (read.at, read.symbols, read.speaker) == (len(spelt(*WORDS[:k])), spelt(word), 1)
        assert row.next_input() is None and row.checkpoint() is not None
    row.commit([WORDS[4]])
    whole = prefill(row)
    assert whole.known == len(spelt(*WORDS[:4])) and whole.at == 0
    assert whole.segments[0].symbols == spelt(*WORDS[:5]) and whole.tokens == len(spelt(*WORDS[:5])) + 1 + 10
    row.on_output(output())
    row.next_input()
    row.on_output(output(0.9))
    row.commit([])
    assert row.next_input() is None, "later segments wait for their words"


def test_a_plan_that_can_be_run_is_not_put_off_for_what_could_be_read_ahead() -> None:
    row = a_row()
    row.commit(WORDS[:2])
    assert row.next_input().module == "read"
    row.commit(WORDS[2:])
    assert prefill(row).known == 0


def test_other_words_or_fewer_keep_what_they_have_in_common() -> None:
    row = a_row()
    row.commit(["seven", "old", "ships"])
    ahead(row)
    row.rewrite(1, ["odd", "ships"])
    assert row.next_input() is None, "nothing is read ahead of a text that changes"
    row.commit(["went", "out"])
    assert prefill(row).known == len(spelt("seven")) + 1
    fewer = a_row()
    fewer.commit(["seven", "old", "ships"])
    ahead(fewer)
    fewer.set_options(OPTIONS | {"m": 2}, None)
    assert prefill(fewer).known == len(spelt("seven", "old"))
    other = a_row()
    other.commit(["seven", "old"])
    ahead(other)
    other.rewrite(0, ["x"])
    other.end()
    assert prefill(other).known == 0


def test_it_ends_where_a_stretch_is_no_longer_exact() -> None:
    row = a_row(tokens=10)
    row.commit(WORDS[:4])
    assert ahead(row).symbols == spelt(*WORDS[:4])[:10]
    assert row.next_input() is None
    row.commit(WORDS[4:])
    assert prefill(row).known == 10


def test_nothing_is_read_ahead_unless_it_is_asked_for() -> None:
    row = a_row(tokens=0)
    row.commit(WORDS[:4])
    assert row.next_input() is None


# --- in the engine ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")  # elsewhere nothing is read ahead
        with closing(tiny_engine(tmp_path_factory.mktemp("voices"))) as engine:
            yield engine


@pytest.fixture
def read(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many symbols each run read ahead."""
    counts: list[int] = []
    module = engine.voice(engine.cards()[0].name).family.modules["read"]
    really = module._prefill

    def read_ahead(slots: SpeakStreamSlots, slot: int, given: ReadAheadInput) -> None:
        counts.append(len(given.symbols))
        really(slots, slot, given)

    monkeypatch.setattr(module, "_prefill", read_ahead)
    return counts


def whole(engine: LocalEngine, text: str, options: dict[str, Any]) -> Trace:
    listener = Listener(engine, options)
    listener.utterance.push_text(text)
    listener.utterance.end()
    return listener.rest()


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS | {"scheme": "S2", "m": 6}, OPTIONS | {"m": 6, "n": 3}])
@pytest.mark.parametrize("words", [WORDS, ["constantinople"] * 8])
def test_typed_word_by_word_it_has_the_samples_of_the_whole_text(
    engine: LocalEngine, read: list[int], options: dict[str, Any], words: list[str]
) -> None:
    text = " ".join(words)
    wanted = whole(engine, text, options)
    del read[:]  # the end of a text may come a turn after its words
    listener = Listener(engine, options)
    for k, word in enumerate(words):
        listener.utterance.push_text(word if k == len(words) - 1 else f"{word} ")
        if k < options["m"] - 1:
            listener.until(ev.Committed)
            due = min(EXACT_TOKENS, len(spelt(*words[: k + 1])))
            eventually(lambda due=due: sum(read) >= due, f"what was typed of {word}, read")
    listener.utterance.end()
    found = listener.rest()
    is_consistent(found)
    assert np.array_equal(found.pcm, wanted.pcm)
    assert sum(read) == min(EXACT_TOKENS, len(spelt(*words[: options["m"] - 1])))


def test_a_word_revised_before_it_is_spoken_was_never_read(engine: LocalEngine, read: list[int]) -> None:
    wanted = whole(engine, "seven odd ships went out", OPTIONS)
    del read[:]
    listener = Listener(engine, OPTIONS)
    listener.utterance.push_text("seven old ships ")
    eventually(lambda: sum(read), "what was typed, read")
    listener.utterance.revise(6, "odd ships went out")
    listener.utterance.end()
    assert np.array_equal(listener.rest().pcm, wanted.pcm)
