"""Incremental Tacotron 2's rule and row by table: clauses, chunks, words and marks, without a net."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite, RevisableRow
from studio.engine.families.common.text_tokens import END, spell
from studio.engine.families.tacotron.policy import (
    MOST_WHOLE_WORDS,
    TacotronChunk,
    TacotronClause,
    TacotronFrames,
    TacotronOptions,
    TacotronRow,
    prosody_of,
    repeat_by_symbol,
)

SILENCE = np.full((10, 80), 3, np.uint8)
SAID = {"the": "ðə", "rain": "ɹˈAn", "stops,": "stˈɑps,", "then": "ðˈɛn", "sun": "sˈʌn", "shines.": "ʃˈInz."}
TEXT = [*SAID]


def pronounce(words: Sequence[str]) -> list[str]:
    return [SAID.get(word, "ə") for word in words]


def a_row(**options: Any) -> TacotronRow:
    given = {"mode": "incremental", "clause_words": 4, "chunk_frames": 3, **options}
    return TacotronRow(row_setup(given), SILENCE, 4, pronounce)


def made(
    count: int, *, at: Sequence[int] = (), p: float = 0.0, level: int = 7, is_finite: bool = True
) -> TacotronFrames:
    """Frames; the attention is where ``at`` says, at the first symbol unless told; ``p`` is of the last one."""
    attended = np.array([*at] or [0] * count, np.int64)
    return TacotronFrames(
        np.full((count, 80), level, np.uint8), ([0.0] * (count - 1) + [p])[:count], attended, is_finite
    )


def encoded(row: TacotronRow) -> TacotronClause:
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "encode" and row.next_input() is next_input
    turn = row.on_output(None)
    assert len(turn.frames) == 0 and not turn.before and not turn.after
    return next_input.inputs


def decoded(row: TacotronRow, found: TacotronFrames) -> tuple[int, list[ev.Event], list[ev.Event]]:
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "decode" and row.next_input() is next_input
    assert len(found.levels) <= next_input.inputs.frames
    turn = row.on_output(found)
    return len(turn.frames), turn.before, turn.after


def speak_clause(row: TacotronRow, frames: int = 2) -> TacotronClause:
    clause = encoded(row)
    decoded(row, made(frames, p=0.9))
    return clause


def test_a_clause_is_read_whole_and_nothing_beyond_it():
    row = a_row()
    row.commit(TEXT[:2])
    assert row.next_input() is None, "it may still grow"
    row.commit(TEXT[2:5])
    first = encoded(row)
    spelled = [spell(SAID[word]) for word in TEXT[:3]]
    assert [*first.symbols] == [symbol for word in spelled for symbol in word] + [END]
    assert (first.frame, first.speaker, first.seed, first.temperature) == (0, 1, 9, 0.5)
    assert len(first.prosody) == len(first.symbols) and np.array_equal(first.last, SILENCE[-1])
    assert row.next_input() is not None and row.next_input().inputs == TacotronChunk(3)


@pytest.mark.parametrize("mode", ["incremental", "whole"])
def test_a_chunk_is_made_a_few_frames_at_a_time_and_heard_whole(mode):
    """Whatever the chunk, others wait in a turn for four frames at most."""
    row = a_row(mode=mode, chunk_frames=10)
    row.commit(["the", "rain", "then", "sun"])
    row.end()
    encoded(row)
    heard, asked = [], []
    while (next_input := row.next_input()) is not None:
        asked.append(next_input.inputs.frames)
        heard.append(decoded(row, made(next_input.inputs.frames))[0])
    incremental = ([4, 4, 2, 4, 2], [0, 0, 10, 0, 6])  # four words of four frames are cut
    whole = ([4, 4, 4, 4, 0], [0, 0, 0, 10, 6])
    assert (asked, heard) == (incremental if mode == "incremental" else whole)


def test_the_next_clause_begins_with_the_frame_before_it():
    row = a_row()
    row.commit(TEXT)
    row.end()
    speak_clause(row)
    second = speak_clause(row)
    assert second.frame == 2 and (second.last == 7).all()
    assert row.is_finished and row.unspoken == 0


def test_live_text_is_cut_after_so_many_words():
    row = a_row(clause_words=2)
    row.commit(["the", "rain", "then"])
    assert len(speak_clause(row).symbols) == len(spell(SAID["the"])) + len(spell(SAID["rain"])) + 1
    assert row.next_input() is None and row.unspoken == 1
    row.flush()
    assert len(speak_clause(row).symbols) == len(spell(SAID["then"] + ".")) + 1


@pytest.mark.parametrize("options", [{}, {"mode": "whole"}])
@pytest.mark.parametrize("close", [TacotronRow.end, TacotronRow.flush])
def test_speech_comes_to_rest_where_the_text_ends_without_a_mark(options, close):
    row = a_row(**options)
    row.commit(["the", "rain"])
    close(row)
    clause = encoded(row)
    assert [*clause.symbols] == [*spell(SAID["the"]), *spell(SAID["rain"] + "."), END]
    assert clause.prosody[-1] == prosody_of(SAID["rain"] + ".") == 7


def test_a_mark_that_is_there_is_kept_and_a_clause_that_is_cut_goes_on():
    row = a_row(clause_words=2)
    row.commit(["then", "stops,", "the", "sun"])  # whether the text ends after "sun" is not known when it is cut
    row.end()
    assert [*speak_clause(row).symbols] == [*spell(SAID["then"]), *spell(SAID["stops,"]), END]
    assert [*speak_clause(row).symbols] == [*spell(SAID["the"]), *spell(SAID["sun"]), END]


def test_words_after_a_flush_are_of_another_clause():
    row = a_row()
    row.commit(["the"])
    row.flush()
    row.commit(["rain", "stops,"])
    assert len(speak_clause(row).symbols) == len(spell(SAID["the"] + ".")) + 1
    assert len(speak_clause(row).symbols) == len(spell(SAID["rain"])) + len(spell(SAID["stops,"])) + 1


def test_chunks_words_and_the_stop_token():
    row = a_row()
    row.commit(TEXT[:3])
    encoded(row)
    ends = np.cumsum([len(spell(SAID[word])) for word in TEXT[:3]])
    count, before, after = decoded(row, made(3, at=[0, ends[0] - 1, ends[0]]))
    assert count == 3 and after == []
    (segment,) = [one for one in before if isinstance(one, ev.Segment)]
    assert (segment.words, segment.seen, segment.sample, segment.frame) == ([0, 1, 2], [0, 1, 2], 0, 0)
    assert row.checkpoint() is None, "within a clause"
    count, more, after = decoded(row, made(2, at=[ends[1], ends[2]], p=0.7))
    told = [one for one in [*before, *more, *after] if isinstance(one, ev.WordStart | ev.WordEnd)]
    assert [(one.type, one.i, one.sample, one.source) for one in told] == [
        ("word_start", 0, 0, "attention"),
        ("word_end", 0, 1200, "attention"),
        ("word_start", 1, 1200, "attention"),
        ("word_end", 1, 1800, "attention"),
        ("word_start", 2, 1800, "attention"),
        ("word_end", 2, 3000, "attention"),
    ]
    frames = [one for one in [*before, *more] if isinstance(one, ev.Frames)]
    assert [(one.first_frame, len(one.p_eos), one.p_eos[-1]) for one in frames] == [(0, 3, 0.0), (3, 2, 0.7)]
    (over,) = [one for one in after if isinstance(one, ev.Eos)]
    assert (over.frame, over.p, over.forced) == (5, 0.7, False)
    assert row.on_cancel() == []


def test_words_that_the_attention_never_reached_share_what_is_left():
    row = a_row()
    row.commit(TEXT[:3])
    encoded(row)
    decoded(row, made(3))
    _, _, after = decoded(row, made(2, p=0.9))
    ends = [(one.i, one.source) for one in after if isinstance(one, ev.WordEnd)]
    assert ends == [(0, "estimate"), (1, "estimate"), (2, "attention")]


def test_a_clause_that_does_not_end_is_cut():
    row = a_row()
    row.commit(["stops,"])
    encoded(row)
    decoded(row, made(3))
    assert row.next_input().inputs == TacotronChunk(1), "four frames for a word"
    _, _, after = decoded(row, made(1))
    (over,) = [one for one in after if isinstance(one, ev.Eos)]
    assert over.forced and over.frame == 4


def test_of_the_twin_nothing_is_heard_before_the_last_frame():
    row = a_row(mode="whole")
    row.commit(TEXT)
    assert row.next_input() is None, "all the text is one request"
    row.end()
    clause = encoded(row)
    assert len(clause.symbols) == sum(len(spell(SAID[word])) for word in TEXT) + 1
    assert decoded(row, made(3)) == (0, [], []) and decoded(row, made(3)) == (0, [], [])
    heard = [decoded(row, made(1, p=0.6)), *(decoded(row, made(0)) for _ in range(2))]
    assert [count for count, _, _ in heard] == [3, 3, 1], "then it is heard, a chunk at a time: a listener has credit"
    assert isinstance(heard[0][1][0], ev.Segment) and isinstance(heard[2][2][-1], ev.Eos) and row.is_finished
    frames = [one.first_frame for _, before, _ in heard for one in before if isinstance(one, ev.Frames)]
    assert frames == [0, 3, 6] and [after for _, _, after in heard[:2]] == [[], []]


def test_the_twin_cuts_what_no_slot_would_hold():
    row = a_row(mode="whole")
    row.commit(["a"] * (MOST_WHOLE_WORDS + 1))
    assert len(encoded(row).symbols) == 2 * MOST_WHOLE_WORDS + 1


def test_marks_lie_between_clauses_and_lead_back():
    row = a_row()
    assert isinstance(row, RevisableRow)
    row.commit(TEXT)
    first = row.checkpoint()
    assert first is not None
    speak_clause(row)
    second = row.checkpoint()
    assert second is not None and (second.spoken, second.fed) == (3, 3)
    straight = encoded(row)
    assert (row.spoken, row.fed) == (6, 6)
    row.restore(second)
    assert row.checkpoint() == second and row.unspoken == 3
    again = encoded(row)
    assert (again.symbols, again.frame) == (straight.symbols, 2) and np.array_equal(again.last, straight.last)
    row.restore(second)
    row.discard_before(second)
    assert row.can_restore(second) and not row.can_restore(first)
    row.rewrite(3, ["sun", "shines."])
    assert encoded(row).symbols[-2:] == [*spell(SAID["shines."])[-1:], END] and row.spoken == 5
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(3, [])


def test_a_clause_that_was_only_wanted_may_be_written_anew():
    row = a_row()
    row.commit(TEXT[:3])
    before = row.next_input()
    row.rewrite(1, ["sun", "stops,"])
    after = row.next_input()
    assert before is not None and after is not None and before.inputs.symbols != after.inputs.symbols


def test_what_is_no_number_ends_it():
    for wrong in (made(2, p=math.nan), made(2, is_finite=False)):
        row = a_row()
        row.commit(TEXT[:3])
        encoded(row)
        row.next_input()
        with pytest.raises(NotFinite):
            row.on_output(wrong)


def test_options_hold_from_the_next_clause_on():
    row = a_row()
    row.commit(TEXT)
    row.end()
    encoded(row)
    row.set_options({"mode": "incremental", "clause_words": 1, "chunk_frames": 1}, 0.9)
    assert row.next_input().inputs == TacotronChunk(3)
    decoded(row, made(1, p=0.9))
    assert encoded(row).temperature == 0.9 and row.next_input().inputs == TacotronChunk(1) and row.spoken == 4


@pytest.mark.parametrize(
    "wrong", [{"mode": "half"}, {"clause_words": 0}, {"clause_words": 21}, {"clause_words": True}, {"chunk_frames": 33}]
)
def test_options_that_cannot_be(wrong):
    with pytest.raises(BadOption):
        TacotronOptions(**wrong)


def test_the_prosodic_structure_of_words():
    assert [prosody_of(SAID[word]) for word in TEXT] == [0, 1, 3, 1, 1, 7]
    assert prosody_of("") == 0 and prosody_of(",") == 2
    assert repeat_by_symbol([0, 3], [[9], [8, 7]]) == [0, 3, 3, 3], "the end has the last word's"


def test_a_text_that_is_read_again_has_not_ended_yet() -> None:
    """Its end comes with the rest of it; a clause that was cut at what was read so far would be another one."""
    row = a_row()
    row.commit(TEXT[:2])
    row.end()
    row.rewrite(1, [])
    row.commit(["rain"])
    assert row.next_input() is None and not row.is_finished
    row.end()
    assert encoded(row).symbols[-1] == END
