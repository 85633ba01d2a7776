"""Teachers by name: ``kokoro`` sounds natural and needs weights; ``programs`` (festival, flite) are Debian packages."""

from collections.abc import Callable
from functools import cache

from studio.core.errors import BadOption
from studio.train.teachers.kokoro import Kokoro
from studio.train.teachers.port import Teacher
from studio.train.teachers.programs import SPEAKERS, Programs

PROGRAMS = "programs"


def _programs(weights: str) -> Teacher:
    if weights:
        raise BadOption(f"festival and flite take no weights, and {weights!r} is given", f"--teacher {PROGRAMS}")
    return Programs()


TEACHERS: dict[str, Callable[[str], Teacher]] = {PROGRAMS: _programs, "kokoro": Kokoro}


@cache
def open_teacher(name: str) -> Teacher:
    """Open a teacher by ``NAME`` or ``NAME:WEIGHTS``: ``programs`` or ``kokoro:FOLDER``; one per process.

    Raises:
        BadOption: unknown name, or the teacher takes no weights.
    """
    kind, _, weights = name.partition(":")
    if kind not in TEACHERS:
        raise BadOption(f"there is no teacher {kind!r}", f"take one of {', '.join(TEACHERS)}")
    return TEACHERS[kind](weights)


def teacher_of(speaker: str) -> Teacher:
    """The teacher of a speaker. Raises BadOption if there is none."""
    teacher = next((t for t in map(open_teacher, TEACHERS) if t.about(speaker)), None)
    if teacher is None:
        raise BadOption(
            f"no teacher is called {speaker!r}", f"there are {', '.join(SPEAKERS)}, and Kokoro's, as af_heart"
        )
    return teacher
