"""S5-TTS's row without a net: its inputs for made-up outputs."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from tinyvoice import row_setup

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.engine.families.base import NotFinite
from studio.engine.families.common.text_tokens import END, spell
from studio.engine.families.s5.policy import S5Output, S5StepInput, SpeakerReference
from studio.engine.families.s5.row import RowLimits, S5Row

SILENCE = np.full((10, 80), 3, np.uint8)
LIMITS = RowLimits(context_frames=40, kept_frames=20, longest_word_frames=6, capacity_tokens=400)
NONE = SpeakerReference([], SILENCE[:0], [])
SAID = {"one": "wˈʌn", "two": "tˈu", "three": "θɹˈi", "four": "fˈɔɹ", "five.": "fˈIv.", "other": "ˈʌðəɹ"}

FIVE = spell(SAID["five."])  # the reference, in nine frames
REFERENCE = SpeakerReference([FIVE], np.full((9, 80), 9, np.uint8), [0] * 9)


def pronounce(words: Sequence[str]) -> list[str]:
    return [SAID[word] for word in words]


def a_row(k: int = 1, limits: RowLimits = LIMITS, reference: SpeakerReference = NONE) -> S5Row:
    return S5Row(row_setup({"k": k}), limits, SILENCE, reference, pronounce)


def output(at: int = 0, p_stop: float = 0.0, level: int = 7, of: int = 60, is_finite: bool = True) -> S5Output:
    """A frame; the attention is at one encoder step."""
    shares = np.zeros(of, np.float32)
    shares[at] = 1.0
    return S5Output(np.full((1, 80), level, np.uint8), p_stop, shares, is_finite)


def speak_word(row: S5Row, frames: int) -> tuple[S5StepInput, list[ev.Event]]:
    """Speak one word of this many frames, until the attention leaves it; returns its first input and all events."""
    next_input = row.next_input()
    assert next_input is not None and next_input.module == "word"
    step, events = next_input.inputs, []
    inside = step.words.index(row.planned.speak[0] - row._first_word)
    beyond = len(step.words) - 1
    for n in range(frames + 1):
        assert row.next_input() is row.next_input(), "next_input is idempotent"
        row_output = row.on_output(output(beyond if n == frames else inside, level=n))
        assert len(row_output.frames) == (n < frames)
        events += [*row_output.before, *row_output.after]
    return step, events


def test_inputs_of_encoder_and_decoder():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    first, _ = speak_word(row, 4)
    assert [*first.symbols] == [*spell(SAID["one"]), *spell(SAID["two"])], "cut at word i + k, though more is there"
    assert [*first.words] == [0] * 4 + [1] * 3 and first.begins and first.tokens == 11
    assert np.array_equal(first.frames, SILENCE) and (first.at, first.frame, first.position, first.k) == (0, 0, 0, 1)
    second, _ = speak_word(row, 3)
    assert [*second.words] == [0] * 4 + [1] * 3 + [2] * 4
    # The last frame of "one" was fed with "three" hidden: it is fed again, over itself.
    assert (second.at, second.frame, second.tokens, second.begins) == (11 + 4 - 1, 4, 1, False)
    assert (second.frames == 3).all()
    third, _ = speak_word(row, 2)
    assert third.at == 11 + 4 + 3 - 1
    assert row.next_input() is None, "the fifth word is not there"
    row.end()
    last = row.next_input().inputs
    assert [*last.symbols][-1] == END and last.words[-1] == 4


def test_the_stop_token_decides_once_the_end_is_in_view():
    row = a_row(k=2)
    row.commit(["one", "two", "three"])
    row.end()
    speak_word(row, 2)
    step = row.next_input().inputs
    assert step.symbols[-1] == END
    starts = {word: step.words.index(word) for word in range(4)}
    events, frames = [], 0
    for at, p_stop in [(starts[1], 0), (starts[1] + 1, 0.1), (starts[2], 0.1), (starts[3], 0.2), (starts[2], 0.4)]:
        row.next_input()
        row_output = row.on_output(output(at, p_stop))
        frames += len(row_output.frames)
        events += [*row_output.before, *row_output.after]
    assert frames == 4 and row.is_finished, "the stop token decides, not attention on the end"
    p_eos = [p for e in events if isinstance(e, ev.Frames) for p in e.p_eos]
    assert p_eos == pytest.approx([0.1, 0.19, 0.352, 0.6112]), "accumulated: none of them alone reaches a half"
    words = [(e.type, e.i, e.sample // 600, e.source) for e in events if isinstance(e, ev.WordStart | ev.WordEnd)]
    assert words == [
        ("word_start", 1, 2, "attention"),
        ("word_end", 1, 4, "attention"),
        ("word_start", 2, 4, "attention"),
        ("word_end", 2, 6, "attention"),
    ]
    (segment,) = [e for e in events if isinstance(e, ev.Segment)]
    assert segment.words == [1, 2] and segment.seen == [1, 2]


def test_words_never_attended_to_share_the_remaining_frames():
    row = a_row(k=3)
    row.commit(["one", "two", "three"])
    row.end()
    events = []
    for p_stop in (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9):
        row.next_input()
        row_output = row.on_output(output(1, p_stop))
        events += [*row_output.before, *row_output.after]
    ends = [(e.i, e.sample // 600, e.source) for e in events if isinstance(e, ev.WordEnd)]
    assert ends == [(0, 2, "estimate"), (1, 3, "estimate"), (2, 6, "attention")]


def test_p_eos_of_a_word_is_the_attention_beyond_it():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.next_input()
    row.on_output(output(0))
    shares = np.zeros(7, np.float32)
    shares[[2, 5]] = 0.7, 0.3
    row.next_input()
    row_output = row.on_output(S5Output(np.zeros((1, 80), np.uint8), 0.9, shares, True))
    (made,) = [e for e in row_output.before if isinstance(e, ev.Frames)]
    assert made.p_eos == [pytest.approx(0.3)] and made.first_frame == 0 and len(row_output.frames) == 1


def test_a_word_that_does_not_end_is_cut():
    row = a_row(k=1)
    row.commit(["one", "two"])
    for _ in range(LIMITS.longest_word_frames + 1):
        row.next_input()
        row_output = row.on_output(output(1))
    (end,) = [e for e in row_output.after if isinstance(e, ev.Eos)]
    assert end.forced and end.frame == LIMITS.longest_word_frames


@pytest.mark.parametrize("reference", [NONE, REFERENCE], ids=["speaker", "reference"])
def test_the_context_restarts_after_a_cut_word(reference):
    """Lost attention does not recover while its own frames are in the context."""
    row = a_row(k=1, reference=reference)
    row.commit(["one", "two", "three", "four"])
    speak_word(row, 3)
    first = row.next_input().inputs
    said = len(reference.spelled) + 1
    for _ in range(LIMITS.longest_word_frames + 1):
        row.next_input()
        row_output = row.on_output(output(first.words.index(said)))
    assert [e.forced for e in row_output.after if isinstance(e, ev.Eos)] == [True]
    checkpoint = row.checkpoint()
    anew = row.next_input().inputs
    text = [*reference.spelled, spell(SAID["three"]), spell(SAID["four"])]
    assert anew.begins and [*anew.symbols] == [one for word in text for one in word]
    assert anew.at == anew.start == first.at + 1 + LIMITS.longest_word_frames and anew.position == 0
    assert np.array_equal(anew.frames, np.concatenate((reference.frames, SILENCE)))
    row.restore(checkpoint)
    again = row.next_input().inputs
    assert (again.begins, again.at, again.symbols) == (True, anew.at, anew.symbols), "a checkpoint remembers the cut"


def test_a_word_has_at_least_one_frame():
    row = a_row(k=1)
    row.commit(["one", "two", "three"])
    row.next_input()
    row_output = row.on_output(output(5))
    assert len(row_output.frames) == 1 and not row_output.after


def test_the_oldest_words_are_dropped_with_their_phonemes_and_frames():
    row = a_row(k=1)
    row.commit(["one", "two"] * 8)
    steps = [speak_word(row, 6)[0] for _ in range(14)]
    assert [s.start for s in steps[:7]] == [0] * 7 and steps[-1].start > 0
    assert all(s.at - s.start <= 11 + 46 for s in steps)
    forgotten = [s for s in steps if s.position]
    assert forgotten and all(s.words[0] == 0 for s in steps)
    # A place counts all phonemes since the text began: 4 of "one", 3 of "two", each with its space.
    assert forgotten[0].position == 4 + 3 + 4 + 3 and len(forgotten[0].words) < len(steps[6].words)
    assert all(b.at - a.at == 6 for a, b in pairwise(steps[1:]))


def test_a_reference_precedes_the_text():
    """The sums of W_j include the transcript; a token sees what the frame after it may see."""
    row = a_row(k=1, reference=REFERENCE)
    row.commit(["one", "two", "three"])
    first = row.next_input().inputs
    assert [*first.symbols] == [*FIVE, *spell(SAID["one"]), *spell(SAID["two"])]
    assert [*first.words] == [0] * len(FIVE) + [1] * 4 + [2] * 3
    assert np.array_equal(first.frames, np.concatenate((REFERENCE.frames, SILENCE))) and first.tokens == 1 + 9 + 10
    assert [*first.spoken] == [0] * 9 + [1] * 10 + [1], "nine frames of the reference, ten of silence, the first of one"
    row.on_output(output(len(FIVE)))
    row.next_input()
    row_output = row.on_output(output(len(FIVE) + 3))
    assert len(row_output.frames) == 1, "the last phoneme of its own word"
    row.next_input()
    row_output = row.on_output(output(len(FIVE) + 4))
    assert [e.i for e in row_output.after if isinstance(e, ev.WordEnd)] == [0]
    second = row.next_input().inputs
    assert (second.at, [*second.spoken], second.begins) == (1 + 9 + 10 + 2 - 1, [], False)
    assert second.words[-1] == 3


def test_a_full_slot_restarts_from_the_reference():
    row = a_row(k=1, reference=REFERENCE)
    row.commit(["one", "two"] * 8)
    steps = []
    for _ in range(14):
        step = row.next_input().inputs
        steps.append(step)
        here, inside = 1 + row.planned.speak[0] - row._first_word, 0
        inside = [*step.words].index(here)
        for n in range(7):
            row.next_input()
            row.on_output(output(len(step.words) - 1 if n == 6 else inside, level=n))
    (anew, *_) = [s for s in steps[1:] if s.begins]
    assert anew.at == anew.start == steps[steps.index(anew) - 1].at + 1 + 6 and anew.position == 0
    assert [*anew.symbols][: len(FIVE)] == FIVE and [*anew.words][: len(FIVE)] == [0] * len(FIVE)
    kept = len(anew.frames) - 9 - 10
    assert kept == 18 and anew.frames[-1, 0] == 5 and len(anew.spoken) == anew.tokens
    assert [*anew.spoken] == [0] * 9 + [1] * 10 + [1] * 6 + [2] * 6 + [3] * 6 + [4]
    after = steps[steps.index(anew) + 1]
    assert (after.begins, after.start, after.at) == (False, anew.start, anew.at + anew.tokens + 6 - 1)


def test_outputs_that_are_not_finite_raise():
    bad = output()
    bad.shares[3] = math.nan
    for wrong in (output(p_stop=math.nan), output(is_finite=False), bad):
        row = a_row()
        row.commit(["one", "two"])
        row.next_input()
        with pytest.raises(NotFinite):
            row.on_output(wrong)


def test_cancel_reports_the_last_frame():
    row = a_row()
    row.commit(["one", "two"])
    row.next_input()
    assert row.on_cancel() == []
    row.on_output(output(level=4))
    (last,) = row.on_cancel()
    assert last.first_frame == 0 and math.isnan(last.p_eos[0]) and last.levels[0, 0] == 4


def test_checkpoints_between_words():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    assert row.checkpoint() is not None
    speak_word(row, 3)
    checkpoint = row.checkpoint()
    straight = row.next_input().inputs
    assert row.checkpoint() is None, "a step is planned"
    row.on_output(output())
    assert row.checkpoint() is None, "within a word"
    row.restore(checkpoint)
    again = row.next_input().inputs
    assert (again.symbols, again.at, again.frame, again.position) == (straight.symbols, 13, 3, 0)
    assert np.array_equal(again.frames, straight.frames)


def test_rewrite_of_a_word_only_seen():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    speak_word(row, 3)
    checkpoint = row.checkpoint()
    speak_word(row, 2)
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(1, ["other"])
    row.restore(checkpoint)
    row.rewrite(1, ["other", "three"])
    assert [*row.next_input().inputs.symbols][4:] == [*spell(SAID["other"]), *spell(SAID["three"])]


def frames_of(step: S5StepInput) -> list[int]:
    """The levels that a step feeds."""
    return [int(frame[0]) for frame in step.frames]


def test_rewrite_feeds_steps_that_saw_the_word_again():
    row = a_row(k=1)
    row.commit(["one", "two", "three", "four"])
    row.end()
    speak_word(row, 3)
    second, _ = speak_word(row, 2)
    checkpoint = row.checkpoint()
    assert (checkpoint.spoken, checkpoint.fed, row.spoken, row.fed) == (2, 3, 2, 3)
    straight = row.next_input().inputs
    assert not straight.again and row.fed == 3, "a planned step has fed nothing yet"
    row.rewrite(2, ["other"])
    row.commit(["four"])
    wanted = row.next_input().inputs
    (again,) = wanted.again
    assert (again.at, again.start, again.begins, again.k) == (second.at, second.start, False, 1)
    assert frames_of(again) == [2, 0], "the last of the word before, and its own but the last"
    assert again.at + again.tokens == wanted.at and frames_of(wanted) == [1]
    assert [*again.symbols] == [*spell(SAID["one"]), *spell(SAID["two"]), *spell(SAID["other"])]
    row.on_output(output())
    row.restore(checkpoint)
    row.rewrite(2, ["other", "four"])
    assert not row.next_input().inputs.again, "it has already seen that word"
    row.rewrite(2, ["three", "four"])
    assert len(row.next_input().inputs.again) == 1
    with pytest.raises(AssertionError, match="restore a checkpoint first"):
        row.rewrite(1, ["other"])
    row.rewrite(2, [])
    row.end()
    assert row.next_input() is None and row.is_finished, "nothing follows"


def test_rewrite_after_the_end_shows_the_new_words():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.end()
    speak_word(row, 2)
    for p_stop in (0.0, 0.0, 0.9):
        row.next_input()
        row.on_output(output(1, p_stop))
    assert row.is_finished and row.fed > 1000 and row.checkpoint().fed > 1000, "the end is past every word"
    row.rewrite(2, ["three", "four"])
    row.end()
    (again,) = row.next_input().inputs.again
    assert END not in again.symbols and [*again.words] == [0] * 4 + [1] * 3 + [2] * 4 and not row.is_finished


def test_a_step_closed_by_a_flush_is_not_fed_again():
    row = a_row(k=1)
    row.commit(["one", "two"])
    row.flush()
    speak_word(row, 2)
    for p_stop in (0.0, 0.0, 0.9):
        row.next_input()
        row.on_output(output(1, p_stop))
    assert row.fed == 2
    row.commit(["three", "four"])
    row.rewrite(2, ["other", "four"])
    assert not row.next_input().inputs.again


def test_options_are_checked_and_apply_from_the_next_word():
    row = a_row(k=2)
    with pytest.raises(BadOption, match="k cannot be 4"):
        row.check({"k": 4})
    row.commit(["one", "two"])
    assert row.next_input() is None
    row.set_options({"k": 1}, 0.9)
    assert row.next_input().inputs.k == 1 and row.next_input().inputs.temperature == 0.9
