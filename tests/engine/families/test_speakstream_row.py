"""SpeakStream's row by table: wants and results without a net (the results are made up here)."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.time import TimeBase
from studio.engine.families.base import NotFinite
from studio.engine.families.drawn import Drawn
from studio.engine.families.speakstream.fed import Prefill, Stretch
from studio.engine.families.speakstream.row import Limits, SpeakStreamRow
from studio.engine.families.speakstream.rule import W_EOS, spell

SILENCE = np.full((10, 80), 3, np.uint8)
LIMITS = Limits(context_frames=40, kept_frames=20, longest_word_frames=6, capacity_tokens=400)


def a_row(scheme: str = "S1", m: int = 2, n: int = 1, limits: Limits = LIMITS) -> SpeakStreamRow:
    options = {"scheme": scheme, "m": m, "n": n}
    base = TimeBase(24_000, 600, 300)
    return SpeakStreamRow((5,), limits, base, SILENCE, speaker=1, options=options, temperature=0.5, seed=9)


def drawn(p_eos: float = 0.0, level: int = 7, is_finite: bool = True) -> Drawn:
    return Drawn(np.full((1, 80), level, np.uint8), p_eos, is_finite)


def own(prefill: Prefill) -> Stretch:
    """What a segment itself begins with, where nothing is fed again."""
    (stretch,) = prefill.stretches
    return stretch


def speak(row: SpeakStreamRow, lengths: Sequence[int]) -> tuple[list[Prefill], list[ev.Event]]:
    """Run as many segments as there are lengths (in frames); the prefills that were wanted, and every event."""
    prefills, events = [], []
    for frames in lengths:
        want = row.want()
        assert want is not None and want.module == "prefill"
        prefills.append(want.inputs)
        for k in range(frames + 1):
            assert row.want() is row.want(), "asking twice changes nothing"
            turn = row.took(drawn(0.9 if k == frames else 0.1, level=k))
            assert len(turn.frames) == (k < frames)
            events += [*turn.before, *turn.after]
    return prefills, events


def test_what_comes_before_the_run_is_in_the_plan():
    """A prefill may be wanted for some turns before the pool runs it."""
    row = a_row(m=2)
    row.commit(["one"])
    row.flush()
    assert own(row.want().inputs).symbols == [*spell("one")]
    row.commit(["two"])
    assert own(row.want().inputs).symbols == [*spell("one"), *spell("two")]
    row.end()
    ended = row.want().inputs
    row.took(drawn())
    row.commit(["three"])  # too late for this one
    assert own(ended).symbols == [*spell("one"), *spell("two")] and row.want().module == "decode"


def test_what_is_fed_and_where_it_stands():
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
    assert row.over and row.want() is None
    assert [e.frame for e in events if isinstance(e, ev.Eos)] == [4, 7, 12]
    assert [e.first_frame for e in events if isinstance(e, ev.Frames)] == [*range(12)]
    assert [int(e.levels[0, 0]) for e in events if isinstance(e, ev.Frames)] == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4]


def test_seen_are_all_words_that_the_net_holds_before_it():
    """S2 feeds a word once: later segments see it although nothing new was fed (it once was left out)."""
    row = a_row("S2", m=3)
    row.commit(["one", "two", "three", "four"])
    row.end()
    _, events = speak(row, [1, 1, 1, 1])
    assert [e.seen for e in events if isinstance(e, ev.Segment)] == [[0, 1, 2], [1, 2, 3], [2, 3], [3]]


def test_a_segment_without_an_end_is_cut():
    row = a_row(m=1)
    row.commit(["one", "two"])
    for _ in range(LIMITS.longest_word_frames + 1):
        row.want()
        turn = row.took(drawn(0.1))
    (end,) = [e for e in turn.after if isinstance(e, ev.Eos)]
    assert end.forced and end.frame == LIMITS.longest_word_frames


def test_the_oldest_segments_are_forgotten_by_moving_the_start():
    row = a_row(m=1)
    row.commit(["ab"] * 12)
    prefills, _ = speak(row, [6] * 12)
    held = [p.at - p.start for p in prefills]
    starts = [p.start for p in prefills]
    assert starts == sorted(starts) and starts[-1] > 0
    assert max(held) <= 400 and starts[:7] == [0] * 7, "forty frames are kept"


def test_what_is_no_number_ends_it():
    for wrong in (drawn(math.nan), drawn(is_finite=False)):
        row = a_row(m=1)
        row.commit(["one"])
        row.want()
        with pytest.raises(NotFinite):
            row.took(wrong)


def test_the_last_frame_is_told_when_it_is_broken_off():
    row = a_row(m=1)
    row.commit(["one"])
    row.want()
    assert row.broken_off() == []
    row.took(drawn(level=4))
    (last,) = row.broken_off()
    assert (
        isinstance(last, ev.Frames) and last.first_frame == 0 and math.isnan(last.p_eos[0]) and last.levels[0, 0] == 4
    )
    assert last.to_dict()["p_eos"] == [None]


def test_marks_lie_between_segments_and_lead_back():
    row = a_row(m=2)
    row.commit(["one", "two", "three", "four"])
    assert row.mark() is not None
    (first,), _ = speak(row, [3])
    mark = row.mark()
    straight = row.want().inputs
    assert row.mark() == mark, "what is only wanted has changed nothing"
    row.took(drawn())
    assert row.mark() is None, "within a segment"
    row.back(mark)
    again = row.want().inputs
    assert (own(again).symbols, own(again).window) == (own(straight).symbols, own(straight).window)
    assert (again.at, again.frame) == (first.tokens + 3, 3)


def test_words_not_fed_can_be_written_anew():
    row = a_row(m=2)
    row.commit(["one", "two", "three", "four"])
    speak(row, [3])
    mark = row.mark()
    speak(row, [2])
    with pytest.raises(AssertionError, match="go back first"):
        row.rewrite(1, ["other"])
    assert (mark.spoken, mark.fed) == (1, 2)
    row.back(mark)
    row.rewrite(2, ["other", "words"])
    assert own(row.want().inputs).symbols == [*spell("two"), *spell("other")]


def test_what_was_fed_of_other_words_is_fed_again_with_the_frames_made_of_it():
    row = a_row(m=3)
    row.commit(["one", "two", "three", "four", "five"])
    speak(row, [3, 2])
    mark = row.mark()
    speak(row, [4])
    row.back(mark)
    row.rewrite(2, ["other", "words", "too"])
    wanted = row.want().inputs
    assert (wanted.start, wanted.at, wanted.frame) == (0, 0, 5)
    one, two, three = wanted.stretches
    assert one.symbols == [*spell("one"), *spell("two"), *spell("other")]
    assert two.symbols == [*spell("two"), *spell("other"), *spell("words")] and two.after_eos
    assert three.symbols == [*spell("other"), *spell("words"), *spell("too")] and three.window == (0, 1, 2)
    assert [int(frame[0]) for frame in one.frames] == [3] * 10 + [0, 1, 2]
    assert [int(frame[0]) for frame in two.frames] == [0, 1] and len(three.frames) == 0
    row.back(mark)  # nothing was run: once more, and the same is wanted
    assert row.want().inputs.stretches[1].symbols == two.symbols
    speak(row, [1])
    row.back(mark)  # now the slot holds the other words
    assert own(row.want().inputs).symbols == three.symbols and row.want().inputs.at == wanted.tokens - three.tokens


def test_within_a_segment_the_words_after_it_can_be_written_anew():
    row = a_row(m=2)
    row.commit(["one", "two", "three"])
    row.want()
    row.took(drawn())
    row.rewrite(1, ["other", "end"])
    row.want()
    row.took(drawn(0.9))
    wanted = row.want().inputs
    assert [s.symbols for s in wanted.stretches] == [
        [*spell("one"), *spell("other")],
        [*spell("other"), *spell("end")],
    ]
    assert len(wanted.stretches[0].frames) == 11


@pytest.mark.parametrize("scheme", ["S1", "S2"])
def test_a_text_that_had_ended_and_goes_on_is_fed_again_without_its_end(scheme):
    row = a_row(scheme, m=3)
    row.commit(["one", "two"])
    row.end()
    speak(row, [2])
    assert row.fed > 10**9, "the net has seen the end"
    row.rewrite(2, [])
    assert row.want() is None and not row.over
    row.commit(["three", "four"])
    first, second = row.want().inputs.stretches
    assert first.symbols == [*spell("one"), *spell("two"), *spell("three")]
    assert second.symbols == ([*spell("two"), *spell("three")] if scheme == "S1" else []) + [*spell("four")]


def test_words_that_nothing_returns_to_are_forgotten():
    row = a_row(m=1)
    for _ in range(100):
        row.commit(["ab"] * 10)
        speak(row, [2] * 10)
        row.forget(row.mark())
    assert len(row._words) < 300 and row.spoken == 1000
    row.commit(["ab"])
    assert own(row.want().inputs).symbols == spell("ab")


def test_options_that_do_not_go_together_are_refused_before_they_are_set():
    row = a_row(m=3)
    with pytest.raises(BadOption, match="hop n = 4"):
        row.check({"scheme": "S1", "m": 3, "n": 4})
    row.set_options({"scheme": "S2", "m": 1, "n": 1}, 0.9)
    row.commit(["one"])
    want = row.want()
    assert own(want.inputs).window == (1, 1, 0) and want.inputs.temperature == 0.9
