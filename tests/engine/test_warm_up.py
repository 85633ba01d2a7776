"""A voice that is warmed up before its first listener: nobody counts it, waits for it or hears it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from listening import samples, say
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.vocoders.module import VocodeModule
from studio.text.normalise import best

TEXT = "good morning to you all "
WAIT_S = 60.0


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root)
    return root


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each run of a vocoder."""
    found: list[int] = []
    run = VocodeModule.run

    def counted(self: VocodeModule, *arguments: Any) -> Any:
        found.append(len(arguments[1]))
        return run(self, *arguments)

    monkeypatch.setattr(VocodeModule, "run", counted)
    return found


@pytest.fixture
def engine(voices: Path, runs: list[int]) -> Iterator[LocalEngine]:
    opened = open_engine(voices, best(), device="cpu", threads=1, slots=1, warms_up=True)
    yield opened
    opened.close()


def test_a_warm_voice_has_spoken_and_left_no_trace_of_it(engine: LocalEngine, runs: list[int], voices: Path) -> None:
    until_s = time.monotonic() + WAIT_S
    while not runs:
        assert time.monotonic() < until_s, "the voice was never warmed up"
        time.sleep(0.01)
    load = engine.load()
    assert (load.opened, load.speaking, load.audio_s, load.failed, load.modules) == (0, 0, 0.0, 0, ())
    assert engine.free_slots() == 1
    warm = samples([*say(engine, TEXT).events()])
    assert engine.load().opened == 1
    cold = open_engine(voices, best(), device="cpu", threads=1, slots=1)
    try:
        assert np.array_equal(warm, samples([*say(cold, TEXT).events()])), "no sample depends on it"
    finally:
        cold.close()


def test_a_listener_ends_it(engine: LocalEngine) -> None:
    """The only slot is free for whoever comes, also in the middle of it."""
    utterance = engine.open(SpeakRequest(may_wait=False))
    utterance.push_text("good morning ")
    utterance.end()
    assert isinstance([*utterance.events()][-1], ev.Ended)
    assert len(engine.voice("tiny").free_slots) == 1
