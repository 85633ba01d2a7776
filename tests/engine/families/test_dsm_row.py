"""DSM-TTS's row by table: steps and results without a net (the results are made up here)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite
from studio.engine.families.dsm.passage import DsmCheckpoint
from studio.engine.families.dsm.policy import DsmInput, DsmOutput, DsmSymbols
from studio.engine.families.dsm.row import DsmDelays, DsmRow

PAD, WORD, MAIN, OTHER, END, NOTHING = range(100, 106)
DELAYS = DsmDelays(sound=5, acoustic=2, first_channels=10, look_ahead_words=2, context=30, longest_word=9, tail=2)


def spell(word: str, before: Sequence[str] = ()) -> list[int]:
    """A token for every letter: a is 0. Marks have none."""
    return [ord(c) - ord("a") for c in word if c.isalpha()]


def a_row(delays: DsmDelays = DELAYS, speaker: int = 1, **options) -> DsmRow:
    return DsmRow(row_setup(options, (4, 7), speaker), delays, DsmSymbols.after(100), spell, speakers=3)


def drawn(step: int, begins: bool = False, is_finite: bool = True) -> DsmOutput:
    """Levels tell the step at which they were drawn."""
    return DsmOutput(np.full(80, step % 256, np.uint8), 0.75 if begins else 0.25, begins, is_finite)


def go_on(
    row: DsmRow, begins: Callable[[int], bool] = lambda step: step % 4 == 3, most: int = 400
) -> tuple[list[DsmInput], list[ev.Event], list[np.ndarray]]:
    """Run until it wants nothing: the steps, every event, and the frames made."""
    steps, events, frames = list[DsmInput](), list[ev.Event](), list[np.ndarray]()
    while len(steps) < most and (next_input := row.next_input()) is not None:
        assert row.next_input() is next_input, "asking twice changes nothing"
        assert next_input.module == ("warm" if next_input.inputs.groups == "none" else "decode")
        turn = row.on_output(drawn(next_input.inputs.at, begins(next_input.inputs.at)))
        steps.append(next_input.inputs)
        frames += [*turn.frames]
        events += [*turn.before, *turn.after]
    return steps, events, frames


def of(kind: type, events: list[ev.Event]) -> list:
    return [one for one in events if isinstance(one, kind)]


def test_it_waits_for_l_more_words():
    row = a_row()
    row.commit(["ab", "c"])
    assert row.next_input() is None and row.checkpoint() is not None and row.unspoken == 2
    row.commit(["d"])
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "warm"
    assert (next_input.inputs.text, next_input.inputs.ahead) == (WORD, 3)
    assert next_input.inputs.begins and next_input.inputs.speakers == (1,)


def test_the_streams_go_where_the_action_says():
    row = a_row()
    row.commit(["ab", "c", "d", "ef"])
    steps, _, frames = go_on(row)
    assert [one.text for one in steps] == [WORD, MAIN, 0, 1, WORD, 2, PAD, PAD]
    assert [one.ahead for one in steps] == [3, PAD, PAD, PAD, 4, 5, PAD, PAD]
    assert [one.groups for one in steps] == ["none"] * 5 + ["first"] * 2 + ["all"]
    assert len(frames) == 1, "and stands still: the third word lacks its look-ahead"
    assert not row.is_finished and row.checkpoint() is None and row.unspoken == 2
    row.commit(["g"])
    (first, *_), _, _ = go_on(row)
    assert (first.text, first.ahead, first.at) == (WORD, 6, 8)


def test_no_word_begins_within_another():
    row = a_row()
    row.commit(["abcdef", "a", "b"])
    row.end()
    steps, _, _ = go_on(row, lambda step: True)
    assert [one.text for one in steps][:13] == [WORD, MAIN, 0, 1, 2, 3, 4, 5, WORD, 0, WORD, 1, END]


def test_a_frame_is_put_together_from_two_steps():
    """The first group of frame f is drawn `sound` steps later, the others `acoustic` steps after that (section 3.3)."""
    row = a_row()
    row.commit(["a", "b", "c", "d"])
    row.end()
    _, events, frames = go_on(row)
    for f, frame in enumerate(frames):
        assert frame[:10].tolist() == [f + 5] * 10 and frame[10:].tolist() == [f + 7] * 70
    told = of(ev.Frames, events)
    assert [one.first_frame for one in told] == [*range(len(frames))]
    assert all(np.array_equal(one.levels[0], frame) for one, frame in zip(told, frames, strict=True))


def test_words_are_told_when_they_are_heard():
    row = a_row()
    row.commit(["a", "b", "c"])
    row.end()
    _, events, frames = go_on(row)
    assert [(one.i, one.sample // 600) for one in of(ev.WordStart, events)] == [(0, 0), (1, 4), (2, 8)]
    assert [(one.i, one.sample // 600) for one in of(ev.WordEnd, events)] == [(0, 4), (1, 8), (2, 12)]
    assert {one.source for one in of(ev.WordStart, events)} == {"action"}
    assert len(frames) == 12 + 2, "and a tail"
    assert [(one.frame, one.p, one.forced) for one in of(ev.Eos, events)] == [
        (4, 0.75, False),
        (8, 0.75, False),
        (14, 0.75, False),
    ]
    assert [one.p_eos for one in of(ev.Frames, events)][2:5] == [[0.25], [0.75], [0.0]], "0 while a word is fed"
    at = [type(one).__name__ for one in events]
    assert at[:3] == ["Segment", "WordStart", "Frames"] and at[-2:] == ["Frames", "Eos"]
    assert row.is_finished and row.next_input() is None


def test_a_segment_says_what_was_fed_before_its_first_sound():
    row = a_row()
    row.commit([*"abcdefgh"])
    row.end()
    _, events, _ = go_on(row)
    assert [one.seen for one in of(ev.Segment, events)][:3] == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert [one.frame for one in of(ev.Segment, events)] == [0, 4, 8, 12, 16, 20, 24, 28]


def test_a_word_that_does_not_end_is_ended():
    row = a_row()
    row.commit(["a", "b"])
    row.end()
    _, events, frames = go_on(row, lambda step: False)
    assert [(one.frame, one.forced) for one in of(ev.Eos, events)] == [(9, True), (20, True)]
    assert len(frames) == 20


def test_a_flush_closes_and_the_next_word_begins_anew():
    row = a_row()
    row.commit(["a", "b"])
    row.flush()
    steps, events, frames = go_on(row)
    assert [one.text for one in steps][8] == END and [one.i for one in of(ev.WordEnd, events)] == [0, 1]
    assert len(frames) == 8 + 2 and row.unspoken == 0 and not row.is_finished and row.checkpoint() is not None
    row.commit(["c"])
    assert row.next_input() is None
    row.commit(["d", "e"])
    row.end()
    again, events, more = go_on(row)
    assert again[0].begins and (again[0].text, again[1].text) == (WORD, MAIN)
    assert again[0].start == again[0].at == len(steps), "nothing of the passage before is remembered"
    assert of(ev.WordStart, events)[0].sample == 600 * len(frames)
    assert [one.index for one in of(ev.Segment, events)] == [2, 3, 4]
    assert sum(one.groups == "none" for one in again) == DELAYS.sound
    assert len(more) == [one.text for one in again].index(END) + DELAYS.tail


def test_words_that_follow_a_flush_at_once_do_not_hold_it_up():
    row = a_row()
    row.commit(["a", "b"])
    row.flush()
    row.commit(["c"])
    _, events, _ = go_on(row)
    assert [one.i for one in of(ev.WordEnd, events)] == [0, 1] and row.unspoken == 1


def test_the_oldest_steps_are_forgotten():
    row = a_row()
    row.commit([*"abcdefghijklmnop"])
    row.end()
    steps, _, _ = go_on(row)
    assert steps[10].start == 0 and steps[40].start == 41 - DELAYS.context
    assert all(a.start <= b.start for a, b in pairwise(steps))


def test_turns_are_told_where_they_change():
    row = a_row(other_speaker=3, turn="main")
    row.commit(["a", "b", "c"])
    steps, *_ = go_on(row)
    assert steps[0].speakers == (1, 2) and [one.text for one in steps][:3] == [WORD, MAIN, 0]
    row.set_options({"other_speaker": 3, "turn": "other"}, None)
    row.commit(["d", "e"])
    row.end()
    more, *_ = go_on(row)
    assert [one.text for one in more if one.text != PAD] == [WORD, OTHER, 1, WORD, 2, WORD, 3, WORD, 4, END]


def test_a_text_that_the_other_one_begins_is_what_it_is_to_the_other_one():
    """Training's sequences begin with MAIN: who begins is it."""

    def told(row: DsmRow, then: str) -> list[tuple[int, tuple[int, ...]]]:
        row.commit(["a", "b", "c"])
        begun, *_ = go_on(row)
        row.set_options({"other_speaker": row._options.other_speaker, "turn": then}, None)
        row.commit(["d"])
        row.end()
        return [(one.text, one.speakers) for one in (*begun, *go_on(row)[0])]

    found = told(a_row(other_speaker=3, turn="other"), "main")
    assert [text for text, _ in found if text != PAD] == [WORD, MAIN, 0, WORD, OTHER, 1, WORD, 2, WORD, 3, END]
    assert {speakers for _, speakers in found} == {(2, 1)}
    assert told(a_row(speaker=2, other_speaker=2, turn="main"), "other") == found


