"""The worker process: results, errors, interruption, its end, and its priority."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from studio.core.errors import BadFile
from studio.core.traces.trace import open_trace
from studio.core.worker import NICENESS, WorkerLost, WorkerProcess


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    made = WorkerProcess("test")
    yield made
    made.close()


def test_call_returns_the_result_of_another_process(worker: WorkerProcess) -> None:
    assert worker.pid is None
    assert worker.call(pow, 3, 4) == 81 and worker.call(partial(divmod, 7), 2) == (3, 1)
    assert worker.call(os.getpid) == worker.pid != os.getpid()
    large = os.urandom(3_000_000)
    assert worker.call(bytes, large) == large


def test_process_has_a_lower_priority(worker: WorkerProcess) -> None:
    assert worker.call(os.nice, 0) == min(19, os.nice(0) + NICENESS)


def test_errors_are_raised_as_they_were(worker: WorkerProcess) -> None:
    with pytest.raises(ZeroDivisionError) as found:
        worker.call(divmod, 1, 0)
    assert "Traceback" in "".join(found.value.__notes__)
    pid = worker.pid
    with pytest.raises(BadFile) as found:
        worker.call(open_trace, Path("/nowhere/at/all"))
    assert found.value.what and found.value.do and str(found.value) == f"{found.value.what}; {found.value.do}"
    assert worker.call(os.getpid) == pid, "it goes on"


def test_what_cannot_be_sent_ends_the_process_and_not_the_next_call(worker: WorkerProcess) -> None:
    with pytest.raises(Exception, match="pickle"):
        worker.call(lambda: 1)
    assert worker.call(abs, -1) == 1


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_dead_or_hung_process_is_replaced(worker: WorkerProcess, sign: signal.Signals) -> None:
    worker.call(abs, 1)
    first = worker.pid
    assert first is not None
    with pytest.raises(WorkerLost):
        worker.call(os.kill, first, sign, timeout_s=5.0)
        worker.call(abs, 1, timeout_s=0.5)
    assert worker.call(os.getpid) != first


def test_call_that_nobody_waits_for_is_interrupted(worker: WorkerProcess) -> None:
    worker.call(abs, 1)
    began_s = time.monotonic()
    with pytest.raises(WorkerLost):
        worker.call(time.sleep, 60.0, should_continue=lambda: time.monotonic() < began_s + 0.3)
    assert time.monotonic() - began_s < 30.0 and worker.pid is None


def test_idle_process_ends_and_another_one_answers() -> None:
    worker = WorkerProcess("test", idle_s=0.2)
    first = worker.call(os.getpid)
    until_s = time.monotonic() + 60.0
    while worker.pid is not None and time.monotonic() < until_s:
        time.sleep(0.02)
    assert worker.pid is None and worker.call(os.getpid) != first
    worker.close()


def test_without_a_process_calls_run_here(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    caplog.set_level("WARNING")
    assert [worker.call(os.getpid), worker.call(os.getpid)] == [os.getpid()] * 2 and len(caplog.records) == 1


def test_process_ends_with_its_parent() -> None:
    """Also while it computes: a server that is killed leaves nothing behind."""
    script = (
        "import os, sys, threading, time\n"
        "from studio.core.worker import WorkerProcess\n"
        "worker = WorkerProcess('test')\n"
        "print(worker.call(os.getpid), flush=True)\n"
        "threading.Thread(target=worker.call, args=(time.sleep, 300.0), daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    pid, until_s = int(done.stdout), time.monotonic() + 60.0
    while _is_alive(pid) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
