"""T5-TTS's rule and row by table: whole sentences, chunks of frames, words, marks, without a net."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.time import TimeBase
from studio.engine.families.base import NotFinite, Revisable, Turn
from studio.engine.families.s5.net import S5
from studio.engine.families.s5.net import Config as S5Config
from studio.engine.families.s5.step import Drawn, Reference, WordStep
from studio.engine.families.spelling import END, spell
from studio.engine.families.t5.net import T5, Config
from studio.engine.families.t5.row import T5Row
from studio.engine.families.t5.rule import MOST_WORDS, Options

SILENCE = np.full((10, 80), 3, np.uint8)
NONE = Reference([], SILENCE[:0], [])
SAID = {"one": "wˈʌn", "two": "tˈu", "three.": "θɹˈi.", "four": "fˈɔɹ", "five.": "fˈIv.", "a": "ɐ"}
TEXT = ["one", "two", "three.", "four", "five."]


def pronounce(words: Sequence[str]) -> list[str]:
    return [SAID[word] for word in words]


def a_row(reference: Reference = NONE, **options: Any) -> T5Row:
    base = TimeBase(24_000, 600, 300)
    given = {"chunk_frames": 3, **options}
    return T5Row((5,), base, SILENCE, reference, 4, pronounce, speaker=1, options=given, temperature=0.5, seed=9)


def drawn(at: int = 0, p_stop: float = 0.0, level: int = 7, is_finite: bool = True) -> Drawn:
    """A frame; the attention is at one encoder step."""
    shares = np.zeros(60, np.float32)
    shares[at] = 1.0
    return Drawn(np.full((1, 80), level, np.uint8), p_stop, shares, is_finite)


def speak(row: T5Row, frames: int, at: Sequence[int] = ()) -> tuple[WordStep, list[Turn]]:
    """A sentence of so many frames to its end: what was read, and every turn; ``at`` where each frame attends."""
    want = row.want()
    assert want is not None and want.module == "word" and row.want() is want
    turns = [row.took(drawn(*at[:1], level=0))]
    for n in range(1, frames):
        assert row.want().module == "decode" and row.mark() is None
        turns.append(row.took(drawn(*at[n : n + 1], level=n)))
    row.want()
    turns.append(row.took(drawn(p_stop=0.9, level=99)))
    return want.inputs, turns


def told(turns: Sequence[Turn]) -> list[ev.Event]:
    return [event for turn in turns for event in (*turn.before, *turn.after)]


def test_a_sentence_is_read_whole_and_nothing_before_it_is_heard():
    row = a_row()
    for word in TEXT[:2]:
        row.commit([word])
        assert row.want() is None, "the sentence has not ended"
    row.commit(TEXT[2:4])
    step, _ = speak(row, 4)
    spelled = [spell(SAID[word]) for word in TEXT[:3]]
    assert [*step.symbols] == [*[i for word in spelled for i in word], END], "and the end of a text of its own"
    assert [*step.words] == [*[i for i, word in enumerate(spelled) for _ in word], 3]
    assert (step.start, step.at, step.begins, step.place, step.k) == (0, 0, True, 0, 0)
    assert np.array_equal(step.frames, SILENCE) and not step.spoken
    assert row.want() is None and row.unspoken == 1
    row.end()
    later, _ = speak(row, 2)
    assert [*later.symbols] == [*spell(SAID["four"]), END] and (later.frame, later.at) == (4, 0)
    assert row.over


@pytest.mark.parametrize(
    ("chunk", "lengths"), [(1, [1, 1, 1, 1, 1, 1, 1, 0]), (3, [0, 0, 3, 0, 0, 3, 0, 1]), (14, [0] * 7 + [7])]
)
def test_frames_are_heard_by_chunks_and_told_once_each(chunk, lengths):
    """The n-th frame completes a chunk: nobody waits for the step after it, which tells its p."""
    row = a_row(chunk_frames=chunk)
    row.commit(TEXT[:3])
    _, turns = speak(row, 7)
    assert [len(turn.frames) for turn in turns] == lengths and turns[-1].is_request_end
    heard = np.concatenate([turn.frames for turn in turns])
    assert heard[:, 0].tolist() == [*range(7)]
    frames = [one for one in told(turns) if isinstance(one, ev.Frames)]
    assert [one.first_frame for one in frames] == [*np.cumsum([0] + [len(one.p_eos) for one in frames[:-1]])]
    assert np.array_equal(np.concatenate([one.levels for one in frames]), heard)
    assert [p for one in frames for p in one.p_eos] == [0.0] * 6 + [0.9]
    heard_frames = 0
    for turn in turns:
        heard_frames += len(turn.frames)
        assert all(e.first_frame + len(e.levels) <= heard_frames for e in turn.before if isinstance(e, ev.Frames))


def test_words_are_told_with_the_chunk_in_which_they_are():
    row = a_row(chunk_frames=4)
    row.commit(TEXT[:3])
    one, two = (len(spell(SAID[word])) for word in TEXT[:2])
    _, turns = speak(row, 6, at=[0, 0, one, one, one, one + two])
    words = [
        (n, e.type, e.i, e.sample // 600, e.source)
        for n, turn in enumerate(turns)
        for e in (*turn.before, *turn.after)
        if isinstance(e, ev.WordStart | ev.WordEnd)
    ]
    assert words == [
        (3, "word_start", 0, 0, "attention"),
        (3, "word_end", 0, 2, "attention"),
        (3, "word_start", 1, 2, "attention"),
        (6, "word_end", 1, 5, "attention"),
        (6, "word_start", 2, 5, "attention"),
        (6, "word_end", 2, 6, "attention"),
    ]
    events = told(turns)
    assert isinstance(events[0], ev.Segment) and events[0].words == events[0].seen == [0, 1, 2]
    assert isinstance(events[-1], ev.Eos) and (events[-1].frame, events[-1].forced) == (6, False)


def test_a_long_sentence_is_read_in_parts_and_a_flush_ends_one():
    row = a_row(sentence_words=2)
    row.commit(TEXT[:3])
    assert [len(speak(row, 2)[0].symbols) for _ in range(2)] == [
        sum(len(spell(SAID[word])) for word in words) + 1 for words in (TEXT[:2], TEXT[2:3])
    ]
    row = a_row()
    row.commit(["one"])
    row.flush()
    row.commit(["two"])
    assert [*speak(row, 2)[0].symbols] == [*spell(SAID["one"]), END]
    assert row.want() is None and row.unspoken == 1
    assert Options().look_ahead_words == MOST_WORDS - 1


def test_a_reference_goes_before_every_sentence():
    said = Reference([spell(SAID["a"]), spell(SAID["one"])], np.full((6, 80), 5, np.uint8), [])
    row = a_row(said, chunk_frames=1)
    row.commit([*TEXT])
    for sentence in (TEXT[:3], TEXT[3:]):
        before = [*said.spelled[0], *said.spelled[1]]
        first = len(before) + len(spell(SAID[sentence[0]]))
        step, turns = speak(row, 3, at=[0, len(before), first])
        assert [*step.symbols][: len(before)] == before and step.words[len(before)] == 2
        assert np.array_equal(step.frames, np.concatenate((said.frames, SILENCE)))
        ends = [e.sample // 600 - step.frame for e in told(turns) if isinstance(e, ev.WordEnd)]
        assert ends[0] == 2, "the sums of W_j hold the reference's phonemes"


def test_a_sentence_that_does_not_end_is_cut():
    row = a_row()
    row.commit(["one", "two"])
    row.end()
    heard, events = 0, []
    while row.want() is not None:
        turn = row.took(drawn())
        heard, events = heard + len(turn.frames), [*events, *turn.before, *turn.after]
    (end,) = [one for one in events if isinstance(one, ev.Eos)]
    assert end.forced and end.frame == heard == 8


def test_marks_lie_between_sentences_and_lead_back():
    row = a_row()
    assert isinstance(row, Revisable)
    row.commit(TEXT)
    speak(row, 4)
    mark = row.mark()
    assert mark is not None and (mark.spoken, mark.fed) == (3, 3)
    straight, first = speak(row, 5)
    row.back(mark)
    assert row.unspoken == 2
    again, second = speak(row, 5)
    assert (again.symbols, again.frame) == (straight.symbols, straight.frame)
    assert [e.type for e in told(first)] == [e.type for e in told(second)]
    row.back(mark)
    row.rewrite(3, ["one", "five."])
    assert [*speak(row, 2)[0].symbols][:4] == spell(SAID["one"])


def test_what_is_cut_short_tells_what_was_heard_and_what_is_no_number_is_told():
    row = a_row(chunk_frames=2)
    row.commit(TEXT[:3])
    told_frames = 0
    for n in range(5):
        row.want()
        turn = row.took(drawn(level=n))
        told_frames += sum(len(e.levels) for e in turn.before if isinstance(e, ev.Frames))
        heard = 2 * ((n + 1) // 2)
        rest = row.broken_off()
        assert told_frames + sum(len(e.levels) for e in rest) == heard, "no frame that nobody heard"
        assert all(math.isnan(e.p_eos[0]) and e.first_frame == heard - 1 for e in rest)
    row.want()
    with pytest.raises(NotFinite):
        row.took(drawn(is_finite=False))


@pytest.mark.parametrize(
    "options", [{"sentence_words": 0}, {"sentence_words": 61}, {"chunk_frames": True}, {"chunk_frames": "14"}]
)
def test_options_that_do_not_fit_say_what_is_allowed(options):
    with pytest.raises(BadOption, match=r"cannot be .* it is a whole number from 1 to 60"):
        Options(**options)


def test_sizes_are_those_of_the_s5_beside_it_and_there_are_no_masks():
    for name, most in (("paper", 163.2e6), ("small", 3e6), ("tiny", 1e6)):
        config = Config.named(name)
        with torch.device("meta"):
            net, beside = T5(config), S5(S5Config.named(name))
        dropped = sum(p.numel() for part in (beside.look_ahead, beside.aligner) for p in part.parameters())
        count = sum(p.numel() for p in net.parameters())
        assert count == sum(p.numel() for p in beside.parameters()) - dropped and count < most
        assert not (config.encoder_mask or config.decoder_mask)
    assert [a < b for a, b in pairwise([30 / 86.1, Options().chunk_frames * 0.025, 31 / 86.1])] == [True, True]
    with pytest.raises(BadOption, match="T5-TTS has no look-ahead masks"):
        Config(1, 1, 32, 2, 64, 2, encoder_mask=True)
