"""What an engine bears: how many wait for a place, how long, and what is too long for a run."""

from dataclasses import dataclass, fields

from studio.core.errors import BadOption

MAX_QUEUE = 10_000


@dataclass(frozen=True)
class Limits:
    """Of one engine.

    Attributes:
        queue: utterances that wait for a place; with 0 the next one hears ``busy`` at once.
        open_ms: who asks for an utterance waits so long at most for the answer: a place, or one in the queue.
        queue_timeout_ms: so long at most does one wait.
        idle_ms: an utterance that nobody makes use of for so long ends, and its place is free.
        idle_wanted_ms: the same while others wait for a place; less than they wait at most, or they wait in vain.
        slow_run_ms: a run of a module that takes longer is told in the log and counted.
        stuck_run_ms: one that takes longer than this ends every utterance, and ``/health`` fails until it comes back.

    Raises:
        BadOption: one is out of range.
    """

    queue: int = 16
    open_ms: float = 30_000.0
    queue_timeout_ms: float = 120_000.0
    idle_ms: float = 1_800_000.0
    idle_wanted_ms: float = 60_000.0
    slow_run_ms: float = 1_000.0
    stuck_run_ms: float = 30_000.0

    def __post_init__(self) -> None:
        if not 0 <= self.queue <= MAX_QUEUE:
            raise BadOption(f"the queue cannot hold {self.queue}", f"give 0 to {MAX_QUEUE}")
        for one in fields(self):
            if one.name != "queue" and not getattr(self, one.name) > 0.0:
                raise BadOption(f"{one.name} cannot be {getattr(self, one.name)}", "give milliseconds above 0")
