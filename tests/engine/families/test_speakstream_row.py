"""SpeakStream's row without a net: its inputs for made-up outputs."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite
from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.speakstream.policy import W_EOS, SegmentInput, SegmentPrefill, spell
from studio.engine.families.speakstream.row import RowLimits, SpeakStreamRow

SILENCE = np.full((10, 80), 3, np.uint8)
LIMITS = RowLimits(context_frames=40, kept_frames=20, longest_word_frames=6, capacity_tokens=400)


def a_row(scheme: str = "S1", m: int = 2, n: int = 1, limits: RowLimits = LIMITS) -> SpeakStreamRow:
    options = {"scheme": scheme, "m": m, "n": n}
    return SpeakStreamRow(row_setup(options), limits, SILENCE)


def output(p_eos: float = 0.0, level: int = 7, is_finite: bool = True) -> FrameOutput:
    return FrameOutput(np.full((1, 80), level, np.uint8), p_eos, is_finite)


def own(prefill: SegmentPrefill) -> SegmentInput:
    """The only segment of a prefill, which feeds no earlier ones again."""
    (segment,) = prefill.segments
    return segment


def speak(row: SpeakStreamRow, lengths: Sequence[int]) -> tuple[list[SegmentPrefill], list[ev.Event]]:
    """Run segments of these lengths in frames; returns their prefills and all events."""
    prefills, events = [], []
    for frames in lengths:
        next_input = row.next_input()
        assert next_input is not None and next_input.module == "prefill"
        prefills.append(next_input.inputs)
        for k in range(frames + 1):
            assert row.next_input() is row.next_input(), "next_input is idempotent"
            row_output = row.on_output(output(0.9 if k == frames else 0.1, level=k))
            assert len(row_output.frames) == (k < frames)
            events += [*row_output.before, *row_output.after]
    return prefills, events


def test_a_planned_prefill_follows_later_text():
    """A prefill may be planned several steps before it runs."""
    row = a_row(m=2)
    row.commit(["one"])
    row.flush()
    assert own(row.next_input().inputs).symbols == [*spell("one")]
    row.commit(["two"])
    assert own(row.next_input().inputs).symbols == [*spell("one"), *spell("two")]
    row.end()
    ended = row.next_input().inputs
    row.on_output(output())
    row.commit(["three"])  # too late for this one
    assert own(ended).symbols == [*spell("one"), *spell("two")] and row.next_input().module == "decode"


def test_prefills_and_their_positions():
    row = a_row(m=2)
    row.commit(["one", "two", "three"])
    row.end()
    (first, second, third), events = speak(row, [4, 3, 5])
    assert own(first).symbols == [*spell("one"), *spell("two")]
    assert len(own(first).frames) == 10 and not own(first).after_eos
    assert (first.start, first.at, own(first).window, first.frame) == (0, 0, (0, 1, 1), 0)
    assert first.tokens == 8 + 1 + 10
    assert own(second).symbols == [*spell("two"), *spell("three")]
    assert len(own(second).frames) == 0 and own(second).after_eos
    assert (second.at, second.frame) == (first.tokens + 4, 4)  # four frames were fed back
    assert own(third).symbols == [*spell("three"), W_EOS] and own(third).window == (0, 1, 0)
    assert row.is_finished and row.next_input() is None
    assert [e.frame for e in events if isinstance(e, ev.Eos)] == [4, 7, 12]
    assert [e.first_frame for e in events if isinstance(e, ev.Frames)] == [*range(12)]
    assert [int(e.levels[0, 0]) for e in events if isinstance(e, ev.Frames)] == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4]


def test_seen_includes_words_fed_earlier():
    """S2 feeds a word once; later segments still see it."""
    row = a_row("S2", m=3)
    row.commit(["one", "two", "three", "four"])
    row.end()
    _, events = speak(row, [1, 1, 1, 1])
    assert [e.seen for e in events if isinstance(e, ev.Segment)] == [[0, 1, 2], [1, 2, 3], [2, 3], [3]]


def test_a_segment_without_an_end_is_cut():
    row = a_row(m=1)
    row.commit(["one", "two"])
    for _ in range(LIMITS.longest_word_frames + 1):
        row.next_input()
        row_output = row.on_output(output(0.1))
    (end,) = [e for e in row_output.after if isinstance(e, ev.Eos)]
    assert end.forced and end.frame == LIMITS.longest_word_frames


def test_the_oldest_segments_are_dropped():
    row = a_row(m=1)
    row.commit(["ab"] * 12)
    prefills, _ = speak(row, [6] * 12)
    held = [p.at - p.start for p in prefills]
    starts = [p.start for p in prefills]
    assert starts == sorted(starts) and starts[-1] > 0
    assert max(held) <= 400 and starts[:7] == [0] * 7, "forty frames are kept"


def test_outputs_that_are_not_finite_raise():
    for wrong in (output(math.nan), output(is_finite=False)):
        row = a_row(m=1)
        row.commit(["one"])
        row.next_input()
        with pytest.raises(NotFinite):
            row.on_output(wrong)


def test_cancel_reports_the_last_frame():
    row = a_row(m=1)
    row.commit(["one"])
    row.next_input()
    assert row.on_cancel() == []
    row.on_output(output(level=4))
    (last,) = row.on_cancel()
    assert (
        isinstance(last, ev.Frames) and last.first_frame == 0 and math.isnan(last.p_eos[0]) and last.levels[0, 0] == 4
    )
    assert last.to_dict()["p_eos"] == [None]


def test_checkpoints_between_segments():
    row = a_row(m=2)
    row.commit(["one", "two", "three", "four"])
    assert row.checkpoint() is not None
    (first,), _ = speak(row, [3])
    checkpoint = row.checkpoint()
    straight = row.next_input().inputs
    assert row.checkpoint() == checkpoint, "planning changes no state"
    row.on_output(output())
    assert row.checkpoint() is None, "within a segment"
    row.restore(checkpoint)
    again = row.next_input().inputs
    assert (own(again).symbols, own(again).window) == (own(straight).symbols, own(straight).window)
    assert (again.at, again.frame) == (first.tokens + 3, 3)


def test_rewrite_of_words_not_fed():
    row = a_row(m=2)
    row.commit(["one", "two", "three", "four"])
    speak(row, [3])
    checkpoint = row.checkpoint()
    speak(row, [2])
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(1, ["other"])
    assert (checkpoint.spoken, checkpoint.fed) == (1, 2)
    row.restore(checkpoint)
    row.rewrite(2, ["other", "words"])
    assert own(row.next_input().inputs).symbols == [*spell("two"), *spell("other")]


def test_rewrite_feeds_changed_segments_again_with_their_frames():
    row = a_row(m=3)
    row.commit(["one", "two", "three", "four", "five"])
    speak(row, [3, 2])
    checkpoint = row.checkpoint()
    speak(row, [4])
    row.restore(checkpoint)
    row.rewrite(2, ["other", "words", "too"])
    wanted = row.next_input().inputs
    assert (wanted.start, wanted.at, wanted.frame) == (0, 0, 5)
    one, two, three = wanted.segments
    assert one.symbols == [*spell("one"), *spell("two"), *spell("other")]
    assert two.symbols == [*spell("two"), *spell("other"), *spell("words")] and two.after_eos
    assert three.symbols == [*spell("other"), *spell("words"), *spell("too")] and three.window == (0, 1, 2)
    assert [int(frame[0]) for frame in one.frames] == [3] * 10 + [0, 1, 2]
    assert [int(frame[0]) for frame in two.frames] == [0, 1] and len(three.frames) == 0
    row.restore(checkpoint)  # nothing ran: the same plan again
    assert row.next_input().inputs.segments[1].symbols == two.symbols
    speak(row, [1])
    row.restore(checkpoint)  # the slot holds the new words now
    assert (
        own(row.next_input().inputs).symbols == three.symbols
        and row.next_input().inputs.at == wanted.tokens - three.tokens
    )


def test_rewrite_within_a_segment():
    row = a_row(m=2)
    row.commit(["one", "two", "three"])
    row.next_input()
    row.on_output(output())
    row.rewrite(1, ["other", "end"])
    row.next_input()
    row.on_output(output(0.9))
    wanted = row.next_input().inputs
    assert [s.symbols for s in wanted.segments] == [[*spell("one"), *spell("other")], [*spell("other"), *spell("end")]]
    assert len(wanted.segments[0].frames) == 11


@pytest.mark.parametrize("scheme", ["S1", "S2"])
def test_rewrite_after_the_end_feeds_the_text_again_without_it(scheme):
    row = a_row(scheme, m=3)
    row.commit(["one", "two"])
    row.end()
    speak(row, [2])
    assert row.fed > 10**9, "the net has seen the end"
    row.rewrite(2, [])
    assert row.next_input() is None and not row.is_finished
    row.commit(["three", "four"])
    first, second = row.next_input().inputs.segments
    assert first.symbols == [*spell("one"), *spell("two"), *spell("three")]
    assert second.symbols == ([*spell("two"), *spell("three")] if scheme == "S1" else []) + [*spell("four")]


def test_words_before_the_oldest_checkpoint_are_dropped():
    row = a_row(m=1)
    for _ in range(100):
        row.commit(["ab"] * 10)
        speak(row, [2] * 10)
        row.discard_before(row.checkpoint())
    assert len(row._words) < 300 and row.spoken == 1000
    row.commit(["ab"])
    assert own(row.next_input().inputs).symbols == spell("ab")


def test_incompatible_options_are_refused():
    row = a_row(m=3)
    with pytest.raises(BadOption, match="hop n = 4"):
        row.check({"scheme": "S1", "m": 3, "n": 4})
    row.set_options({"scheme": "S2", "m": 1, "n": 1}, 0.9)
    row.commit(["one"])
    next_input = row.next_input()
    assert own(next_input.inputs).window == (1, 1, 0) and next_input.inputs.temperature == 0.9
