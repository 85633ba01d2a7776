"""What a net says of words that no dictionary holds: remembered, and asked for without holding anybody up."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue

from studio.text.guessing import Guesser, Said

_KEPT_WORDS = 20_000  # those used last; the net takes 10 to 200 ms a word


class Guesses:
    """Answers at once what it remembers; what it does not is asked of another process where one may wait.

    Args:
        net: says a word in this process.
    """

    def __init__(self, net: Callable[[str], Said]) -> None:
        self._net, self._process = net, Guesser()
        self._kept: dict[str, Said] = {}
        self._lock = threading.Lock()  # of what is kept and of the thread; never held while anything is asked
        self._queue: SimpleQueue[tuple[deque[str], Future[None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, word: str) -> Said:
        """What the net says; for who cannot wait, it is asked in this thread."""
        said = self.kept(word)
        return self._keep(word, self._net(word)) if said is None else said

    def kept(self, word: str) -> Said | None:
        """What is remembered; None where the net would have to be asked."""
        with self._lock:
            said = self._kept.pop(word, None)
            if said is not None:
                self._kept[word] = said  # the last to be forgotten
        return said

    def begin(self) -> None:
        """Let the process begin that will be asked."""
        self._process.begin()

    def ask(self, words: Iterable[str]) -> Future[None]:
        """Have words remembered: done when they are, unless it is cancelled before. Those who ask take turns."""
        asked = deque(words), Future[None]()
        self._queue.put(asked)
        with self._lock:
            if self._thread is None:
                # No pool: the end of the program would wait for it, whatever the process does.
                self._thread = threading.Thread(target=self._serve, name="guessing", daemon=True)
                self._thread.start()
        return asked[1]

    def _serve(self) -> None:
        while True:
            words, done = self._queue.get()
            try:
                if words and not done.cancelled():
                    self._ask(words.popleft())
            except Exception as error:  # noqa: BLE001 - whoever waits is told, and the thread goes on
                if done.set_running_or_notify_cancel():
                    done.set_exception(error)
                continue
            if words and not done.cancelled():
                self._queue.put((words, done))
            elif done.set_running_or_notify_cancel():
                done.set_result(None)

    def _ask(self, word: str) -> None:
        if self.kept(word) is None:
            said = self._process(word)
            self._keep(word, self._net(word) if said is None else said)

    def _keep(self, word: str, said: Said) -> Said:
        with self._lock:
            self._kept[word] = said
            if len(self._kept) > _KEPT_WORDS:
                del self._kept[next(iter(self._kept))]
        return said
