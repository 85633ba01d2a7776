"""The shipped DSM-TTS voice takes turns: who speaks is heard, whoever begins."""

from collections.abc import Iterator

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.folders import VOICES
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.measure.prosody import prosody
from studio.text.normalise import best

BEGINS, ANSWERS = "The rain has stopped, and the lake is still. ", "He had walked the whole day without seeing anybody."
FIRST_OF_ANSWER = len(BEGINS.split())
MILES = 2
MIDDLE_HZ = 125.0  # hers is about 170 Hz, his about 95


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    folder = tmp_path_factory.mktemp("voices")
    for name in ("siskin", "wren"):  # whose vocoder it has
        (folder / name).symlink_to(VOICES / name)
    found = open_engine(folder, best(), "cpu")
    yield found
    found.close()


def spoken(engine: LocalEngine, first: str, then: str) -> Trace:
    """By clara and, in the other turns, miles; a flush ends the first sentence."""
    who = {"guidance": 1.0, "other_speaker": MILES}
    utterance = engine.open(SpeakRequest(voice="siskin:clara", seed=3, options={**who, "turn": first}))
    utterance.push_text(BEGINS)
    utterance.flush()
    events: list[ev.Event] = []
    for one in utterance.events():
        events.append(one)
        if isinstance(one, ev.WordEnd) and one.i == FIRST_OF_ANSWER - 1:
            utterance.set_options({"turn": then})
            utterance.push_text(ANSWERS)
            utterance.end()
    return collect_trace(utterance.provenance, iter(events))


@pytest.mark.parametrize(
    ("first", "then", "is_hers"), [("main", "other", (True, False)), ("other", "main", (False, True))]
)
def test_each_turn_is_heard_as_who_has_it(
    engine: LocalEngine, first: str, then: str, is_hers: tuple[bool, bool]
) -> None:
    trace = spoken(engine, first, then)
    words = trace.words()
    cut = words[FIRST_OF_ANSWER].start
    assert cut is not None
    parts = (trace.pcm[:cut], trace.pcm[cut:])
    pitch_hz = [prosody(np.ascontiguousarray(one), trace.rate_hz).pitch_of(20) for one in parts]
    assert None not in pitch_hz and tuple(one > MIDDLE_HZ for one in pitch_hz) == is_hers, pitch_hz
