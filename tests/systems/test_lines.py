"""Programs of the line protocol, and functions of another Python."""

import shlex
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from systems.speaking import TEXT, failure, opened, spoken

from studio.core.errors import BadOption
from studio.core.events import Audio, Ended, Failed
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.systems.settings import check_system

PROGRAM = """
import json, math, os, random, struct, sys, time

def say(message, data=b""):
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\\n" + data)
    sys.stdout.buffer.flush()

say({"type": "ready", "rate_hz": 24000})
log = open(sys.argv[1], "a")
fault = random.Random(os.getpid()) if len(sys.argv) > 2 else None
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "start":
        chars = samples = 0
        print("start", os.getpid(), message["speaker"], file=log, flush=True)
    elif message["type"] == "text":
        for word in message["text"].split():
            data = struct.pack("<4800h", *(int(8000 * math.sin(k / 20)) for k in range(4800)))
            if fault and fault.random() < 0.1:
                say({"type": "audio", "bytes": len(data)}, data[:fault.randrange(len(data))])
                if fault.random() < 0.5:
                    time.sleep(60)
                sys.exit(3)
            say({"type": "audio", "bytes": len(data)}, data)
            at = message["text"].index(word)
            start = {"char_start": chars + at, "start_s": samples / 24000}
            say({"type": "word", **start, "char_end": chars + at + len(word), "end_s": (samples + 4800) / 24000})
            samples += 4800
        chars += len(message["text"])
    elif message["type"] == "end":
        say({"type": "end"})
"""
MODULE = """
import array
print("loaded")  # to standard error: it is no sound

def speak(texts, speaker):
    at = 0
    for text in texts:
        for word in text.split():
            yield {"char_start": at, "char_end": at + len(word), "start_s": at / 10, "end_s": (at + len(word)) / 10}
            yield array.array("h", [8000, -8000] * 800 * len(word))
            at += len(word) + 1
            if speaker == "bad":
                raise ValueError("no such speaker")

speak.rate_hz = 16000

def deaf(texts, speaker):
    yield b"\\x10\\x20" * 4800
"""


@pytest.fixture
def program(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "log")]
    return {"kind": "lines", "command": shlex.join(command)}


def entry(folder: Path, monkeypatch: pytest.MonkeyPatch, function: str, **more: Any) -> dict[str, Any]:
    """A system that is a function of a module in a folder."""
    (folder / "their_voice.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return {"kind": "python", "python": f"{shlex.quote(sys.executable)} their_voice:{function}", **more}


def test_words_and_their_times_come_back(program: dict[str, Any]) -> None:
    trace = spoken(program)
    assert isinstance(trace.events[-1], Ended), trace.events[-1]
    words = trace.words()
    assert [one.text for one in words] == TEXT.split() and {one.source for one in words} == {"aligner"}
    assert [(one.start, one.end) for one in words] == [(4800 * k, 4800 * (k + 1)) for k in range(len(words))]
    assert len(trace.pcm) == 4800 * len(words) and np.abs(trace.pcm).max() > 7000


def test_it_speaks_before_the_text_has_ended_and_is_kept(program: dict[str, Any], tmp_path: Path) -> None:
    with opened({**program, "voice": "ann"}) as engine:
        for _ in range(2):
            utterance = engine.open(SpeakRequest())
            utterance.push_text("One two ")
            events = utterance.events()
            next(one for one in events if isinstance(one, Audio))
            utterance.flush()
            utterance.push_text("three.")
            utterance.end()
            assert isinstance([*events][-1], Ended)
        started = (tmp_path / "log").read_text().splitlines()
        assert len(started) == 2 and len(set(started)) == 1 and started[0].endswith("ann"), "one process"
        utterance = engine.open(SpeakRequest())
        utterance.push_text("One two ")
        next(one for one in utterance.events() if isinstance(one, Audio))
        utterance.cancel(0)
        assert isinstance(speak_once(engine, SpeakRequest(), TEXT).events[-1], Ended)
        assert len(set((tmp_path / "log").read_text().splitlines())) == 2, "a cancelled one is not kept"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('no weights')", "ended: no weights"),
        ("print('hello')", "no line of the protocol"),
        ("print('{}')", "no line of the protocol"),
        ("print('x' * 100000)", "no line of the protocol"),
        ('print(\'{"type": "end"}\')', "did not begin with ready"),
        ('print(\'{"type": "ready", "rate_hz": 1}\')', "no line of the protocol"),
        ('print(\'{"type": "ready"}\\n{"type": "audio", "bytes": 9000000000}\')', "no line of the protocol"),
        ('print(\'{"type": "ready"}\\n{"type": "audio", "bytes": 10}\')', "ended: it said nothing"),
        ('print(\'{"type": "ready"}\\n{"type": "error", "message": "no voice"}\')', "says: no voice"),
        ('print(\'{"type": "ready"}\', flush=True); import time; time.sleep(60)', "sent nothing for 2 s"),
        ("import time; time.sleep(60)", "sent nothing for 2 s"),
    ],
)
def test_a_program_that_goes_wrong_fails_with_a_sentence(script: str, words: str) -> None:
    began_s = time.monotonic()
    system = {"kind": "lines", "command": shlex.join([sys.executable, "-c", script]), "timeout_s": 2.0}
    assert words in failure(system)
    assert time.monotonic() - began_s < 15


def test_random_cuts_and_stalls_end_in_failed_or_in_the_whole_speech(program: dict[str, Any]) -> None:
    faulty = {**program, "command": program["command"] + " faulty", "timeout_s": 2.0, "max_concurrent": 5}
    whole = 4800 * len(TEXT.split())
    with opened(faulty) as engine, ThreadPoolExecutor(5) as pool:
        runs = [pool.submit(speak_once, engine, SpeakRequest(), TEXT) for _ in range(25)]
        traces = [one.result(timeout=120) for one in runs]
        ends = [type(one.events[-1]) for one in traces]
        assert set(ends) == {Ended, Failed}
        assert {len(one.pcm) for one, end in zip(traces, ends, strict=True) if end is Ended} == {whole}
        assert engine.free_slots() == 5


def test_a_function_of_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = spoken(entry(tmp_path, monkeypatch, "speak"))
    assert isinstance(trace.events[-1], Ended), trace.events[-1]
    words = trace.words()
    assert [one.text for one in words] == TEXT.split() and {one.source for one in words} == {"aligner"}
    seconds = 0.1 * sum(len(one) for one in TEXT.split())
    assert abs(len(trace.pcm) - 24_000 * seconds) < 200, "resampled from 16 kHz"


def test_its_errors_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ValueError: no such speaker" in failure(entry(tmp_path, monkeypatch, "speak", voice="bad"))
    assert "no attribute 'sing'" in failure(entry(tmp_path, monkeypatch, "sing"))
    assert len(spoken(entry(tmp_path, monkeypatch, "deaf")).pcm) == 4800, "it reads no text"
    with pytest.raises(BadOption, match="module:function"):
        check_system("other", {"kind": "python", "python": "python their_voice"})
