"""Answers about sounds, kept by content address, so that a stopped evaluation goes on where it was."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.progress import Progress

from studio.core.clips import clip_id
from studio.measure.recognisers.port import Sound

_SPEAKS = ("core", "engine", "text")  # the packages that decide what a voice sounds like
_BATCH = 24  # sounds whose answers are lost when a run is stopped
T = TypeVar("T", covariant=True)


class Asked(Protocol[T]):
    """Answers for sounds, in order; ``on_done`` is called after each."""

    def __call__(self, sounds: Sequence[Sound], *, on_done: Callable[[], object]) -> Sequence[T]: ...


@cache
def speaking_code() -> str:
    """``code_digest`` of this program, as it was when it was first asked: what other code spoke is spoken anew."""
    return code_digest(Path(__file__).resolve().parents[1])


def code_digest(package: Path) -> str:
    """Digest of the code in ``package`` that makes speech.

    By content, since a commit says too much (its other files speak nothing) and too little (files may differ from it).
    """
    digest = hashlib.sha256()
    for path in sorted(path for name in _SPEAKS for path in (package / name).rglob("*.py")):
        digest.update(f"{path.relative_to(package)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def answers(
    folder: Path, what: str, about: Mapping[str, str], sounds: Sequence[Sound], ask: Asked[T], bar: tuple[Progress, str]
) -> list[T]:
    """What is answered about each sound, by the file ``<what>-<name>-<weights>.jsonl`` where it has been asked before.

    Args:
        about: who answers: its ``name`` and its weights' ``sha256``.
        bar: where to show how far it is, and under what name.
    """
    path = folder / f"{what}-{about['name'].lower()}-{about['sha256'][:12]}.jsonl"
    known = _whole_pairs(path)
    keys = [clip_id(*sound) for sound in sounds]
    todo = [place for place, key in enumerate(keys) if key not in known]
    progress, name = bar
    task = progress.add_task(name, total=len(sounds), completed=len(sounds) - len(todo))
    for first in range(0, len(todo), _BATCH):
        places = todo[first : first + _BATCH]
        said = ask([sounds[place] for place in places], on_done=lambda: progress.advance(task))
        new = {keys[place]: one for place, one in zip(places, said, strict=True)}
        known |= new
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(pair) + "\n" for pair in new.items())
    return [known[key] for key in keys]


def _whole_pairs(path: Path) -> dict[str, Any]:
    """The [key, answer] lines of a file; a line that a stop cut short is taken off, so that lines can be added."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return dict(json.loads(line) for line in whole.splitlines())