def test_options_of_a_stretch_wait_for_the_next():
    row = a_row(guidance=1.0)
    row.commit(["a", "b", "c"])
    go_on(row)
    row.set_options({"guidance": 2.0}, 0.9)
    row.flush()
    steps, *_ = go_on(row)
    assert {one.guidance for one in steps} == {1.0} and {one.temperature for one in steps} == {0.9}
    row.commit(["d"])
    row.end()
    steps, *_ = go_on(row)
    assert {one.guidance for one in steps} == {2.0}
    with pytest.raises(BadOption):
        row.check({"guidance": 9.0})


def test_back_to_a_mark():
    row = a_row()
    row.commit(["a"])
    row.flush()
    go_on(row)
    checkpoint = row.checkpoint()
    row.commit(["b", "c"])
    row.end()
    first = go_on(row)
    row.restore(checkpoint)
    row.rewrite(1, ["b", "c"])
    row.end()
    again = go_on(row)
    assert first[0] == again[0] and [*map(str, first[1])] == [*map(str, again[1])]
    assert all(np.array_equal(a, b) for a, b in zip(first[2], again[2], strict=True))


def until_mark(row: DsmRow, words: int) -> tuple[DsmCheckpoint, list[ev.Event], list[np.ndarray]]:
    """Go on until so many words are spoken; words begin every four steps."""
    events, frames = list[ev.Event](), list[np.ndarray]()
    while (checkpoint := row.checkpoint()) is None or checkpoint.spoken < words:
        _, more, made = go_on(row, most=1)
        events, frames = events + more, frames + made
    return checkpoint, events, frames


