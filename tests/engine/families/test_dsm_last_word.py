"""DSM-TTS's row: how the last word of a text is read."""

import numpy as np
import pytest

from studio.core.time import TimeBase
from studio.engine.families.dsm.inputs import DsmOutput
from studio.engine.families.dsm.policy import DsmSymbols
from studio.engine.families.dsm.row import DsmDelays, DsmRow

FIRST_SYMBOL = 1000  # beyond every letter
DELAYS = DsmDelays(sound=5, acoustic=2, first_channels=10, look_ahead_words=2, context=30, longest_word=9, tail=2)


def spell(word: str) -> list[int]:
    return [ord(c) for c in word]


def a_row() -> DsmRow:
    base, symbols = TimeBase(24_000, 600, 300), DsmSymbols.after(FIRST_SYMBOL)
    return DsmRow((4, 7), DELAYS, base, symbols, spell, speaker=1, speakers=3, options={}, temperature=0.5, seed=9)


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
