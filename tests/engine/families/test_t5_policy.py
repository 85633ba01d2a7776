"""T5-TTS's policy without a net: sentences, chunks, word events, checkpoints."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite, RevisableRow, RowOutput
from studio.engine.families.common.text_tokens import END, spell
from studio.engine.families.s5.model import S5, S5Config
from studio.engine.families.s5.policy import S5Output, S5StepInput, SpeakerReference
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.t5.policy import MOST_WORDS, T5Options, T5Row

SILENCE = np.full((10, 80), 3, np.uint8)
NONE = SpeakerReference([], SILENCE[:0], [])
SAID = {"one": "wˈʌn", "two": "tˈu", "three.": "θɹˈi.", "four": "fˈɔɹ", "five.": "fˈIv.", "a": "ɐ"}
TEXT = ["one", "two", "three.", "four", "five."]


def pronounce(words: Sequence[str]) -> list[str]:
    return [SAID[word] for word in words]


def a_row(reference: SpeakerReference = NONE, **options: Any) -> T5Row:
    given = {"chunk_frames": 3, **options}
    return T5Row(row_setup(given), SILENCE, reference, 4, pronounce)


def output(at: int = 0, p_stop: float = 0.0, level: int = 7, is_finite: bool = True) -> S5Output:
    """A frame; the attention is at one encoder step."""
    shares = np.zeros(60, np.float32)
    shares[at] = 1.0
    return S5Output(np.full((1, 80), level, np.uint8), p_stop, shares, is_finite)


def speak(row: T5Row, frames: int, at: Sequence[int] = ()) -> tuple[S5StepInput, list[RowOutput]]:
    """Speak a sentence of this many frames; returns its input and all outputs. ``at``: where each frame attends."""
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "word" and row.next_input() is next_input
    outputs = [row.on_output(output(*at[:1], level=0))]
    for n in range(1, frames):
        assert row.next_input().module == "decode" and row.checkpoint() is None
        outputs.append(row.on_output(output(*at[n : n + 1], level=n)))
    row.next_input()
    outputs.append(row.on_output(output(p_stop=0.9, level=99)))
    return next_input.inputs, outputs


def events_of(outputs: Sequence[RowOutput]) -> list[ev.Event]:
    return [event for row_output in outputs for event in (*row_output.before, *row_output.after)]


def test_a_sentence_is_read_whole():
    row = a_row()
    for word in TEXT[:2]:
        row.commit([word])
        assert row.next_input() is None, "the sentence has not ended"
    row.commit(TEXT[2:4])
    step, _ = speak(row, 4)
    spelled = [spell(SAID[word]) for word in TEXT[:3]]
    assert [*step.symbols] == [*[i for word in spelled for i in word], END], "closed by its own end symbol"
    assert [*step.words] == [*[i for i, word in enumerate(spelled) for _ in word], 3]
    assert (step.start, step.at, step.begins, step.position, step.k) == (0, 0, True, 0, 0)
    assert np.array_equal(step.frames, SILENCE) and not step.spoken
    assert row.next_input() is None and row.unspoken == 1
    row.end()
    later, _ = speak(row, 2)
    assert [*later.symbols] == [*spell(SAID["four"]), END] and (later.frame, later.at) == (4, 0)
    assert row.is_finished


@pytest.mark.parametrize(
    ("chunk", "lengths"), [(1, [1, 1, 1, 1, 1, 1, 1, 0]), (3, [0, 0, 3, 0, 0, 3, 0, 1]), (14, [0] * 7 + [7])]
)
def test_frames_come_in_chunks_and_are_reported_once(chunk, lengths):
    """The n-th frame completes a chunk; its p comes with the next step."""
    row = a_row(chunk_frames=chunk)
    row.commit(TEXT[:3])
    _, outputs = speak(row, 7)
    assert [len(row_output.frames) for row_output in outputs] == lengths and outputs[-1].is_clause_end
    levels = np.concatenate([row_output.frames for row_output in outputs])
    assert levels[:, 0].tolist() == [*range(7)]
    frames = [one for one in events_of(outputs) if isinstance(one, ev.Frames)]
    assert [one.first_frame for one in frames] == [*np.cumsum([0] + [len(one.p_eos) for one in frames[:-1]])]
    assert np.array_equal(np.concatenate([one.levels for one in frames]), levels)
    assert [p for one in frames for p in one.p_eos] == [0.0] * 6 + [0.9]
    sent_frames = 0
    for row_output in outputs:
        sent_frames += len(row_output.frames)
        assert all(e.first_frame + len(e.levels) <= sent_frames for e in row_output.before if isinstance(e, ev.Frames))


def test_word_events_come_with_their_chunk():
    row = a_row(chunk_frames=4)
    row.commit(TEXT[:3])
    one, two = (len(spell(SAID[word])) for word in TEXT[:2])
    _, outputs = speak(row, 6, at=[0, 0, one, one, one, one + two])
    words = [
        (n, e.type, e.i, e.sample // 600, e.source)
        for n, row_output in enumerate(outputs)
        for e in (*row_output.before, *row_output.after)
        if isinstance(e, ev.WordStart | ev.WordEnd)
    ]
    assert words == [
        (3, "word_start", 0, 0, "attention"),
        (3, "word_end", 0, 2, "attention"),
        (3, "word_start", 1, 2, "attention"),
        (6, "word_end", 1, 5, "attention"),
        (6, "word_start", 2, 5, "attention"),
        (6, "word_end", 2, 6, "attention"),
    ]
    events = events_of(outputs)
    assert isinstance(events[0], ev.Segment) and events[0].words == events[0].seen == [0, 1, 2]
    assert isinstance(events[-1], ev.Eos) and (events[-1].frame, events[-1].forced) == (6, False)


def test_long_sentences_are_split_and_a_flush_ends_one():
    row = a_row(sentence_words=2)
    row.commit(TEXT[:3])
    assert [len(speak(row, 2)[0].symbols) for _ in range(2)] == [
        sum(len(spell(SAID[word])) for word in words) + 1 for words in (TEXT[:2], TEXT[2:3])
    ]
    row = a_row()
    row.commit(["one"])
    row.flush()
    row.commit(["two"])
    assert [*speak(row, 2)[0].symbols] == [*spell(SAID["one"]), END]
    assert row.next_input() is None and row.unspoken == 1
    assert T5Options().look_ahead_words == MOST_WORDS - 1


def test_a_reference_precedes_every_sentence():
    said = SpeakerReference([spell(SAID["a"]), spell(SAID["one"])], np.full((6, 80), 5, np.uint8), [])
    row = a_row(said, chunk_frames=1)
    row.commit([*TEXT])
    for sentence in (TEXT[:3], TEXT[3:]):
        before = [*said.spelled[0], *said.spelled[1]]
        first = len(before) + len(spell(SAID[sentence[0]]))
        step, outputs = speak(row, 3, at=[0, len(before), first])
        assert [*step.symbols][: len(before)] == before and step.words[len(before)] == 2
        assert np.array_equal(step.frames, np.concatenate((said.frames, SILENCE)))
        ends = [e.sample // 600 - step.frame for e in events_of(outputs) if isinstance(e, ev.WordEnd)]
        assert ends[0] == 2, "the sums of W_j include the reference"


def test_a_sentence_that_does_not_end_is_cut():
    row = a_row()
    row.commit(["one", "two"])
    row.end()
    sent, events = 0, []
    while row.next_input() is not None:
        row_output = row.on_output(output())
        sent, events = sent + len(row_output.frames), [*events, *row_output.before, *row_output.after]
    (end,) = [one for one in events if isinstance(one, ev.Eos)]
    assert end.forced and end.frame == sent == 8


def test_checkpoints_between_sentences():
    row = a_row()
    assert isinstance(row, RevisableRow)
    row.commit(TEXT)
    speak(row, 4)
    checkpoint = row.checkpoint()
    assert checkpoint is not None and (checkpoint.spoken, checkpoint.fed) == (3, 3)
    straight, first = speak(row, 5)
    row.restore(checkpoint)
    assert row.unspoken == 2
    again, second = speak(row, 5)
    assert (again.symbols, again.frame) == (straight.symbols, straight.frame)
    assert [e.type for e in events_of(first)] == [e.type for e in events_of(second)]
    row.restore(checkpoint)
    row.rewrite(3, ["one", "five."])
    assert [*speak(row, 2)[0].symbols][:4] == spell(SAID["one"])


def test_cancel_reports_all_sent_frames():
    row = a_row(chunk_frames=2)
    row.commit(TEXT[:3])
    reported_frames = 0
    for n in range(5):
        row.next_input()
        row_output = row.on_output(output(level=n))
        reported_frames += sum(len(e.levels) for e in row_output.before if isinstance(e, ev.Frames))
        sent = 2 * ((n + 1) // 2)
        rest = row.on_cancel()
        assert reported_frames + sum(len(e.levels) for e in rest) == sent, "only sent frames are reported"
        assert all(math.isnan(e.p_eos[0]) and e.first_frame == sent - 1 for e in rest)
    row.next_input()
    with pytest.raises(NotFinite):
        row.on_output(output(is_finite=False))


@pytest.mark.parametrize(
    "options", [{"sentence_words": 0}, {"sentence_words": 61}, {"chunk_frames": True}, {"chunk_frames": "14"}]
)
def test_invalid_options_name_the_range(options):
    with pytest.raises(BadOption, match=r"cannot be .*; give a whole number from 1 to 60"):
        T5Options(**options)


def test_sizes_equal_those_of_s5_without_masks():
    for name, most in (("paper", 163.2e6), ("small", 3e6), ("tiny", 1e6)):
        config = T5Config.named(name)
        with torch.device("meta"):
            net, beside = T5(config), S5(S5Config.named(name))
        dropped = sum(p.numel() for part in (beside.look_ahead, beside.aligner) for p in part.parameters())
        count = sum(p.numel() for p in net.parameters())
        assert count == sum(p.numel() for p in beside.parameters()) - dropped and count < most
        assert not (config.encoder_mask or config.decoder_mask)
    assert [a < b for a, b in pairwise([30 / 86.1, T5Options().chunk_frames * 0.025, 31 / 86.1])] == [True, True]
    with pytest.raises(BadOption, match="T5-TTS has no look-ahead masks"):
        T5Config(1, 1, 32, 2, 64, 2, encoder_mask=True)