def test_marks_lie_where_the_sound_of_a_word_begins():
    row = a_row()
    row.commit([*"abcdefgh"])
    row.end()
    assert (row.checkpoint().spoken, row.checkpoint().fed) == (0, 0)
    found = []
    while not row.is_finished:
        go_on(row, most=1)
        if (checkpoint := row.checkpoint()) is not None:
            found.append((checkpoint.frames, checkpoint.spoken, min(checkpoint.fed, 99), checkpoint.at))
    assert found[:3] == [(0, 0, 4, 7), (4, 1, 5, 11), (8, 2, 6, 15)], "fed: those of the delay, and two ahead"
    assert found[-1] == (34, 8, 99, 41) and found[-2] == (28, 7, 99, 35), "the text's end is past every word"


def test_a_word_that_was_not_fed_is_another_from_a_mark_on():
    old, new = a_row(), a_row()
    old.commit([*"abcdefgh"])
    new.commit([*"abcdexyz"])
    checkpoint, *_ = until_mark(old, 1)
    go_on(old, most=9)
    assert checkpoint.fed == 5 < old.fed and old.can_restore(checkpoint)
    old.restore(checkpoint)
    old.rewrite(5, [*"xyz"])
    _, _, frames = until_mark(new, 1)
    for row in (old, new):
        row.end()
    (mine, events, made), (theirs, straight, others) = go_on(old), go_on(new)
    assert mine == [replace(theirs[0], begins=True), *theirs[1:]] and [*map(str, events)] == [*map(str, straight)]
    assert mine[0].last is not None and mine[0].last[0] == mine[0].at - 1 and mine[1].last is None
    assert np.array_equal(made, others) and len(frames) == 4


