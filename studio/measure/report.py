"""Results: a table for people, and dated JSON that says on what, with what, and by which command it was measured."""

import datetime
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.core.shipped import DEFAULT_VOICE
from studio.core.traces.provenance import git_sha, lines_of, versions

if TYPE_CHECKING:
    from rich.console import Console

RESULTS = Path("bench/results")
_LONGEST_WORD = 30  # that a table makes room for


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> None:
    """Print rows under a title; floats with three digits."""
    from rich.table import Table

    table = Table(title=title, caption=note or None, title_justify="left", caption_justify="left")
    longest = max((len(word) for row in rows for word in str(row[0]).split()), default=0)  # else it would be cut
    for place, column in enumerate(columns):
        if place == 0:
            table.add_column(column, justify="left", min_width=min(longest, _LONGEST_WORD))
        else:
            table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


def weights_name(about: Mapping[str, str]) -> str:
    """A recogniser or predictor as a title names it, with the first digits of its weights' sha256."""
    names = dict.fromkeys(filter(None, (about["name"], about.get("weights"))))
    return f"{' '.join(names)} ({about['sha256'][:8]})"


def recogniser_name(figures: Mapping[str, Any]) -> str:
    """Whose word errors the figures are; before there was a choice they were pocketsphinx's."""
    about = figures.get("recogniser")
    return weights_name(about) if about else "pocketsphinx"


def setting_name(figures: Mapping[str, Any]) -> str:
    """The options that were in force, after a comma; nothing where they were the card's own."""
    setting = figures["setting"] if "setting" in figures else f"m={figures['m']},n={figures['hop']}"
    return f", {setting}" if setting else ""


@cache
def console() -> "Console":
    """Where tables go: wide where nobody looks, so that a pipe or a file holds whole rows."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140)


def no_bar(quiet: bool = False) -> bool:
    """Whether progress is not to be drawn: into a file or a pipe it would write one empty line after the other."""
    return quiet or not console().is_terminal


def as_text(show: Callable[[Mapping[str, Any]], None], figures: Mapping[str, Any]) -> str:
    """What ``show`` prints of the figures."""
    with console().capture() as captured:
        show(figures)
    return captured.get()


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def hardware() -> dict[str, Any]:
    """CPU model, the cores that this process may use, memory, and GPUs if there are any."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "gpus": lines_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _command() -> str:
    """What was typed, as ``studio`` however it was started, without --cache, which changes no figure.

    Of a path from the root only the name is told: where files lie is one machine's.
    """
    name, said = Path(sys.argv[0]).name, sys.argv[1:]
    kept = [word for before, word in zip(["", *said], said, strict=False) if "--cache" not in (before, word)]
    kept = [re.sub(r"(^|[:=])(/(?!/)[^:]*)", lambda found: found[1] + Path(found[2]).name, word) for word in kept]
    return shlex.join(["studio" if name == "__main__.py" else name, *kept])


def describe(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with what one needs to judge and to repeat them."""
    return {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "git_sha": git_sha(),
        "hardware": hardware(),
        "versions": versions(),
        **plain(figures),
    }


def write_result(name: str, figures: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write ``<folder>/<name>-<date>.json`` and return its path.

    Figures of another voice than the first one stand beside it: ``<name>-<voice>-<date>.json``.
    """
    result = describe(name, figures)
    folder.mkdir(parents=True, exist_ok=True)
    voice = str(result.get("voice") or DEFAULT_VOICE).partition(":")[0]
    of = [] if voice == DEFAULT_VOICE else [voice]
    path = folder / f"{'-'.join([name, *of, result['date'][:10]])}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def newest_results(name: str, folder: Path = RESULTS) -> dict[str, Path]:
    """The newest figures of a name, by voice in the order of their names; "" are those of the first voice."""
    voice_and_day = re.compile(rf"{re.escape(name)}(?:-(?P<voice>.+))?-\d{{4}}-\d\d-\d\d\.json")
    matches = [match for path in sorted(folder.glob(f"{name}-*.json")) if (match := voice_and_day.fullmatch(path.name))]
    return dict(sorted((match["voice"] or "", folder / match.string) for match in matches))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: what is not a number becomes null, paths become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return str(value) if isinstance(value, Path) else value


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in _text(info).splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _memory_gb() -> float | None:
    lines = [line.split() for line in _text(Path("/proc/meminfo")).splitlines() if line.startswith("MemTotal")]
    return round(int(lines[0][1]) / 1e6, 1) if lines else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
