"""Ports: interfaces of the engine, its load, an utterance and a text normaliser for other packages.

``serve`` and ``ui`` use engines only through these.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from studio.core.cards import Card
from studio.core.events import Event

MAX_TEMPERATURE = 2.0
PLAYED_REPORT_MS = 50.0  # interval at which players report their playback position (docs/protocol.md)
MAX_SEED = 2**53 - 1  # the largest integer that JavaScript holds exactly
MAX_QUEUE = 1000  # utterances that may wait for a slot


@dataclass(frozen=True)
class SpeakRequest:
    """How to speak an utterance.

    Attributes:
        voice: ``name`` or ``name:speaker``; empty for the engine's first voice.
        seed: the noise is a function of (seed, frame, channel), so a seed repeats an utterance; 0 to MAX_SEED.
        temperature: None for the card's own; 0 is greedy.
        options: the family's options by name (SpeakStream: scheme, m, n); absent ones take their defaults.
        credit_samples: how many samples may be made before ``grant`` is called; None for no limit.
        is_guest: leaves one slot (of several) and half of the queue free for others.
        may_wait: whether it may queue for a slot; Busy if it may not and none is free.
        client: identity of the caller, such as a network address; clients with fewer slots are admitted first.
        via: ids of the third-party systems through which the request came (``studio.core.via``).
    """

    voice: str = ""
    seed: int = 0
    temperature: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    credit_samples: int | None = None
    is_guest: bool = False
    may_wait: bool = True
    client: str = ""
    via: tuple[str, ...] = ()


class Utterance(Protocol):
    """Thread-safe client API of an utterance: one stream of text in and events out, for one listener.

    Without a free slot the utterance waits in a queue, and ``queued`` events report its place. Text is accepted
    meanwhile and spoken after ``ready``. An utterance that ends in the queue has no ``ready``.
    """

    id: int
    card: Card
    provenance: Mapping[str, Any]  # see ``studio.core.traces.provenance``

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed after ``end`` or ``cancel``, Full while too much text waits to be spoken."""
        ...

    def flush(self) -> None:
        """Speak every committed word without waiting for more; the utterance goes on. Raises Closed."""
        ...

    def end(self) -> None:
        """End the text: commit the last token and speak everything. Raises Closed."""
        ...

    def cancel(self, played_sample: int = 0) -> None:
        """Stop. A ``cancelled`` event reports what had been played, then ``ended`` follows."""
        ...

    def settled_chars(self) -> int:
        """Length of the text as sent that can no longer be revised: it was played, or is being spoken."""
        ...

    def revise(self, char_start: int, text: str) -> None:
        """Replace the text as sent from a character on; ``""`` deletes it.

        Unplayed sound of the old text is taken back; ``revised`` reports from which sample on. An
        utterance whose text has ended stays ended.

        Raises:
            TooLate: ``char_start`` lies before ``settled_chars``; call again with what can still be changed.
            BadText: ``char_start`` lies past the end of the text as sent.
            Closed: after ``cancel``, or when everything was spoken.
        """
        ...

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """Change options from the next segment on. Raises BadOption, Closed."""
        ...

    def grant(self, until_sample: int) -> None:
        """Allow samples up to this one (flow control by the receiver); smaller values are ignored."""
        ...

    def played(self, sample: int) -> None:
        """Report the playback position: everything before ``sample`` was played; recorded as an event."""
        ...

    def set_pace(self, pace: float) -> None:
        """Say how fast the listener plays the samples: 2 for twice as fast. To be called before any text is sent.

        Waits, what the listener has left to play, and what can still be revised are measured with it.
        """
        ...

    def add_event(self, event: Event) -> None:
        """Add an event of the caller (``edited``, a ``network`` wait) to the stream; its t_ms is set here."""
        ...

    def set_listener(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, from any thread, when ``poll_events`` has something new. It must be quick."""
        ...

    def poll_events(self, limit: int | None = None) -> list[Event]:
        """Events since the last call, at most ``limit``, without blocking; for callers that use ``set_listener``.

        While about a thousand events are pending, no more sound is made and no more text is read.
        """
        ...

    def events(self) -> Iterator[Event]:
        """Every event in order, blocking until the next one; ends after ``ended`` or ``failed``."""
        ...


class Engine(Protocol):
    """Hosts voices and speaks utterances."""

    def cards(self) -> Sequence[Card]:
        """Cards of the available voices, the default first."""
        ...

    def open(self, request: SpeakRequest) -> Utterance:
        """Begin an utterance, or queue it for a slot: first come, first served among clients with equally few slots.

        In a full queue, the last utterance of the client with the most entries fails with ``busy`` if that makes
        room for a client with fewer.

        Raises:
            BadVoice, BadOption: the request cannot be spoken.
            Busy: every slot is taken and the queue is full.
            Closing: ``drain`` was called.
            Stuck: a model step hung.
        """
        ...

    def is_loaded(self, voice: str) -> bool:
        """Whether the voice of this name is in memory; loading takes seconds."""
        ...

    def free_slots(self) -> int:
        """How many more utterances can begin now; 0 while any is queued."""
        ...

    def drain(self) -> None:
        """Refuse new utterances; running ones take no more text, speak what is committed, and end."""
        ...

    def close(self) -> None:
        """Stop everything and free resources."""
        ...


class Normaliser(Protocol):
    """Turns written tokens into spoken words; a pure function of its arguments.

    Input: the tokens of one held group, without white space inside a token, and up to two tokens before them, which
    are spoken already. Output: for each spoken word, the word
    (lower case letters and apostrophes, with at most one trailing mark of ``,.?!;:``) and the index of the written
    token that it came from. A token without a reading yields no word; one that is spoken with its neighbours (the
    "000" of "5 000") may yield an empty word, which is not passed on. ``studio.core.text.language`` has the optional
    attributes ``language`` and ``in_language``.
    """

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]: ...


@dataclass(frozen=True)
class ModuleLoad:
    """One module of one voice since the engine began."""

    voice: str
    name: str
    runs: Mapping[int, int]  # number of runs, by batch size (rows)
    ms: Mapping[int, float]  # total time of these runs, by batch size
    slow: int = 0  # runs that took longer than the limit

    @property
    def rows(self) -> int:
        """Rows of all runs."""
        return sum(size * count for size, count in self.runs.items())

    @property
    def mean_rows(self) -> float:
        """Mean batch size."""
        return self.rows / max(1, sum(self.runs.values()))

    @property
    def mean_ms(self) -> float:
        """Mean time of a run."""
        return sum(self.ms.values()) / max(1, sum(self.runs.values()))


@dataclass(frozen=True)
class EngineLoad:
    """An engine at one moment; counts are since it began.

    Attributes:
        slots, speaking: concurrency slots, and how many are in use.
        queue, waiting: length of the queue, and how many utterances wait in it.
        opened, failed: utterances that got a slot, that ended with an error.
        refused: ``busy`` answers, at once or after a wait; every retry counts.
        queued_ms: total waiting time of the utterances that got a slot.
        audio_s: sound made.
        stalls, stalled_ms: pauses caused by compute, and their total length.
        device_bytes: GPU memory of tensors; 0 on a CPU.
    """

    slots: int
    speaking: int
    queue: int = 0
    waiting: int = 0
    opened: int = 0
    refused: int = 0
    failed: int = 0
    queued_ms: float = 0.0
    audio_s: float = 0.0
    stalls: int = 0
    stalled_ms: float = 0.0
    device_bytes: int = 0
    modules: tuple[ModuleLoad, ...] = field(default=())


@runtime_checkable
class SupportsLoad(Protocol):
    """An engine that reports its load."""

    def load(self) -> EngineLoad:
        """A snapshot; callable from any thread, without blocking."""
        ...


def resident_bytes() -> int:
    """Resident memory of this process; its peak if the system reports no current value, 0 if it reports none."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