def test_a_word_that_was_fed_is_fed_again_in_its_place():
    """Steps that knew of it are done again, up to the last one done; their sound stays, and so do words before it."""
    row = a_row()
    row.commit([*"abcdefgh"])
    row.end()
    checkpoint, events, _ = until_mark(row, 2)
    assert (checkpoint.at, checkpoint.fed) == (15, 6)
    with pytest.raises(AssertionError, match="spoken already"):
        row.rewrite(1, ["x"])
    row.rewrite(2, [*"xyz"])
    row.end()
    assert row.spoken == 2 and row.checkpoint() is None and not row.can_restore(checkpoint)
    steps, more, frames = go_on(row, lambda step: step % 5 == 0)
    again = [one for one in steps if one.at < 15]
    assert [one.at for one in again] == [*range(15)] and {one.groups for one in again} == {"none"}
    text = [one.text for one in again]
    # a and b begin where they did, x where c did; then the action is asked again, and says step 11.
    assert text == [WORD, MAIN, 0, PAD, WORD, 1, PAD, PAD, WORD, 23, PAD, WORD, 24, PAD, PAD]
    assert [one.ahead for one in again if one.ahead != PAD] == [23, 24, 25]
    assert [one.last is None for one in steps] == [True, *[False] * 15, *[True] * (len(steps) - 16)]
    assert [int(one.last[0]) for one in steps[1:16]] == [*range(15)]
    assert [one.begins for one in steps[:2]] == [True, False]
    starts = [(one.i, one.sample // 600) for one in of(ev.WordStart, events + more)]
    assert starts == [(0, 0), (1, 4), (2, 8), (3, 11), (4, 16)]
    assert [one.i for one in of(ev.WordEnd, events + more)] == [*range(5)] and row.is_finished
    assert [one.first_frame for one in of(ev.Frames, more)] == [*range(8, 8 + len(frames))]


def test_words_that_are_taken_back_leave_the_text_to_end_there():
    row = a_row()
    row.commit([*"abcdefgh"])
    _, events, _ = until_mark(row, 2)
    row.rewrite(2, [])
    row.end()
    steps, more, frames = go_on(row)
    assert [one.text for one in steps][8] == END and len(frames) == DELAYS.tail and row.is_finished
    assert [one.segment for one in of(ev.Eos, events + more)] == [0, 1], "told once"
    assert [one.i for one in of(ev.WordEnd, events + more)] == [0, 1]


def test_the_last_word_is_followed_by_another_unless_its_end_is_heard():
    row = a_row()
    row.commit([*"abc"])
    row.end()
    until_mark(row, 2)
    assert row.fed > 1000
    row.rewrite(3, ["d"])
    row.end()
    steps, events, _ = go_on(row)
    assert [one.text for one in steps if one.text != PAD] == [WORD, 1, WORD, 2, WORD, 3, END]
    assert [one.i for one in of(ev.WordStart, events)] == [2, 3]
    row = a_row()
    row.commit([*"abc"])
    row.end()
    while len(go_on(row, most=1)[0]) and row._passage is not None and not row._passage.is_ending:
        pass
    row.rewrite(3, ["d"])
    row.end()
    steps, events, _ = go_on(row)
    assert [one.text for one in steps if one.text != PAD] == [WORD, MAIN, 3, END], "a passage of its own"
    assert [one.i for one in of(ev.WordStart, events)] == [3] and row.is_finished


def test_turns_of_words_that_are_fed_again_stay():
    row = a_row(other_speaker=3, turn="main")
    row.commit([*"abcde"])
    until_mark(row, 1)
    row.set_options({"other_speaker": 3, "turn": "other"}, None)
    row.rewrite(2, ["x"])
    row.end()
    steps, *_ = go_on(row)
    assert [one.text for one in steps if one.text != PAD] == [WORD, MAIN, 0, WORD, 1, WORD, OTHER, 23, END]


def test_words_are_revised_again_while_steps_are_done_again():
    row = a_row()
    row.commit([*"abcdefgh"])
    until_mark(row, 2)
    row.rewrite(3, [*"xyz"])
    go_on(row, most=6)
    row.rewrite(2, [*"uvw"])
    row.end()
    steps, events, frames = go_on(row)
    assert [one.text for one in steps if one.text != PAD][-7:] == [WORD, 20, WORD, 21, WORD, 22, END]
    assert [one.i for one in of(ev.WordStart, events)] == [2, 3, 4] and row.is_finished
    assert [one.first_frame for one in of(ev.Frames, events)] == [*range(8, 8 + len(frames))]


def test_without_an_acoustic_delay_or_a_tail():
    row = a_row(replace(DELAYS, acoustic=0, tail=0))
    row.commit(["a", "b"])
    row.end()
    _, events, frames = go_on(row)
    assert len(frames) == 8 and [type(one).__name__ for one in events[-2:]] == ["WordEnd", "Eos"]


def test_what_is_no_number_ends_it():
    row = a_row()
    row.commit(["a"])
    row.end()
    assert row.next_input() is not None
    with pytest.raises(NotFinite, match="not finite"):
        row.on_output(drawn(0, is_finite=False))
    assert row.on_cancel() == [] and math.isclose(row.slots[1], 7)
