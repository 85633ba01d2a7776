"""A replica's report to the fronts."""

from dataclasses import dataclass

LOAD_PATH = "/replica/load"  # a socket that answers every message with a report


@dataclass(frozen=True)
class Load:
    """The load of a replica.

    Attributes:
        pid: its process.
        places, free: concurrency slots, and those neither used nor waited for.
        waiting: length of its queue.
        step_share: time of an engine step over the duration of its frame; at 1 it cannot keep up with speech.
        is_draining: whether it refuses new utterances.
    """

    pid: int
    places: int
    free: int
    waiting: int
    step_share: float
    is_draining: bool
