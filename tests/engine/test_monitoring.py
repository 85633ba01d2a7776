"""When a run of a module is stuck, and when its process only stood still."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from core.typing_desk import FakeClock
from tinyvoice import write_tiny_voice

from studio.engine.monitoring import Watchdog

MOST_MS = 1e9  # its own thread never looks


def test_a_run_is_stuck_that_was_seen_again_and_again() -> None:
    clock, told = FakeClock(), list[str]()
    watch = Watchdog(clock, MOST_MS, told.append)
    watch.start_run("decode")
    for _ in range(9):
        watch.check()
    assert not watch.hung_run and not told
    clock.ms += MOST_MS
    watch.check()
    assert watch.hung_run == "decode" and told == ["decode"]
    watch.end_run()
    assert not watch.hung_run
    watch.close()


def test_a_process_that_was_stopped_has_not_got_stuck() -> None:
    """A laptop that slept, a debugger: time has passed, and the run goes on now."""
    clock, told = FakeClock(), list[str]()
    watch = Watchdog(clock, MOST_MS, told.append)
    watch.start_run("decode")
    clock.ms += 10 * MOST_MS
    watch.check()
    assert not watch.hung_run and not told
    for _ in range(2):
        watch.check()
    assert told == ["decode"]
    watch.close()


TOLD = """
import json, sys, torch
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

def threads():
    return [torch.get_num_threads(), *{one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}]

threadpool_limits(2, user_api="blas")
torch.set_num_threads(2)
import studio
from pathlib import Path
from studio.engine.engine import open_engine
from studio.text.normalise import best
told = [threads()]
studio.synthesize("one two three", voices=sys.argv[1], m=2)
told.append(threads())
engines = [open_engine(Path(sys.argv[1]), best(), device="cpu") for _ in range(2)]
for engine in engines:
    engine.voice("tiny")
told.append(threads())
for engine in engines:
    engine.close()
    told.append(threads())
print(json.dumps(told))
"""


def test_speaking_gives_a_process_its_threads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")  # of SciPy's BLAS, which is loaded later
    write_tiny_voice(tmp_path)
    run = subprocess.run([sys.executable, "-c", TOLD, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    before, after, two_speak, one_speaks, none_speaks = json.loads(run.stdout)
    assert before == after == none_speaks == [2, 2]
    assert two_speak[1] == one_speaks[1] == 1, "the engine that is left rounds as before"
