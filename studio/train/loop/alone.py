"""A state folder belongs to one training at a time: two would write over each other's checkpoints."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from studio.core.errors import BadFile

try:
    import fcntl
except ImportError:  # Windows: nobody is kept out
    fcntl = None


@contextmanager
def alone(state: Path) -> Generator[None]:
    """Keep other trainings out of a state folder, which is made where it is not there.

    The system lets go of it however the process ends, so a stopped run leaves nothing that is in the next one's way.

    Raises:
        BadFile: another training is at work in it.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / ".training").open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadFile(
                    f"another training is at work in {state}", "wait until it has ended, or name another --state"
                ) from error
        yield
