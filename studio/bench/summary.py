"""docs/results: the newest of every figure in bench/results, with the command and the machine behind each.

Papers' tables have a page each, ``paper-NNN.md`` beside it.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from studio.bench import annotation_kill, cascade, latency, measuring
from studio.bench.evaluation import (
    boundaries,
    families,
    heard,
    hour,
    long,
    prompts,
    quality,
    seams,
    short,
    vocoder,
    wer,
)
from studio.bench.mos import coverage, kill, load, looks, plan
from studio.bench.page import highlight, start
from studio.bench.page import key_to_ear as page
from studio.bench.page.inspecting import run as inspecting
from studio.bench.robustness import fuzz, replaying, soak
from studio.bench.speed import against, step, wire
from studio.bench.speed import load as speaking
from studio.bench.tables import show as tables
from studio.core.cards import read_cards
from studio.core.errors import BadFile
from studio.core.shipped import VOICES
from studio.measure.report import RESULTS, as_text, newest_results

PAGE = Path("docs/results/README.md")
SHOWN: dict[str, tuple[str, Callable[[Mapping[str, Any]], None]]] = {
    "wer": ("Intelligibility", wer.show),
    "quality": ("Predicted MOS", quality.show),
    "families": ("All families side by side", families.show),
    "prompts": ("Speakers told by a recording", prompts.show),
    "long": ("Long speech", long.show),
    "hour": ("An hour in one utterance", hour.show),
    "short": ("Texts of one and two words", short.show),
    "vocoder": ("Vocoders alone", vocoder.show),
    "boundaries": ("Windows and boundaries", boundaries.show),
    "forced-boundaries": ("Ends of words in the teacher's own speech", boundaries.show),
    "seams": ("Seams, told from other word boundaries", seams.show),
    "latency": ("First audio of the engine", latency.show),
    "cascade": ("From a question to the first sound", cascade.show),
    "against": ("A frame, beside an earlier commit's code", against.show),
    **{
        f"{which}{name}": (title + of, show)
        for which, of in (
            ("", ""),
            ("gpu-", ", on a GPU"),
            ("paper-", ", random weights of the paper's size"),
            ("paper-gpu-", ", random weights of the paper's size, on a GPU"),
        )
        for name, title, show in (
            ("step", "A step of the engine", step.show),
            ("load", "The engine under load", speaking.show_all),
        )
    },
    "wire": ("What the socket costs for each frame", wire.show),
    "heard": ("Typed live, heard in the browser", heard.show),
    "page": ("First audio of the page", page.show),
    "highlight": ("Words light as they are heard", highlight.show),
    "inspect": ("A long trace on the Inspect page", inspecting.show),
    "start": ("Start and memory", start.show),
    "mos-load": ("Listening tests under load", load.show),
    "mos-kill": ("Listening tests and kill -9", kill.show),
    "annotation-kill": ("Annotation and kill -9", annotation_kill.show),
    "mos-coverage": ("Intervals of listening tests: how often they hold the truth", coverage.show),
    "mos-ordinal": ("The ordinal model: how often it holds the truth", coverage.show),
    "mos-looks": ("A stopping rule that may be watched", looks.show),
    "mos-plan": ("Planned numbers of raters, tried", plan.show),
    "fuzz": ("Hostile requests, messages and floods", fuzz.show),
    "soak": ("Half an hour of ordinary use", soak.show),
    "measure": ("Clips measured", measuring.show),
    "replay": ("Traces made again, bit for bit", replaying.show),
}
_HEAD = """# Results

Made by `studio bench summary` from the newest files of `bench/results/`; nothing on this page is typed by hand.
A table says which voice it is of: `lark` is the voice that went when `wren` came.
A word error rate is of the recogniser that its table names, so it is read beside that of the teacher, the synthetic
speaker that the voice learned from, and beside the teacher's own frames through the same vocoder ("dMel"); where a
table lacks them, the teacher was not at hand.
"""
_PAPER_HEAD = """Made by `studio bench summary` from what `studio train table` measured; nothing on this page is typed
by hand. The nets are small and the corpus is the studio's own: what can be compared with the paper is which of two rows
is better, not how good either is."""


def summarise(results: Path = RESULTS, page_path: Path = PAGE) -> Path:
    """Write the page. Raises BadFile when there are no results."""
    parts = [_HEAD]
    for name, (title, show) in SHOWN.items():
        for voice, path in newest_results(name, results).items():
            parts.append(_section(f"{title}, {voice}" if voice else title, _read(path), show))
    papers = {path.name.split("-")[1]: path for path in sorted(results.glob("table-*.json"))}
    if len(parts) == 1 and not papers:
        raise BadFile(f"there are no results in {results}", "`studio eval wer --save` and the like take them")
    page_path.parent.mkdir(parents=True, exist_ok=True)
    if papers:
        parts.append(_papers({name: _read(path) for name, path in papers.items()}, page_path.parent))
    page_path.write_text("\n".join(parts), encoding="utf-8")
    return page_path


def _papers(found: Mapping[str, dict[str, Any]], folder: Path) -> str:
    """Write a page for each paper's tables; answers the section that links them."""
    lines = []
    for name, figures in found.items():
        page = f"paper-{name}.md"
        head = f"# Paper {name}: {figures['title']}\n\n{_PAPER_HEAD}\n"
        body = _section("The paper's tables, and ours", figures, tables.show)
        (folder / page).write_text(f"{head}\n{body}", encoding="utf-8")
        lines.append(f"* [Paper {name}: {figures['title']}]({page})")
    return "\n".join(["## The papers' tables beside ours", "", *lines, ""])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _section(title: str, figures: dict[str, Any], show: Callable[[Mapping[str, Any]], None]) -> str:
    machine = figures["hardware"]
    where = f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores" + (
        f", {machine['gpu']}" if machine.get("gpu") else ""
    )
    lines = [line.rstrip() for line in as_text(show, figures).splitlines() if line.strip()]
    about = f"`{figures['command']}`, {figures['date'][:10]}, sources {figures['git_sha']}, {where}."
    if earlier := _of_earlier_weights(figures):
        about += f" Since then {' and '.join(earlier)} got other weights."
    return "\n".join([f"## {title}", "", about, "", "```text", *lines, "```", ""])


def _of_earlier_weights(figures: Mapping[str, Any]) -> list[str]:
    """The shipped voices whose weights are no longer those that were measured."""
    measured: dict[str, Any] = {figures.get("voice", ""): figures}
    if isinstance(figures.get("voices"), Mapping):
        measured |= figures["voices"]
    return [name for name, now in _shipped().items() if measured.get(name, {}).get("sha256", now) != now]


@functools.cache
def _shipped() -> dict[str, Mapping[str, str]]:
    """What the weights' files of each shipped voice are, by its card."""
    return {name: card.sha256 for name, (card, _) in read_cards(VOICES).items()}
