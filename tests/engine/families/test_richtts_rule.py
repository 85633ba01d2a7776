"""RichTTS's rule and row by table: the paper's sequence, pieces of n words, words, marks, without a net."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.time import TimeBase
from studio.engine.families.base import NotFinite, Revisable
from studio.engine.families.drawn import Drawn
from studio.engine.families.richtts.row import Piece, RichTtsRow
from studio.engine.families.richtts.rule import MOST_WHOLE_WORDS, S_BOS, SYMBOLS, W_BOS, Options, symbols
from studio.engine.families.speakstream.rule import W_EOS, spell

SILENCE = np.full((10, 80), 3, np.uint8)
TEXT = ["the", "rain", "stops,", "then", "sun", "shines."]


def a_row(**options: Any) -> RichTtsRow:
    given = {"mode": "ngram", "n": 2, **options}
    base = TimeBase(24_000, 600, 300)
    return RichTtsRow((5,), base, SILENCE, 4, speaker=1, options=given, temperature=0.5, seed=9)


def drawn(p: float = 0.0, level: int = 7, is_finite: bool = True) -> Drawn:
    return Drawn(np.full((1, 80), level, np.uint8), p, is_finite)


def read(row: RichTtsRow) -> tuple[Piece, list[ev.Event]]:
    want = row.want()
    assert want is not None and want.module == "prefill" and row.want() is want
    turn = row.took(drawn())
    assert len(turn.frames) == 1
    return want.inputs, turn.before


def speak(row: RichTtsRow, frames: int = 3) -> tuple[Piece, list[ev.Event]]:
    """A piece of so many frames to its end: what was read, and what was told at the end."""
    piece, _ = read(row)
    for _ in range(frames - 1):
        assert row.want().module == "decode" and len(row.took(drawn()).frames) == 1
    turn = row.took(drawn(p=0.9)) if row.want() else None
    assert turn is not None and len(turn.frames) == 0 and turn.is_request_end
    return piece, turn.after


def cut(words: list[str], **options: Any) -> list[list[int]]:
    """What each piece of a text that has ended feeds."""
    row, found = a_row(**options), []
    row.commit(words)
    row.end()
    while row.want() is not None:
        found.append([*speak(row)[0].symbols])
    assert row.over
    return found


def test_all_the_text_then_all_the_speech_as_printed():
    """[w_bos, w_1, ..., w_t, w_eos, s_bos, s_1, ..., s_t, s_eos] (section III.B)."""
    characters = [symbol for word in TEXT for symbol in spell(word)]
    assert cut(TEXT, mode="whole") == [[W_BOS, *characters, W_EOS, S_BOS]]
    assert len({W_BOS, W_EOS, S_BOS}) == 3 and max(*characters, W_BOS, W_EOS) < S_BOS == SYMBOLS - 1


@pytest.mark.parametrize(
    ("n", "lengths"), [(1, [1] * 6), (2, [2, 2, 2]), (3, [3, 3]), (4, [4, 2]), (5, [5, 1]), (6, [6])]
)
def test_pieces_of_n_words_are_texts_of_their_own(n, lengths):
    """The columns of Table I: hops of 1 to 6 words, each begun and ended as a whole text is."""
    at = np.cumsum([0, *lengths])
    assert cut(TEXT, n=n) == [symbols(TEXT[a:b]) for a, b in pairwise(at)]


def test_full_context_waits_for_the_end_of_the_text():
    row = a_row(mode="whole")
    for word in TEXT:
        row.commit([word])
        assert row.want() is None
    row.end()
    assert row.want() is not None
    assert Options("whole").look_ahead_words == MOST_WHOLE_WORDS - 1
    assert [Options("ngram", n).look_ahead_words for n in range(1, 7)] == [*range(6)]


def test_a_piece_is_read_when_its_words_are_there_and_nothing_beyond_it():
    row = a_row(n=3)
    row.commit(TEXT[:2])
    assert row.want() is None
    row.commit(TEXT[2:])
    piece, told = read(row)
    assert [*piece.symbols] == symbols(TEXT[:3])
    assert (piece.start, piece.at, piece.frame, piece.speaker, piece.seed) == (0, 0, 0, 1, 9)
    assert isinstance(told[0], ev.Segment) and told[0].words == told[0].seen == [0, 1, 2]


def test_a_long_text_is_read_in_parts_that_fit_a_slot():
    first, second = cut(["a"] * (MOST_WHOLE_WORDS + 2), mode="whole")
    assert len(first) == 2 * MOST_WHOLE_WORDS + 3 and second == symbols(["a", "a"])


def test_a_flush_ends_the_piece_where_it_stands():
    row = a_row(mode="whole")
    row.commit(TEXT[:1])
    row.flush()
    row.commit(TEXT[1:3])
    assert [*speak(row)[0].symbols] == symbols(TEXT[:1])
    assert row.want() is None and row.unspoken == 2


def test_words_inside_a_piece_share_it_by_their_characters_and_say_so():
    row = a_row(n=2)
    row.commit(["a", "stone"])
    _, told = speak(row, frames=8)
    words = [(one.type, one.i, one.sample, one.source) for one in told if not isinstance(one, ev.Eos)]
    assert words == [
        ("word_end", 0, 1200, "estimate"),
        ("word_start", 1, 1200, "estimate"),
        ("word_end", 1, 4800, "eos"),
    ]
    assert isinstance(told[-1], ev.Eos) and (told[-1].frame, told[-1].forced) == (8, False)


def test_the_frames_of_pieces_follow_each_other():
    row = a_row(n=2)
    row.commit(TEXT)
    assert [speak(row, frames)[0].frame for frames in (3, 5, 2)] == [0, 3, 8]


def test_a_piece_that_does_not_end_is_cut():
    row = a_row(n=1)
    row.commit(["rain"])
    read(row)
    for _ in range(3):
        row.want()
        row.took(drawn())
    row.want()
    turn = row.took(drawn(p=0.1))
    assert turn.after[-1].forced and turn.after[-1].frame == 4 and len(turn.before[0].levels) == 1


def test_marks_lie_between_pieces_and_lead_back():
    row = a_row(n=2)
    assert isinstance(row, Revisable)
    row.commit(TEXT)
    speak(row)
    mark = row.mark()
    assert mark is not None and (mark.spoken, mark.fed) == (2, 2)
    straight, _ = speak(row)
    row.back(mark)
    assert row.unspoken == 4
    again, _ = read(row)
    assert row.mark() is None and again.symbols == straight.symbols and again.frame == straight.frame
    row.back(mark)
    row.rewrite(2, ["sun", "shines."])
    assert [*speak(row)[0].symbols] == symbols(["sun", "shines."])
    with pytest.raises(AssertionError, match="go back first"):
        row.rewrite(2, [])
    row.forget(row.mark())
    assert not row.holds(mark)


def test_what_is_cut_short_tells_its_last_frame_and_what_is_no_number_is_told():
    row = a_row(n=1)
    row.commit(["rain"])
    assert row.broken_off() == []
    read(row)
    (last,) = row.broken_off()
    assert last.first_frame == 0 and math.isnan(last.p_eos[0])
    row.want()
    with pytest.raises(NotFinite):
        row.took(drawn(is_finite=False))


@pytest.mark.parametrize(
    ("mode", "n", "told"),
    [
        ("both", 2, "mode cannot be 'both'.*it is whole or ngram"),
        ("ngram", 0, "from 1 to 6"),
        ("ngram", 7, "from 1 to 6"),
        ("ngram", True, "from 1 to 6"),
        ("ngram", "2", "from 1 to 6"),
    ],
)
def test_options_that_do_not_fit_say_what_is_allowed(mode, n, told):
    with pytest.raises(BadOption, match=told):
        Options(mode, n)
