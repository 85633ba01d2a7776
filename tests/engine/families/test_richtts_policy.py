"""RichTTS's policy without a net: the paper's sequence, pieces, word events, checkpoints."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite, RevisableRow
from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.richtts.policy import (
    MOST_WHOLE_WORDS,
    S_BOS,
    SYMBOLS,
    W_BOS,
    RichTtsInput,
    RichTtsOptions,
    RichTtsRow,
    symbols,
)
from studio.engine.families.speakstream.policy import W_EOS, spell

SILENCE = np.full((10, 80), 3, np.uint8)
TEXT = ["the", "rain", "stops,", "then", "sun", "shines."]


def a_row(**options: Any) -> RichTtsRow:
    given = {"mode": "ngram", "n": 2, **options}
    return RichTtsRow(row_setup(given), SILENCE, 4)


def output(p: float = 0.0, level: int = 7, is_finite: bool = True) -> FrameOutput:
    return FrameOutput(np.full((1, 80), level, np.uint8), p, is_finite)


def read(row: RichTtsRow) -> tuple[RichTtsInput, list[ev.Event]]:
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "prefill" and row.next_input() is next_input
    row_output = row.on_output(output())
    assert len(row_output.frames) == 1
    return next_input.inputs, row_output.before


def speak(row: RichTtsRow, frames: int = 3) -> tuple[RichTtsInput, list[ev.Event]]:
    """Speak a piece of this many frames; returns its input and the events at its end."""
    piece, _ = read(row)
    for _ in range(frames - 1):
        assert row.next_input().module == "decode" and len(row.on_output(output()).frames) == 1
    row_output = row.on_output(output(p=0.9)) if row.next_input() else None
    assert row_output is not None and len(row_output.frames) == 0 and row_output.is_clause_end
    return piece, row_output.after


def cut(words: list[str], **options: Any) -> list[list[int]]:
    """The symbols of each piece of a text."""
    row, pieces = a_row(**options), []
    row.commit(words)
    row.end()
    while row.next_input() is not None:
        pieces.append([*speak(row)[0].symbols])
    assert row.is_finished
    return pieces


def test_all_the_text_then_all_the_speech_as_printed():
    """[w_bos, w_1, ..., w_t, w_eos, s_bos, s_1, ..., s_t, s_eos] (section III.B)."""
    characters = [symbol for word in TEXT for symbol in spell(word)]
    assert cut(TEXT, mode="whole") == [[W_BOS, *characters, W_EOS, S_BOS]]
    assert len({W_BOS, W_EOS, S_BOS}) == 3 and max(*characters, W_BOS, W_EOS) < S_BOS == SYMBOLS - 1


@pytest.mark.parametrize(
    ("n", "lengths"), [(1, [1] * 6), (2, [2, 2, 2]), (3, [3, 3]), (4, [4, 2]), (5, [5, 1]), (6, [6])]
)
def test_pieces_of_n_words_are_independent(n, lengths):
    """The columns of Table I: hops of 1 to 6 words."""
    at = np.cumsum([0, *lengths])
    assert cut(TEXT, n=n) == [symbols(TEXT[a:b]) for a, b in pairwise(at)]


def test_full_context_waits_for_the_end_of_the_text():
    row = a_row(mode="whole")
    for word in TEXT:
        row.commit([word])
        assert row.next_input() is None
    row.end()
    assert row.next_input() is not None
    assert RichTtsOptions("whole").look_ahead_words == MOST_WHOLE_WORDS - 1
    assert [RichTtsOptions("ngram", n).look_ahead_words for n in range(1, 7)] == [*range(6)]


def test_a_piece_waits_for_its_words_and_sees_no_more():
    row = a_row(n=3)
    row.commit(TEXT[:2])
    assert row.next_input() is None
    row.commit(TEXT[2:])
    piece, events = read(row)
    assert [*piece.symbols] == symbols(TEXT[:3])
    assert (piece.frame, piece.speaker, piece.seed) == (0, 1, 9)
    assert isinstance(events[0], ev.Segment) and events[0].words == events[0].seen == [0, 1, 2]


def test_a_long_text_is_split_to_fit_a_slot():
    first, second = cut(["a"] * (MOST_WHOLE_WORDS + 2), mode="whole")
    assert len(first) == 2 * MOST_WHOLE_WORDS + 3 and second == symbols(["a", "a"])


def test_a_flush_ends_the_piece():
    row = a_row(mode="whole")
    row.commit(TEXT[:1])
    row.flush()
    row.commit(TEXT[1:3])
    assert [*speak(row)[0].symbols] == symbols(TEXT[:1])
    assert row.next_input() is None and row.unspoken == 2


def test_words_inside_a_piece_are_estimated_by_characters():
    row = a_row(n=2)
    row.commit(["a", "stone"])
    _, events = speak(row, frames=8)
    words = [(one.type, one.i, one.sample, one.source) for one in events if not isinstance(one, ev.Eos)]
    assert words == [
        ("word_end", 0, 1200, "estimate"),
        ("word_start", 1, 1200, "estimate"),
        ("word_end", 1, 4800, "eos"),
    ]
    assert isinstance(events[-1], ev.Eos) and (events[-1].frame, events[-1].forced) == (8, False)


def test_the_frames_of_pieces_follow_each_other():
    row = a_row(n=2)
    row.commit(TEXT)
    assert [speak(row, frames)[0].frame for frames in (3, 5, 2)] == [0, 3, 8]


def test_a_piece_that_does_not_end_is_cut():
    row = a_row(n=1)
    row.commit(["rain"])
    read(row)
    for _ in range(3):
        row.next_input()
        row.on_output(output())
    row.next_input()
    row_output = row.on_output(output(p=0.1))
    assert row_output.after[-1].forced and row_output.after[-1].frame == 4 and len(row_output.before[0].levels) == 1


def test_checkpoints_between_pieces():
    row = a_row(n=2)
    assert isinstance(row, RevisableRow)
    row.commit(TEXT)
    speak(row)
    checkpoint = row.checkpoint()
    assert checkpoint is not None and (checkpoint.spoken, checkpoint.fed) == (2, 2)
    straight, _ = speak(row)
    row.restore(checkpoint)
    assert row.unspoken == 4
    again, _ = read(row)
    assert row.checkpoint() is None and again.symbols == straight.symbols and again.frame == straight.frame
    row.restore(checkpoint)
    row.rewrite(2, ["sun", "shines."])
    assert [*speak(row)[0].symbols] == symbols(["sun", "shines."])
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(2, [])
    row.discard_before(row.checkpoint())
    assert not row.can_restore(checkpoint)


def test_cancel_reports_the_last_frame_and_non_finite_outputs_raise():
    row = a_row(n=1)
    row.commit(["rain"])
    assert row.on_cancel() == []
    read(row)
    (last,) = row.on_cancel()
    assert last.first_frame == 0 and math.isnan(last.p_eos[0])
    row.next_input()
    with pytest.raises(NotFinite):
        row.on_output(output(is_finite=False))


@pytest.mark.parametrize(
    ("mode", "n", "message"),
    [
        ("both", 2, "mode cannot be 'both'; give one of whole, ngram"),
        ("ngram", 0, "from 1 to 6"),
        ("ngram", 7, "from 1 to 6"),
        ("ngram", True, "from 1 to 6"),
        ("ngram", "2", "from 1 to 6"),
    ],
)
def test_invalid_options_name_the_range(mode, n, message):
    with pytest.raises(BadOption, match=message):
        RichTtsOptions(mode, n)
