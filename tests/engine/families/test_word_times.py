"""Word events at the sound of their words: pauses, closures, clicks, revisions."""

import numpy as np
import pytest

from studio.core.events import Event, Segment, WordEnd, WordStart
from studio.engine.families.base import RowOutput
from studio.engine.families.common.word_times import WordTimes

FRAME = 600
SILENT, LOUD = 0.0, 60.0


def word_times() -> WordTimes:
    """Frames are their own energies in dB."""
    return WordTimes(FRAME, lambda frames: frames, np.full(4, SILENT))


def spoken(pattern: str, events: dict[int, list[Event]], chunk: int = 1) -> list[tuple[str, int, int]]:
    """Moved word events (kind, word, frame) of frames "#" (sound) and "." (silence).

    Args:
        events: sent before the frame of their key, or after the last one.
        chunk: frames of an output.
    """
    rule, moved = word_times(), list[Event]()
    for first in range(0, len(pattern), chunk):
        here = range(first, min(first + chunk, len(pattern)))
        before = [event for k in here for event in events.get(k, [])]
        is_last = here.stop == len(pattern)
        frames = np.array([LOUD if pattern[k] == "#" else SILENT for k in here])
        output = rule.move(RowOutput(frames, before, events.get(len(pattern), []) if is_last else []))
        moved += [*output.before, *output.after]
    return [(one.type, one.i, one.sample // FRAME) for one in moved if isinstance(one, WordStart | WordEnd)]


def start(i: int, frame: int) -> WordStart:
    return WordStart(i=i, sample=frame * FRAME, source="eos")


def end(i: int, frame: int) -> WordEnd:
    return WordEnd(i=i, sample=frame * FRAME, source="eos")


@pytest.mark.parametrize("chunk", [1, 3, 12])
@pytest.mark.parametrize("boundary", [4, 6, 8, 9, 10])
def test_a_pause_belongs_to_no_word(chunk, boundary):
    events = {0: [start(0, 0)], boundary: [end(0, boundary), start(1, boundary)], 12: [end(1, 12)]}
    found = spoken("####.....###", events, chunk)
    if chunk > 1:  # the events of an output come before all of its frames
        assert sorted(found) == sorted(spoken("####.....###", events, 1))
    assert {(kind, i): frame for kind, i, frame in found} == {
        ("word_start", 0): 0,
        ("word_end", 0): 4,
        ("word_start", 1): 9,
        ("word_end", 1): 12,
    }


@pytest.mark.parametrize(("pattern", "boundary"), [("####..##", 4), ("###......", 3)])
def test_silence_of_a_stop_or_of_a_whole_word_moves_nothing(pattern, boundary):
    last = len(pattern)
    events = {0: [start(0, 0)], boundary: [end(0, boundary), start(1, boundary)], last: [end(1, last)]}
    times = [("word_start", 0, 0), ("word_end", 0, boundary), ("word_start", 1, boundary), ("word_end", 1, last)]
    assert spoken(pattern, events) == times


def test_leading_silence_and_a_click_are_no_onset():
    assert spoken("..#....###", {0: [start(0, 0)], 10: [end(0, 10)]}) == [("word_start", 0, 7), ("word_end", 0, 10)]


def test_start_comes_with_its_sound_and_not_before():
    rule = word_times()
    segment = Segment(index=0, words=[0], seen=[0], sample=0, frame=0)
    first = rule.move(RowOutput(np.full(5, SILENT), [segment, start(0, 0)]))
    assert first.before == [segment] and not first.after
    second = rule.move(RowOutput(np.full(2, LOUD)))
    assert second.before == [start(0, 5)], "the frames are known before their samples"


def test_a_revision_returns_to_a_checkpoint():
    rule = word_times()
    rule.move(RowOutput(np.full(4, LOUD), [start(0, 0)], [end(0, 4)]))
    point = rule.checkpoint()
    rule.move(RowOutput(np.full(5, SILENT), [start(1, 4)]))
    after = rule.checkpoint()
    for _ in range(2):
        rule.restore(point)
        assert rule.move(RowOutput(np.full(6, LOUD), [start(1, 4)])).before == [start(1, 4)]
    rule.restore(point)
    rule.move(RowOutput(np.full(5, SILENT), [start(1, 4)]))
    assert rule.checkpoint() == after
    assert rule.move(RowOutput(np.full(2, LOUD))).before == [start(1, 9)]


def test_stored_frames_are_bounded():
    rule = word_times()
    for _ in range(40):
        rule.move(RowOutput(np.full(1000, LOUD)))
    rule.move(RowOutput(np.full(6, SILENT)))
    assert rule.move(RowOutput(np.full(2, LOUD), [start(0, 40_002)])).before == [start(0, 40_006)]
    assert len(rule._db) < 10_000
