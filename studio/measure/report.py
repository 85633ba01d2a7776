"""Results as tables, and as dated JSON with hardware, versions and command."""

import datetime
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from studio.core.checks import escape_unprintable
from studio.core.folders import DEFAULT_VOICE
from studio.core.traces.provenance import command_lines, git_sha, versions

if TYPE_CHECKING:
    from rich.console import Console  # noqa: TID251

Item = TypeVar("Item")
RESULTS = Path("bench/results")
_LONGEST_WORD = 30  # most characters reserved for a word of the first column
_MARKDOWN = ContextVar("_MARKDOWN", default=False)  # whether print_table writes Markdown


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> None:
    """Print a table; floats with three digits."""
    if _MARKDOWN.get():
        console().print(_markdown_table(title, columns, rows, note), markup=False, highlight=False, soft_wrap=True)
        return
    from rich.table import Table

    table = Table(title=title, caption=note or None, title_justify="left", caption_justify="left")
    longest = max((len(word) for row in rows for word in str(row[0]).split()), default=0)  # else rich truncates it
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, justify="left", min_width=min(longest, _LONGEST_WORD))
        else:
            table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


def weights_name(about: Mapping[str, str]) -> str:
    """Name of a recogniser or predictor for titles, with the first digits of its weights' sha256."""
    names = dict.fromkeys(filter(None, (about["name"], about.get("weights"))))
    return f"{' '.join(names)} ({about['sha256'][:8]})"


def recogniser_name(figures: Mapping[str, Any]) -> str:
    """The recogniser of figures; older figures without one are pocketsphinx's."""
    about = figures.get("recogniser")
    return weights_name(about) if about else "pocketsphinx"


def setting_name(figures: Mapping[str, Any]) -> str:
    """The options of figures, after a comma; empty for the card's defaults."""
    setting = figures["setting"] if "setting" in figures else f"m={figures['m']},n={figures['hop']}"
    return f", {setting}" if setting else ""


@cache
def console(*, stderr: bool = False, quiet: bool = False) -> "Console":
    """A console for tables and progress bars that escapes the control characters of its texts.

    140 columns wide in a pipe or a file, so that rows are not truncated.
    """
    from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for one in super().render(renderable, options):
                yield one if one.control else one._replace(text=escape_unprintable(one.text))

    stream = sys.stderr if stderr else sys.stdout
    return SafeConsole(width=None if stream.isatty() else 140, stderr=stderr, quiet=quiet)


def no_bar(quiet: bool = False) -> bool:
    """Whether to hide progress bars: in a file or pipe they would print empty lines."""
    return quiet or not console().is_terminal


def bar(items: Sequence[Item], title: str, quiet: bool = False) -> Iterable[Item]:
    """The items, with a progress bar that disappears at the end, or none if quiet or not in a terminal."""
    from rich.progress import track

    return track(items, title, console=console(), transient=True, disable=no_bar(quiet))


def as_markdown(show: Callable[[Mapping[str, Any]], None], figures: Mapping[str, Any]) -> str:
    """The output of ``show`` for the figures, with tables in Markdown."""
    token = _MARKDOWN.set(True)
    try:
        with console().capture() as captured:
            show(figures)
    finally:
        _MARKDOWN.reset(token)
    return captured.get()


def _markdown_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(one.replace('|', chr(92) + '|') for one in cells)} |"

    marks = ["---", *["--:"] * (len(columns) - 1)]
    lines = [
        "",
        f"**{title}**",
        "",
        line(columns),
        line(marks),
        *(line([cell(value) for value in row]) for row in rows),
    ]
    return "\n".join([*lines, *(["", note] if note else []), ""])


def cell(value: object) -> str:
    """Format a table cell."""
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def hardware() -> dict[str, Any]:
    """CPU model, cores available to this process, memory, GPUs, load and system."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "gpus": command_lines(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _command() -> str:
    """The command line as ``studio ...``, without --cache, which does not change figures.

    Absolute paths are reduced to their names.
    """
    name, args = Path(sys.argv[0]).name, sys.argv[1:]
    words = [word for before, word in zip(["", *args], args, strict=False) if "--cache" not in (before, word)]
    words = [re.sub(r"(^|[:=])(/(?!/)[^:]*)", lambda match: match[1] + Path(match[2]).name, word) for word in words]
    return shlex.join(["studio" if name == "__main__.py" else name, *words])


def describe(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with the information needed to judge and repeat them."""
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
    """Write ``<folder>/<name>-<date>.json``, or ``<name>-<voice>-<date>.json`` for voices other than the default."""
    result = describe(name, figures)
    folder.mkdir(parents=True, exist_ok=True)
    voice = str(result.get("voice") or DEFAULT_VOICE).partition(":")[0]
    of = [] if voice == DEFAULT_VOICE else [voice]
    path = folder / f"{'-'.join([name, *of, result['date'][:10]])}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def newest_results(name: str, folder: Path = RESULTS) -> dict[str, Path]:
    """The newest results of a name, by voice in alphabetical order; "" is the default voice."""
    voice_and_day = re.compile(rf"{re.escape(name)}(?:-(?P<voice>.+))?-\d{{4}}-\d\d-\d\d\.json")
    matches = [match for path in sorted(folder.glob(f"{name}-*.json")) if (match := voice_and_day.fullmatch(path.name))]
    return dict(sorted((match["voice"] or "", folder / match.string) for match in matches))


def plain(value: Any) -> Any:
    """A JSON-compatible value: NaN and infinity become null, paths become text."""
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
