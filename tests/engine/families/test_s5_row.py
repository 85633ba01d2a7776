"""S5-TTS's row by table: wants and results without a net (the results are made up here)."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.time import TimeBase
from studio.engine.families.base import NotFinite
from studio.engine.families.s5.row import Limits, S5Row
from studio.engine.families.s5.step import Drawn, Reference, WordStep
from studio.engine.families.spelling import END, spell

SILENCE = np.full((10, 80), 3, np.uint8)
LIMITS = Limits(context_frames=40, kept_frames=20, longest_word_frames=6, capacity_tokens=400)
NONE = Reference([], SILENCE[:0], [])
SAID = {"one": "wˈʌn", "two": "tˈu", "three": "θɹˈi", "four": "fˈɔɹ", "five.": "fˈIv.", "other": "ˈʌðəɹ"}

FIVE = spell(SAID["five."])  # what the speaker said before, in nine frames
REFERENCE = Reference([FIVE], np.full((9, 80), 9, np.uint8), [0] * 9)


def pronounce(words: Sequence[str]) -> list[str]:
    return [SAID[word] for word in words]


def a_row(k: int = 1, limits: Limits = LIMITS, reference: Reference = NONE) -> S5Row:
    base = TimeBase(24_000, 600, 300)
    return S5Row(
        (5,), limits, base, SILENCE, reference, pronounce, speaker=1, options={"k": k}, temperature=0.5, seed=9
    )


def drawn(at: int = 0, p_stop: float = 0.0, level: int = 7, of: int = 60, is_finite: bool = True) -> Drawn:
    """A frame; the attention is at one encoder step."""
    shares = np.zeros(of, np.float32)
    shares[at] = 1.0
    return Drawn(np.full((1, 80), level, np.uint8), p_stop, shares, is_finite)


def speak_word(row: S5Row, frames: int) -> tuple[WordStep, list[ev.Event]]:
    """Speak one word in so many frames, until the attention leaves it; what was wanted first, and every event."""
    want = row.want()
    assert want is not None and want.module == "word"
    step, events = want.inputs, []
    inside = step.words.index(row.planned.speak[0] - row._first_word)
    beyond = len(step.words) - 1
    for n in range(frames + 1):
        assert row.want() is row.want(), "asking twice changes nothing"
        turn = row.took(drawn(beyond if n == frames else inside, level=n))
        assert len(turn.frames) == (n < frames)
        events += [*turn.before, *turn.after]
    return step, events


def test_what_the_encoder_sees_and_what_the_decoder_is_fed():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    first, _ = speak_word(row, 4)
    assert [*first.symbols] == [*spell(SAID["one"]), *spell(SAID["two"])], "cut at word i + k, though more is there"
    assert [*first.words] == [0] * 4 + [1] * 3 and first.begins and first.tokens == 11
    assert np.array_equal(first.frames, SILENCE) and (first.at, first.frame, first.place, first.k) == (0, 0, 0, 1)
    second, _ = speak_word(row, 3)
    assert [*second.words] == [0] * 4 + [1] * 3 + [2] * 4
    # The last frame of "one" was fed with "three" hidden: it is fed again, over itself.
    assert (second.at, second.frame, second.tokens, second.begins) == (11 + 4 - 1, 4, 1, False)
    assert (second.frames == 3).all()
    third, _ = speak_word(row, 2)
    assert third.at == 11 + 4 + 3 - 1
    assert row.want() is None, "the fifth word is not there"
    row.end()
    last = row.want().inputs
    assert [*last.symbols][-1] == END and last.words[-1] == 4


def test_flags_are_off_once_the_end_is_in_view():
    row = a_row(k=2)
    row.commit(["one", "two", "three"])
    row.end()
    speak_word(row, 2)
    step = row.want().inputs
    assert step.symbols[-1] == END
    starts = {word: step.words.index(word) for word in range(4)}
    events, frames = [], 0
    for at, p_stop in [(starts[1], 0), (starts[1] + 1, 0.1), (starts[2], 0.1), (starts[3], 0.2), (starts[2], 0.4)]:
        row.want()
        turn = row.took(drawn(at, p_stop))
        frames += len(turn.frames)
        events += [*turn.before, *turn.after]
    assert frames == 4 and row.over, "attention on the end is no flag: the stop token is"
    told = [p for e in events if isinstance(e, ev.Frames) for p in e.p_eos]
    assert told == pytest.approx([0.1, 0.19, 0.352, 0.6112]), "whether it has come by now: no single one is a half"
    words = [(e.type, e.i, e.sample // 600, e.source) for e in events if isinstance(e, ev.WordStart | ev.WordEnd)]
    assert words == [
        ("word_start", 1, 2, "attention"),
        ("word_end", 1, 4, "attention"),
        ("word_start", 2, 4, "attention"),
        ("word_end", 2, 6, "attention"),
    ]
    (segment,) = [e for e in events if isinstance(e, ev.Segment)]
    assert segment.words == [1, 2] and segment.seen == [1, 2]


def test_words_that_the_attention_never_reached_share_what_is_left():
    row = a_row(k=3)
    row.commit(["one", "two", "three"])
    row.end()
    events = []
    for p_stop in (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9):
        row.want()
        turn = row.took(drawn(1, p_stop))
        events += [*turn.before, *turn.after]
    ends = [(e.i, e.sample // 600, e.source) for e in events if isinstance(e, ev.WordEnd)]
    assert ends == [(0, 2, "estimate"), (1, 3, "estimate"), (2, 6, "attention")]


def test_a_words_p_is_the_attention_beyond_it():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.want()
    row.took(drawn(0))
    shares = np.zeros(7, np.float32)
    shares[[2, 5]] = 0.7, 0.3
    row.want()
    turn = row.took(Drawn(np.zeros((1, 80), np.uint8), 0.9, shares, True))
    (made,) = [e for e in turn.before if isinstance(e, ev.Frames)]
    assert made.p_eos == [pytest.approx(0.3)] and made.first_frame == 0 and len(turn.frames) == 1


def test_a_word_that_does_not_end_is_cut():
    row = a_row(k=1)
    row.commit(["one", "two"])
    for _ in range(LIMITS.longest_word_frames + 1):
        row.want()
        turn = row.took(drawn(1))
    (end,) = [e for e in turn.after if isinstance(e, ev.Eos)]
    assert end.forced and end.frame == LIMITS.longest_word_frames


@pytest.mark.parametrize("reference", [NONE, REFERENCE], ids=["speaker", "reference"])
def test_after_a_word_that_was_cut_the_next_begins_anew(reference):
    """An attention that is lost stays lost while it is fed what it babbled: the next word begins as a text does."""
    row = a_row(k=1, reference=reference)
    row.commit(["one", "two", "three", "four"])
    speak_word(row, 3)
    first = row.want().inputs
    said = len(reference.spelled) + 1
    for _ in range(LIMITS.longest_word_frames + 1):
        row.want()
        turn = row.took(drawn(first.words.index(said)))
    assert [e.forced for e in turn.after if isinstance(e, ev.Eos)] == [True]
    mark = row.mark()
    anew = row.want().inputs
    text = [*reference.spelled, spell(SAID["three"]), spell(SAID["four"])]
    assert anew.begins and [*anew.symbols] == [one for word in text for one in word]
    assert anew.at == anew.start == first.at + 1 + LIMITS.longest_word_frames and anew.place == 0
    assert np.array_equal(anew.frames, np.concatenate((reference.frames, SILENCE)))
    row.back(mark)
    again = row.want().inputs
    assert (again.begins, again.at, again.symbols) == (True, anew.at, anew.symbols), "a mark knows that it was cut"


def test_a_word_has_a_frame_at_least():
    row = a_row(k=1)
    row.commit(["one", "two", "three"])
    row.want()
    turn = row.took(drawn(5))
    assert len(turn.frames) == 1 and not turn.after


def test_the_oldest_words_are_forgotten_with_their_phonemes_and_frames():
    row = a_row(k=1)
    row.commit(["one", "two"] * 8)
    steps = [speak_word(row, 6)[0] for _ in range(14)]
    assert [s.start for s in steps[:7]] == [0] * 7 and steps[-1].start > 0
    assert all(s.at - s.start <= 11 + 46 for s in steps)
    forgotten = [s for s in steps if s.place]
    assert forgotten and all(s.words[0] == 0 for s in steps)
    # A place counts all phonemes since the text began: 4 of "one", 3 of "two", each with its space.
    assert forgotten[0].place == 4 + 3 + 4 + 3 and len(forgotten[0].words) < len(steps[6].words)
    assert all(b.at - a.at == 6 for a, b in pairwise(steps[1:]))


def test_a_reference_comes_first_and_its_transcript_before_the_text():
    """The sums of W_j include the transcript; a token that is fed sees what the frame after it may see."""
    row = a_row(k=1, reference=REFERENCE)
    row.commit(["one", "two", "three"])
    first = row.want().inputs
    assert [*first.symbols] == [*FIVE, *spell(SAID["one"]), *spell(SAID["two"])]
    assert [*first.words] == [0] * len(FIVE) + [1] * 4 + [2] * 3
    assert np.array_equal(first.frames, np.concatenate((REFERENCE.frames, SILENCE))) and first.tokens == 1 + 9 + 10
    assert [*first.spoken] == [0] * 9 + [1] * 10 + [1], "nine frames of the reference, ten of silence, the first of one"
    row.took(drawn(len(FIVE)))
    row.want()
    turn = row.took(drawn(len(FIVE) + 3))
    assert len(turn.frames) == 1, "the last phoneme of its own word"
    row.want()
    turn = row.took(drawn(len(FIVE) + 4))
    assert [e.i for e in turn.after if isinstance(e, ev.WordEnd)] == [0]
    second = row.want().inputs
    assert (second.at, [*second.spoken], second.begins) == (1 + 9 + 10 + 2 - 1, [], False)
    assert second.words[-1] == 3


def test_a_full_slot_begins_anew_from_the_reference():
    row = a_row(k=1, reference=REFERENCE)
    row.commit(["one", "two"] * 8)
    steps = []
    for _ in range(14):
        step = row.want().inputs
        steps.append(step)
        here, inside = 1 + row.planned.speak[0] - row._first_word, 0
        inside = [*step.words].index(here)
        for n in range(7):
            row.want()
            row.took(drawn(len(step.words) - 1 if n == 6 else inside, level=n))
    (anew, *_) = [s for s in steps[1:] if s.begins]
    assert anew.at == anew.start == steps[steps.index(anew) - 1].at + 1 + 6 and anew.place == 0
    assert [*anew.symbols][: len(FIVE)] == FIVE and [*anew.words][: len(FIVE)] == [0] * len(FIVE)
    kept = len(anew.frames) - 9 - 10
    assert kept == 18 and anew.frames[-1, 0] == 5 and len(anew.spoken) == anew.tokens
    assert [*anew.spoken] == [0] * 9 + [1] * 10 + [1] * 6 + [2] * 6 + [3] * 6 + [4]
    after = steps[steps.index(anew) + 1]
    assert (after.begins, after.start, after.at) == (False, anew.start, anew.at + anew.tokens + 6 - 1)


def test_what_is_no_number_ends_it():
    bad = drawn()
    bad.shares[3] = math.nan
    for wrong in (drawn(p_stop=math.nan), drawn(is_finite=False), bad):
        row = a_row()
        row.commit(["one", "two"])
        row.want()
        with pytest.raises(NotFinite):
            row.took(wrong)


def test_the_last_frame_is_told_when_it_is_broken_off():
    row = a_row()
    row.commit(["one", "two"])
    row.want()
    assert row.broken_off() == []
    row.took(drawn(level=4))
    (last,) = row.broken_off()
    assert last.first_frame == 0 and math.isnan(last.p_eos[0]) and last.levels[0, 0] == 4


def test_marks_lie_between_words_and_lead_back():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    assert row.mark() is not None
    speak_word(row, 3)
    mark = row.mark()
    straight = row.want().inputs
    assert row.mark() is None, "a step is on its way"
    row.took(drawn())
    assert row.mark() is None, "within a word"
    row.back(mark)
    again = row.want().inputs
    assert (again.symbols, again.at, again.frame, again.place) == (straight.symbols, 13, 3, 0)
    assert np.array_equal(again.frames, straight.frames)


def test_a_word_that_was_only_seen_can_be_written_anew():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    speak_word(row, 3)
    mark = row.mark()
    speak_word(row, 2)
    with pytest.raises(AssertionError, match="go back first"):
        row.rewrite(1, ["other"])
    row.back(mark)
    row.rewrite(1, ["other", "three"])
    assert [*row.want().inputs.symbols][4:] == [*spell(SAID["other"]), *spell(SAID["three"])]


def frames_of(step: WordStep) -> list[int]:
    """The levels that a step feeds."""
    return [int(frame[0]) for frame in step.frames]


def test_what_had_the_word_in_view_is_fed_again_with_its_frames_but_the_last():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    row.end()
    speak_word(row, 3)
    second, _ = speak_word(row, 2)
    mark = row.mark()
    assert (mark.spoken, mark.fed, row.spoken, row.fed) == (2, 3, 2, 3)
    straight = row.want().inputs
    assert not straight.again and row.fed == 3, "what is wanted was not fed yet"
    row.rewrite(2, ["other"])
    row.commit(["four"])
    wanted = row.want().inputs
    (again,) = wanted.again
    assert (again.at, again.start, again.begins, again.k) == (second.at, second.start, False, 1)
    assert frames_of(again) == [2, 0], "the last of the word before, and its own but the last"
    assert again.at + again.tokens == wanted.at and frames_of(wanted) == [1]
    assert [*again.symbols] == [*spell(SAID["one"]), *spell(SAID["two"]), *spell(SAID["other"])]
    row.took(drawn())
    row.back(mark)
    row.rewrite(2, ["other", "four"])
    assert not row.want().inputs.again, "it has seen that word now"
    row.rewrite(2, ["three", "four"])
    assert len(row.want().inputs.again) == 1
    with pytest.raises(AssertionError, match="go back first"):
        row.rewrite(1, ["other"])
    row.rewrite(2, [])
    row.end()
    assert row.want() is None and row.over, "nothing follows"


def test_what_had_the_texts_end_in_view_sees_the_words_that_follow_now():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.end()
    speak_word(row, 2)
    for p_stop in (0.0, 0.0, 0.9):
        row.want()
        row.took(drawn(1, p_stop))
    assert row.over and row.fed > 1000 and row.mark().fed > 1000, "the end is past every word"
    row.rewrite(2, ["three", "four"])
    row.end()
    (again,) = row.want().inputs.again
    assert END not in again.symbols and [*again.words] == [0] * 4 + [1] * 3 + [2] * 4 and not row.over


def test_a_step_that_a_flush_closed_stays_as_it_was():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.flush()
    speak_word(row, 2)
    for p_stop in (0.0, 0.0, 0.9):
        row.want()
        row.took(drawn(1, p_stop))
    assert row.fed == 2
    row.commit(["three", "four"])
    row.rewrite(2, ["other", "four"])
    assert not row.want().inputs.again


def test_options_are_checked_and_hold_from_the_next_word_on():
    row = a_row(k=2)
    with pytest.raises(BadOption, match="look-ahead k = 4"):
        row.check({"k": 4})
    row.commit(["one", "two"])
    assert row.want() is None
    row.set_options({"k": 1}, 0.9)
    assert row.want().inputs.k == 1 and row.want().inputs.temperature == 0.9
