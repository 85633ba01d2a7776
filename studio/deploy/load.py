"""What a replica reports to the fronts."""

from dataclasses import dataclass

LOAD_PATH = "/replica/load"  # a socket: a report for every message


@dataclass(frozen=True)
class Load:
    """What a replica reports.

    Attributes:
        pid: its process.
        places, free: concurrency slots, and those that are neither used nor waited for.
        waiting: length of its queue.
        step_share: time of an engine step over the duration of its frame; at 1 it cannot keep up with speech.
        is_draining: it takes no new utterances.
    """

    pid: int
    places: int
    free: int
    waiting: int
    step_share: float
    is_draining: bool
