"""DSM-TTS's grid of text, by table: the paper's own formulas, what waits for what, what options can be."""

from collections.abc import Sequence

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core.errors import BadOption
from studio.engine.families.dsm.policy import (
    OPTION_SPECS,
    DsmOptions,
    DsmOutput,
    DsmSymbols,
    TextStreams,
    lay_out,
    next_word,
)
from studio.engine.families.dsm.row import DsmDelays, DsmRow

PAD, WORD, MAIN, OTHER, END, NOTHING = range(100, 106)
SYMBOLS = DsmSymbols.after(100)
RATE_HZ = 12.5  # of the paper's frames


def test_symbols_follow_the_encoding():
    assert DsmSymbols(PAD, WORD, MAIN, OTHER, END, NOTHING) == SYMBOLS and SYMBOLS.count == 106


def test_a_word_at_the_step_of_its_time():
    """Section 3.1: i = floor(s f_r), Y_i = WORD, Y_(i+1) = x_1, Y_(i+2) = x_2 and so on; PAD elsewhere."""
    starts_s, words = [0.1, 0.65, 1.0], [[1, 2], [3], [4, 5, 6]]
    starts = [int(s * RATE_HZ) for s in starts_s]
    assert starts == [1, 8, 12]
    grid = lay_out(words, starts, None, 18, SYMBOLS, look_ahead=2)
    p = PAD
    assert grid.text == [p, WORD, 1, 2, p, p, p, p, WORD, 3, p, p, WORD, 4, 5, 6, p, p]


def test_the_look_ahead_stream_feeds_the_word_l_words_later():
    """Section 3.3: w_(i+l) while the text stream feeds w_i."""
    words = [[1, 2], [3], [4, 5, 6], [7]]
    grid = lay_out(words, [0, 4, 8, 12], 14, 16, SYMBOLS, look_ahead=2)
    p = PAD
    assert grid.text == [WORD, 1, 2, p, WORD, 3, p, p, WORD, 4, 5, 6, WORD, 7, END, p]
    assert grid.ahead == [4, 5, 6, p, 7, p, p, p, p, p, p, p, p, p, p, p]


def test_the_action_says_what_the_next_token_is():
    """ "Whether the next input text token will be a WORD token or not"; it is not asked while a word is fed."""
    grid = lay_out([[1, 2], [3], [4]], [0, 4, 7], 10, 12, SYMBOLS, look_ahead=1)
    assert grid.text == [WORD, 1, 2, PAD, WORD, 3, PAD, WORD, 4, PAD, END, PAD]
    assert grid.action == [-1, -1, 0, 1, -1, 0, 1, -1, 0, 1, -1, -1]


def test_a_word_waits_until_the_one_before_it_was_fed():
    grid = lay_out([[1, 2, 3, 4], [5], [6]], [0, 2, 9], 10, 12, SYMBOLS, look_ahead=2)
    assert grid.text == [WORD, 1, 2, 3, 4, WORD, 5, PAD, PAD, WORD, 6, END]
    assert grid.action[:6] == [-1, -1, -1, -1, 1, -1]


def test_a_long_look_ahead_is_fed_to_its_end():
    """The next word's look-ahead follows it a little later; nothing is left out."""
    grid = lay_out([[1], [2], [3, 4, 5, 6], [7]], [0, 2, 4, 9], None, 12, SYMBOLS, look_ahead=2)
    assert [one for one in grid.ahead if one != PAD] == [3, 4, 5, 6, 7]


def test_training_and_speaking_feed_alike():
    words, starts = [[1, 2], [3], [4, 5, 6], [7]], [0, 4, 8, 13]
    grid = lay_out(words, starts, 17, 20, SYMBOLS, look_ahead=2)
    streams, fed, i = TextStreams(SYMBOLS), [], 0
    for step in range(20):
        if step in starts:
            assert not streams.is_feeding
            streams.word(words[i], words[i + 2] if i + 2 < len(words) else ())
            i += 1
        elif step == 17:
            streams.end()
        fed.append(streams.step())
    assert fed == [*zip(grid.text, grid.ahead, strict=True)]


@pytest.mark.parametrize(
    ("spoken", "committed", "ended", "flushed", "wanted"),
    [
        (0, 2, False, 0, None),  # l + 1 words are needed
        (0, 3, False, 0, "word"),
        (0, 1, True, 0, "word"),  # or the end
        (3, 5, False, 0, None),
        (3, 6, False, 0, "word"),
        (3, 3, False, 0, None),
        (3, 3, True, 0, "close"),
        (2, 3, False, 3, "word"),  # a flush is an end
        (3, 3, False, 3, "close"),
        (3, 4, False, 3, "close"),  # what came after it cannot be fed yet
        (3, 6, False, 3, "word"),
        (3, 4, True, 3, "word"),
        (4, 4, True, 3, "close"),
    ],
)
def test_what_follows(spoken, committed, ended, flushed, wanted):
    assert next_word(spoken, committed, 2, ended=ended, flushed=flushed) == wanted


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"guidance": 0.5}, "guidance 0.5 is not allowed; it is from 1 to 3"),
        ({"guidance": float("nan")}, "guidance nan is not allowed"),
        ({"turn": "nobody"}, "there is no turn 'nobody'; it is main or other"),
        ({"turn": "other"}, "there is no other speaker; choose one by other_speaker"),
        ({"other_speaker": 3}, "no speaker 3; other_speaker is from 1 to 2"),
        ({"other_speaker": True}, "no speaker True"),
    ],
)
def test_options_that_cannot_be(wrong, told):
    with pytest.raises(BadOption, match=told):
        DsmOptions.reader(2)(**wrong)


def test_options_have_the_defaults_of_their_specs():
    assert DsmOptions.reader(2)() == DsmOptions(**{spec.name: spec.default for spec in OPTION_SPECS})


# ---------------------------------------------------------------- the last word of a text


FIRST_SYMBOL = 1000  # beyond every letter
DELAYS = DsmDelays(sound=5, acoustic=2, first_channels=10, look_ahead_words=2, context=30, longest_word=9, tail=2)


def spell(word: str, before: Sequence[str] = ()) -> list[int]:
    return [ord(c) for c in word]


def a_row() -> DsmRow:
    return DsmRow(row_setup({}, (4, 7)), DELAYS, DsmSymbols.after(FIRST_SYMBOL), spell, speakers=3)


def read(row: DsmRow) -> str:
    """What is fed until it wants nothing more, letter by letter."""
    fed = ""
    while (next_input := row.next_input()) is not None:
        at = next_input.inputs.at
        row.on_output(DsmOutput(np.zeros(80, np.uint8), 0.5, at % 4 == 3, True))
        fed += chr(next_input.inputs.text) if next_input.inputs.text < FIRST_SYMBOL else ""
    return fed


@pytest.mark.parametrize(("last", "said"), [("b", "b."), ("b!", "b!"), ("b,", "b,")])
def test_it_is_closed_by_a_full_stop_where_it_has_no_mark(last: str, said: str):
    row = a_row()
    row.commit(["a", last])
    row.end()
    assert read(row) == "a" + said


def test_a_word_that_was_flushed_is_read_alike_whether_the_end_is_known_or_not():
    late, early = a_row(), a_row()
    for row in (late, early):
        row.commit(["a"])
        row.flush()
    early.end()
    assert read(early) == read(late) == "a"
