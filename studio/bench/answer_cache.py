"""A cache of answers about sounds by content address, so that a stopped evaluation resumes."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.progress import Progress

from studio.core.clips import clip_id
from studio.measure.recognisers.base import Sound

_SPEAKS = ("core", "engine", "text")  # packages that determine a voice's samples
_BATCH = 24  # sounds per write of the cache
T = TypeVar("T", covariant=True)


class Asked(Protocol[T]):
    """Answers for sounds, in order; ``on_done`` is called after each."""

    def __call__(self, sounds: Sequence[Sound], *, on_done: Callable[[], object]) -> Sequence[T]: ...


@cache
def speaking_code() -> str:
    """``code_digest`` of this process's code; speech of other code is not reused."""
    return code_digest(Path(__file__).resolve().parents[1])


def code_digest(package: Path) -> str:
    """Digest of the code in ``package`` that determines speech, by content rather than by commit."""
    digest = hashlib.sha256()
    for path in sorted(path for name in _SPEAKS for path in (package / name).rglob("*.py")):
        digest.update(f"{path.relative_to(package)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def answers(
    folder: Path, what: str, about: Mapping[str, str], sounds: Sequence[Sound], ask: Asked[T], bar: tuple[Progress, str]
) -> list[T]:
    """Answers for each sound, from the cache file ``<what>-<name>-<weights>.jsonl`` where present.

    Args:
        about: ``name`` and ``sha256`` of the weights of the model that answers.
        bar: progress display and its label.
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
    """The [key, answer] lines of a file; removes an incomplete last line."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return dict(json.loads(line) for line in whole.splitlines())
