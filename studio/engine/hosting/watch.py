"""A watch over the engine's thread: whoever waits for a run of a module that does not come back is told.

Nothing can break it off from outside, so every utterance ends, nobody new waits, and ``/health`` says it.
"""

import logging
import math
import threading
from collections.abc import Callable

from studio.core.time import Clock

_LOOKS = 4  # for each time that a run may take

_log = logging.getLogger(__name__)


class Watch:
    """Knows which run is under way, and since when.

    Args:
        most_ms: a run that takes longer is stuck; infinity watches nothing.
        give_up: told of a run that got stuck, on the watch's thread, while the engine's cannot go on.
    """

    def __init__(
        self, clock: Clock, most_ms: float = math.inf, give_up: Callable[[str], None] = lambda _: None
    ) -> None:
        self._clock, self._most_ms, self._give_up = clock, most_ms, give_up
        self._lock = threading.Lock()
        self._what, self._began_ms, self._looks = "", 0.0, 0
        self._stuck = ""
        self._over = threading.Event()
        if math.isfinite(most_ms):
            threading.Thread(target=self._look_on, name="engine-watch", daemon=True).start()

    @property
    def stuck(self) -> str:
        """The run that takes too long; empty where none does."""
        return self._stuck

    def began(self, what: str) -> None:
        """A run begins."""
        with self._lock:
            self._what, self._began_ms, self._looks = what, self._clock.now_ms(), 0

    def ended(self) -> None:
        """It came back; whoever was given up meanwhile stays so."""
        with self._lock:
            if self._stuck:
                _log.warning("%s came back after %.0f s", self._what, (self._clock.now_ms() - self._began_ms) / 1000.0)
            self._what = self._stuck = ""

    def close(self) -> None:
        """Watch no longer."""
        self._over.set()

    def look(self) -> None:
        """See how the run goes on; done by the watch's own thread, four times in what a run may take."""
        with self._lock:  # the run cannot come back in between
            self._looks += 1  # a process that was stopped for long has not looked meanwhile: its run goes on
            is_long = self._clock.now_ms() - self._began_ms >= self._most_ms and self._looks >= _LOOKS - 1
            if not self._what or self._stuck or not is_long:
                return
            self._stuck = self._what
            _log.error("%s does not come back; all utterances are given up", self._what)
            self._give_up(self._what)

    def _look_on(self) -> None:
        while not self._over.wait(self._most_ms / 1000.0 / _LOOKS):
            self.look()
