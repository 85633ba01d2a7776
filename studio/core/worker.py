"""A Python process of lower priority for work that would otherwise hold the interpreter lock of the server.

Parsing a trace and the steps of a small net are many short Python operations. In a thread they delay the event loop and
the engine by a switch interval each time, which listeners hear. Functions and results are pickled; both ends run this
package.
"""

import atexit
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from studio.core.errors import StudioError, Unavailable

NICENESS = 5  # a third of the engine's share if both need the same core; more would stop it on a busy machine
POLL_S = 0.1  # how often a running call is checked
_ROOT = Path(__file__).resolve().parents[2]
_START = "from studio.core.worker import serve; serve()"
T = TypeVar("T")
_log = logging.getLogger(__name__)


def call_here(function: Callable[..., T], *arguments: Any) -> T:
    """``WorkerProcess.call`` for commands, which have no listeners: compute it in this process."""
    return function(*arguments)


class WorkerLost(Unavailable):
    """The process ended or was killed before it answered."""


class WorkerProcess:
    """A process that runs one function at a time; started by ``start`` or the first call.

    Thread-safe; calls run one after another. If no process can be started, they run in the caller's thread.

    Args:
        name: for messages.
        prepare: called in the new process before the first call: a function of a module.
        idle_s: the process ends after this time without a call, which frees its memory; None for never.
    """

    def __init__(self, name: str, prepare: Callable[[], object] | None = None, idle_s: float | None = None) -> None:
        self._name, self._setting = name, (prepare, idle_s)
        self._process: subprocess.Popen[bytes] | None = None
        self._can_start = bool(sys.executable) and not getattr(sys, "frozen", False)  # frozen: no Python interpreter
        self._calling, self._lock = threading.Lock(), threading.Lock()
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """The process id; None if it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the process; returns at once."""
        with self._lock:
            if not self._can_start or self.pid is not None:
                return
            _end(self._process)
            path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START],  # -P: do not import from the working directory
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **one_thread, "PYTHONPATH": path},
                )
            except OSError as error:
                self._can_start = False
                _log.warning("the %s process cannot start; its work is done in this process: %s", self._name, error)
                return
        with suppress(OSError):  # it has ended already: the call notices
            _send(process, self._setting)

    def call(
        self,
        function: Callable[..., T],
        *arguments: Any,
        should_continue: Callable[[], bool] = lambda: True,
        timeout_s: float = 600.0,
    ) -> T:
        """``function(*arguments)``, computed by the process.

        Args:
            function: of a module, or a ``functools.partial`` of one.
            should_continue: called every ``POLL_S`` seconds; once it is False, the process is ended.

        Raises:
            WorkerLost: the process ended, or did not answer in time; the next call starts another one.
        """
        with self._calling:
            self.start()
            process = self._process
            if process is None:
                return function(*arguments)
            answered = threading.Event()
            watch = threading.Thread(target=_watch, args=(process, answered, should_continue, timeout_s), daemon=True)
            watch.start()
            try:
                _send(process, (function, arguments))
                assert process.stdout is not None, "a pipe"
                is_result, value = pickle.load(process.stdout)
            except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
                self.close()
                _log.warning("the %s process did not answer and will be started again", self._name)
                raise WorkerLost(f"the {self._name} process did not answer", "try again") from error
            except BaseException:  # not pickled, or interrupted: its answer would be taken for that of the next call
                self.close()
                raise
            finally:
                answered.set()
        if not is_result:
            raise value
        return value

    def close(self) -> None:
        """End the process, if any; it has no state to lose."""
        with self._lock:
            process, self._process = self._process, None
        _end(process)


def _send(process: "subprocess.Popen[bytes]", what: Any) -> None:
    assert process.stdin is not None, "a pipe"
    pickle.dump(what, process.stdin)
    process.stdin.flush()


def _watch(
    process: "subprocess.Popen[bytes]", answered: threading.Event, should_continue: Callable[[], bool], timeout_s: float
) -> None:
    until_s = time.monotonic() + timeout_s
    while not answered.wait(POLL_S):
        if time.monotonic() > until_s or not should_continue():
            process.kill()
            return


def _end(process: "subprocess.Popen[bytes] | None") -> None:
    if process is None:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()


def serve() -> None:
    """Main loop: read functions from standard input, write results to standard output, end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    calls: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
    prepare, idle_s = pickle.load(sys.stdin.buffer)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    threading.Thread(target=_read, args=(calls,), daemon=True).start()
    if prepare is not None:
        prepare()
    while True:
        try:
            function, arguments = calls.get(timeout=idle_s)
        except Empty:
            os._exit(0)  # the thread that reads cannot be ended
        pickle.dump(_answer(function, arguments), answers)
        answers.flush()


def _read(calls: "SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]]") -> None:
    """Queue calls; the parent's end also ends a call that is running."""
    try:
        while True:
            calls.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(0)


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again by ``call``
        if not isinstance(error, StudioError):
            error.add_note("".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - any error of a foreign class
            return False, RuntimeError("".join(traceback.format_exception(error)))
        return False, error
