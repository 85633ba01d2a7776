"""An engine over a tiny voice, and a stepwise listener that collects an utterance's events."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import Engine, SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.text.normalise import best

FRAME = 600  # samples


def tiny_engine(root: Path, slots: int = 4, **voice: Any) -> LocalEngine:
    """An engine over a tiny voice written to a folder."""
    write_tiny_voice(root, **voice)
    return open_engine(root, best(), device="cpu", threads=1, slots=slots)


def say(engine: Engine, text: str, **request: Any) -> Any:
    """An utterance of a whole text."""
    utterance = engine.open(SpeakRequest(**request))
    utterance.push_text(text)
    utterance.end()
    return utterance


def of(kind: type, events: list[ev.Event]) -> list[Any]:
    """The events of a kind."""
    return [one for one in events if isinstance(one, kind)]


def samples(events: list[ev.Event]) -> np.ndarray:
    """All PCM of events, int16."""
    return np.concatenate([one.pcm for one in of(ev.Audio, events)] or [np.zeros(0, np.int16)])


class Listener:
    """An utterance and all events received from it."""

    def __init__(self, engine: LocalEngine, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.utterance = engine.open(SpeakRequest(seed=3, options=options or {}, **more))
        self._stream = self.utterance.events()
        self.events: list[ev.Event] = []

    def until(self, kind: type[ev.Event], count: int = 1) -> ev.Event:
        """Receive so many more events of a kind; the last one."""
        while count:
            self.events.append(next(self._stream))
            assert not ev.is_last(self.events[-1]) or kind is ev.Ended, self.events[-1]
            count -= isinstance(self.events[-1], kind)
        return self.events[-1]

    def held(self) -> None:
        """Receive all that its credit allows."""
        while self._heard_samples() + FRAME <= (self.utterance._credit_until or 0):
            self.until(ev.Audio)

    def _heard_samples(self) -> int:
        for event in reversed(self.events):  # the engine's counter may be ahead of its events
            if isinstance(event, ev.Audio):
                return event.sample + len(event.pcm)
            if isinstance(event, ev.Revised):
                return event.from_sample
        return 0

    def rest(self) -> Trace:
        """Run it to its end."""
        self.utterance.grant(10**9)
        self.events += self._stream
        return collect_trace({}, self.events)

    def of(self, kind: type[ev.Event]) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def is_consistent(trace: Trace) -> None:
    """Check laws 4 and 5 on the events in force."""
    assert isinstance(trace.events[-1], ev.Ended) and trace.events[-1].samples == len(trace.pcm)
    assert len(trace.frames) == len(trace.p_eos) == len(trace.pcm) // FRAME
    assert [word.i for word in trace.words()] == [i for one in trace.segments() for i in one.words]
    starts = [word.start for word in trace.words()]
    assert None not in starts and starts == sorted(starts)
