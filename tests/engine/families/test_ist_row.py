"""IST-LM's row by table: wants and results without a net (the results are made up here)."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite
from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.ist.policy import FRAME, RATIOS, IstSymbols
from studio.engine.families.ist.row import IstLimits, IstPrefill, IstPrompt, IstRow

END, FLUSH, START = 100, 101, 102
SYMBOLS = IstSymbols(END, FLUSH, START, 103)
LIMITS = IstLimits(
    context_frames=20,
    longest_word_frames=9,
    stretch_words=4,
    most_words=6,
    most_tokens=50,
    letter_frames=1.0,
    capacity_tokens=400,
)
PROMPT = IstPrompt([90, 91, END], np.full((4, 80), 3, np.uint8))
PROMPT_LENGTH = 1 + 3 + 4 + 1


def spell(word: str, before: Sequence[str] = ()) -> list[int]:
    """A token for every letter: a is 0."""
    return [ord(c) - ord("a") if c.isalpha() else 50 for c in word]


def a_row(ratio: str = "1:2", limits: IstLimits = LIMITS) -> IstRow:
    return IstRow(row_setup({"ratio": ratio}), limits, SYMBOLS, spell, PROMPT)


def drawn(p_eos: float = 0.0, level: int = 7, is_finite: bool = True) -> FrameOutput:
    return FrameOutput(np.full((1, 80), level, np.uint8), p_eos, is_finite)


def go_on(row: IstRow, p_eos: float = 0.0, most: int = 1000) -> tuple[list[IstPrefill], list[ev.Event], int]:
    """Run until it wants nothing: the prefills that were wanted, every event, and the frames made."""
    prefills, events, frames = [], [], 0
    while frames < most and (next_input := row.next_input()) is not None:
        assert row.next_input() is next_input, "asking twice changes nothing"
        if next_input.module == "prefill":
            prefills.append(next_input.inputs)
        turn = row.on_output(drawn(p_eos, level=frames % 16))
        frames += len(turn.frames)
        events += [*turn.before, *turn.after]
    return prefills, events, frames


def fed(prefill: IstPrefill) -> list[int]:
    return prefill.layout.symbols


def test_the_prompt_then_the_first_chunk():
    row = a_row("3:6")
    row.commit(["ab"])
    assert row.next_input() is None and row.checkpoint() is not None, "two tokens are no chunk of three"
    row.commit(["cd"])
    (first,), events, frames = go_on(row)
    assert fed(first) == [START, 90, 91, END, FRAME, FRAME, FRAME, FRAME, FRAME, START, 0, 1, 2]
    assert first.layout.positions == [0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert [int(f[0]) for f in first.layout.frames] == [3, 3, 3, 3, 18]
    assert (first.start, first.at, first.ratio, first.position, first.frame) == (0, 0, RATIOS.index("3:6"), 0, 0)
    assert frames == 6
    (segment,) = [e for e in events if isinstance(e, ev.Segment)]
    assert (segment.words, segment.seen, segment.frame) == ([0], [0, 1], 0)


def test_the_prompt_is_interleaved_by_the_ratio():
    row = a_row("1:2")
    row.commit(["a"])
    (first,), _, _ = go_on(row)
    assert fed(first) == [START, 90, FRAME, FRAME, 91, FRAME, FRAME, END, FRAME, START, 0]


def test_chunks_follow_each_other_with_the_last_frame_between():
    row = a_row("1:2")
    row.commit(["ab"])
    row.end()
    prefills, events, frames = go_on(row, p_eos=0.9)
    assert [fed(p) for p in prefills[1:]] == [[FRAME, 1], [FRAME, END]]
    assert [p.layout.positions for p in prefills[1:]] == [[1, 2], [3, 3]]
    assert [int(p.layout.frames[0][0]) for p in prefills[1:]] == [1, 3], "the last frame drawn is fed back"
    assert [p.at for p in prefills] == [0, PROMPT_LENGTH + 2 + 1, PROMPT_LENGTH + 2 + 1 + 2 + 1]
    assert frames == 4 and row.is_finished, "the end is masked until the text is consumed, and holds at once then"
    (end,) = [e for e in events if isinstance(e, ev.Eos)]
    assert (end.frame, end.forced, end.segment) == (4, False, 2)
    made = [e for e in events if isinstance(e, ev.Frames)]
    assert [e.first_frame for e in made] == [0, 1, 2, 3] and [e.p_eos for e in made] == [[0.0], [0.0], [0.0], [0.9]]


def test_whole_waits_for_the_end():
    row = a_row("whole")
    row.commit(["ab", "c"])
    assert row.next_input() is None
    row.end()
    (first,), events, frames = go_on(row)
    assert fed(first)[-5:] == [START, 0, 1, 2, END] and frames == 2 * LIMITS.longest_word_frames
    (end,) = [e for e in events if isinstance(e, ev.Eos)]
    assert end.forced


def test_it_waits_inside_words():
    row = a_row("1:3")
    row.commit(["abc"])
    _, events, frames = go_on(row)
    assert frames == 9 and row.next_input() is None and not row.is_finished
    assert [e.i for e in events if isinstance(e, ev.WordEnd)] == []
    row.end()
    _, events, _ = go_on(row, p_eos=0.9)
    assert [(e.i, e.sample) for e in events if isinstance(e, ev.WordEnd)] == [(0, 9 * 600)] and row.is_finished


def test_a_flush_closes_what_would_wait():
    row = a_row("3:6")
    row.commit(["ab"])
    row.flush()
    (first,), events, frames = go_on(row, p_eos=0.9, most=20)
    assert fed(first)[-3:] == [0, 1, FLUSH] and frames == 1
    assert len([e for e in events if isinstance(e, ev.Eos)]) == 1 and row.unspoken == 0 and not row.is_finished
    row.commit(["cde"])
    row.end()
    (second, third), _, _ = go_on(row, p_eos=0.9)
    assert fed(second) == [FRAME, START, 2, 3, 4] and int(second.layout.frames[0][0]) == 18
    assert fed(third) == [FRAME, END] and row.is_finished


def test_a_flush_lets_a_whole_chunk_pass_as_it_is():
    row = a_row("1:2")
    row.commit(["a"])
    row.flush()
    prefills, _, _ = go_on(row, p_eos=0.9)
    assert [fed(p)[-1] for p in prefills] == [0, FLUSH]


def test_long_text_is_cut_at_a_full_stop_or_where_it_must():
    row = a_row("12:24")
    row.commit(["a.", "b", "c", "d", "e.", "f", "g", "h", "i", "j", "k", "l."])
    row.end()
    prefills, events, _ = go_on(row, p_eos=0.9)
    text = [[s for s in fed(p) if s != FRAME] for p in prefills]
    text[0] = text[0][4:]
    assert text == [[START, 0, 50, 1, 2, 3, 4, 50, END], [START, 5, 6, 7, 8, 9, 10, FLUSH], [START, 11, 50, END]]
    assert [i for e in events if isinstance(e, ev.Segment) for i in e.words] == [*range(12)]


def test_too_much_context_begins_anew_from_the_prompt():
    row = a_row("12:24")
    row.commit(["a", "b", "c", "d."] * 4)
    row.end()
    prefills, _, _ = go_on(row)
    lengths = [len(p.layout) for p in prefills]
    starts = [p.start for p in prefills]
    assert starts[0] == 0 and starts[1] == prefills[1].at > 0, "36 frames were spoken, and 20 are kept"
    assert fed(prefills[1])[:4] == [START, 90, 91, END] and lengths[1] == lengths[0]


def test_a_slot_that_is_full_of_text_begins_anew_too():
    """Stretches that end at once fill it with text, not with frames."""
    row = a_row("whole", replace(LIMITS, context_frames=10_000))
    row.commit(["abcdefghijkl"] * 60)
    row.end()
    prefills, _, frames = go_on(row, p_eos=0.9)
    held = [p.at + len(p.layout) - p.start for p in prefills]
    assert frames == len(prefills) == 12 and max(held) <= LIMITS.capacity_tokens
    assert [p.start > 0 for p in prefills] == sorted(p.start > 0 for p in prefills) and prefills[-1].start > 0


def test_words_begin_and_end_once_in_order_by_estimate():
    row = a_row("1:4")
    row.commit(["ab", "c", "defg"])
    row.end()
    _, events, frames = go_on(row, p_eos=0.0)
    starts = [e for e in events if isinstance(e, ev.WordStart)]
    ends = [e for e in events if isinstance(e, ev.WordEnd)]
    assert [e.i for e in starts] == [e.i for e in ends] == [0, 1, 2]
    assert [e.sample for e in starts] == [0, 4 * 2 * 600, (8 + 2) * 600 + 2 * 600], "never before the word was fed"
    assert [e.sample for e in ends] == [*(e.sample for e in starts[1:]), frames * 600]
    assert {e.source for e in starts + ends} == {"estimate"}


def test_what_is_no_number_ends_it():
    for wrong in (drawn(math.nan), drawn(is_finite=False)):
        row = a_row()
        row.commit(["one"])
        row.next_input()
        with pytest.raises(NotFinite):
            row.on_output(wrong)


def test_the_last_frame_is_told_when_it_is_broken_off():
    row = a_row()
    row.commit(["one"])
    assert row.on_cancel() == []
    row.next_input()
    row.on_output(drawn(level=4))
    (last,) = row.on_cancel()
    assert isinstance(last, ev.Frames) and last.first_frame == 0 and math.isnan(last.p_eos[0])
    assert last.levels[0, 0] == 4


def test_marks_lie_between_stretches_and_lead_back():
    row = a_row("12:24")
    row.commit(["a", "b", "c", "d.", "e", "f."])
    go_on(row, p_eos=0.9, most=1)
    while row.checkpoint() is None:
        row.next_input()
        row.on_output(drawn(0.9))
    checkpoint = row.checkpoint()
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(2, ["other"])
    row.rewrite(4, ["other", "words."])
    row.end()
    straight = row.next_input().inputs
    row.on_output(drawn())
    assert row.checkpoint() is None, "within a passage"
    row.restore(checkpoint)
    again = row.next_input().inputs
    assert fed(again) == fed(straight) == [FRAME, START, *spell("otherwords."), END]
    assert (again.at, again.frame, again.start) == (straight.at, straight.frame, straight.start)


def test_marks_lie_between_chunks_where_a_word_begins():
    """Nobody knows which words were heard of those that were fed: they count as spoken."""
    row = a_row("1:2", replace(LIMITS, longest_word_frames=20))
    row.commit(["ab", "cd", "ef"])
    marks = [row.checkpoint()]
    for _ in range(9):
        row.next_input()
        row.on_output(drawn())
        marks.append(row.checkpoint())
    assert [one and (one.spoken, one.fed, one.frames) for one in marks] == [
        *[(0, 0, 0), None, None, None],
        *[(1, 1, 4), None, None, None],
        *[(2, 2, 8), None],
    ]
    assert (row.spoken, row.fed) == (3, 3)
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(2, ["x"])
    row.restore(marks[4])
    row.rewrite(1, ["x", "y."])
    row.end()
    prefills, events, frames = go_on(row, p_eos=0.9)
    assert [fed(one) for one in prefills] == [[FRAME, ord(c) - ord("a")] for c in "xy"] + [[FRAME, 50], [FRAME, END]]
    again = prefills[0]
    assert (again.at, again.frame, again.position) == (PROMPT_LENGTH + 2 + 1 + 2 + 1, 4, 4)
    assert (again.layout.positions[0], int(again.layout.frames[0][0])) == (3, 7), "the last frame before is fed back"
    assert [i for e in events if isinstance(e, ev.Segment) for i in e.words] == [1, 2] and frames == 6
    assert [e.i for e in events if isinstance(e, ev.WordEnd)] == [0, 1, 2] and row.is_finished


def test_a_stretch_that_a_word_had_closed_goes_on_when_that_is_another():
    row = a_row("1:2", replace(LIMITS, stretch_words=2))
    row.commit(["a", "b.", "c"])
    go_on(row, most=2)
    assert row.checkpoint().fed == 1, "b ends the passage, and was read already"
    row.rewrite(1, ["b", "d", "e."])
    prefills, _, _ = go_on(row, p_eos=0.9)
    assert [fed(one)[-1] for one in prefills] == [1, 3, 4, 50, END]
    row = a_row("1:2", replace(LIMITS, stretch_words=2))
    row.commit(["a", "b.", "c"])
    go_on(row, most=4)
    row.rewrite(2, ["d"])
    prefills, _, _ = go_on(row, p_eos=0.9)
    assert [fed(one)[-1] for one in prefills[:2]] == [50, END], "its own words close it still"


def test_the_texts_end_was_seen_until_words_follow():
    row = a_row("1:2")
    row.commit(["a"])
    checkpoint = row.checkpoint()
    row.end()
    go_on(row, p_eos=0.9)
    assert row.is_finished and row.spoken == 1 and row.fed > 1000 and row.checkpoint().fed > 1000
    row.rewrite(1, ["b"])
    assert row.fed == 1 and not row.is_finished
    row.end()
    assert fed(row.next_input().inputs)[-3:] == [FRAME, START, 1], "a passage of its own where the first one was heard"
    assert row.can_restore(checkpoint)
    row.restore(checkpoint)
    assert row.fed == 0


def test_options_hold_from_the_next_stretch_on():
    row = a_row("1:2")
    with pytest.raises(BadOption, match="more text than it speaks"):
        row.check({"ratio": "4:2"})
    row.commit(["a"])
    go_on(row)
    row.set_options({"ratio": "3:6"}, 0.9)
    row.flush()
    row.commit(["b"])
    prefills, _, _ = go_on(row, p_eos=0.9)
    assert {p.ratio for p in prefills} == {RATIOS.index("1:2")}
    assert prefills[0].temperature == 0.9
    row.commit(["cd", "e"])
    (first,), _, _ = go_on(row)
    assert first.ratio == RATIOS.index("3:6") and fed(first) == [FRAME, START, 2, 3, 4]
