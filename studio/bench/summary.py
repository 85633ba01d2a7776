"""docs/results: the newest figures of bench/results, each with its command and machine."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from studio.bench import durability
from studio.bench.evaluation import boundaries, families, hour, prompts, quality, seams, vocoder, wer, word_times
from studio.bench.mos import coverage, design, load, margins
from studio.bench.options import FINAL_TEXTS
from studio.bench.page import inspect as inspecting
from studio.bench.page import key_to_ear as page
from studio.bench.page import live
from studio.bench.speed import cascade, codec, gpu, host, kyutai, latency, replicas, step, terminal, throughput
from studio.bench.speed import load as speaking
from studio.bench.tables import figures as tables
from studio.core.cards import read_cards
from studio.core.errors import BadFile
from studio.core.folders import VOICES
from studio.measure.report import RESULTS, as_markdown, newest_results

PAGE = Path("docs/results/README.md")
Show = Callable[[Mapping[str, Any]], None]
TOPICS: dict[str, tuple[str, dict[str, tuple[str, Show]]]] = {
    "speech": (
        "Intelligibility and quality",
        {
            "families": ("All families side by side", families.show),
            "wer": ("Word error rate", wer.show),
            "quality": ("Predicted MOS", quality.show),
            **{
                f"{texts}-{name}": (f"{title}, {texts}.txt", show)
                for texts in FINAL_TEXTS
                for name, title, show in (
                    ("wer", "Word error rate", wer.show),
                    ("quality", "Predicted MOS", quality.show),
                )
            },
            "prompts": ("Speakers given by a recording", prompts.show),
            "long": ("Long paragraphs", wer.show_long),
            "hour": ("One utterance of an hour", hour.show),
            "short": ("Texts of one and two words", wer.show_short),
            "heard": ("Typed live, transcribed from the browser's output", live.show_heard),
            "vocoder": ("Vocoders alone", vocoder.show),
            "boundaries": ("Windows and word boundaries", boundaries.show),
            "forced-boundaries": ("Word boundaries by teacher forcing", boundaries.show),
            "word-times": ("Word times", word_times.show),
            "seams": ("Seam detection", seams.show),
        },
    ),
    "speed": (
        "Latency and throughput",
        {
            "latency": ("First audio of the engine", latency.show),
            "cascade": ("From a question to the first sound", cascade.show),
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
            "codec": ("A frame of Mimi's decoder", codec.show),
            "kyutai": ("A step of Kyutai's language model", kyutai.show),
            "gpu-kernels": ("The CUDA form on a GPU", gpu.show),
            "host": ("CPU time of a frame beside a GPU", host.show),
            "replicas": ("Replicas behind a front", replicas.show),
            "wire": ("Server CPU time per frame", throughput.show_wire),
            "page": ("First audio of the page", page.show),
            "type": ("First sound of the terminal program", terminal.show),
            "highlight": ("Delay of the word highlight", live.show_highlight),
            "inspect": ("A long trace on the Inspect page", inspecting.show),
            "start": ("Start-up time and memory", live.show_start),
            "measure": ("Throughput of studio measure", throughput.show_measure),
        },
    ),
    "listening-tests": (
        "Listening tests",
        {
            "mos-load": ("Raters over HTTP", load.show),
            "mos-coverage": ("Coverage of the intervals", coverage.show),
            "mos-ordinal": ("Coverage of the ordinal model", coverage.show),
            "mos-unequal": ("Coverage with unequal raters and scripts", coverage.show),
            "mos-family": ("Family-wise error of differences", margins.show_family),
            "mos-looks": ("False positives of the stopping rule", design.show_looks),
            "mos-plan": ("Planned numbers of raters", design.show_plan),
            "mos-margin": ("Tests with a margin", margins.show_margins),
        },
    ),
    "reliability": (
        "Reliability",
        {
            "mos-kill": ("kill -9 while raters answer", durability.show_mos_kill),
            "annotation-kill": ("kill -9 while annotators work", durability.show_annotation_kill),
            "fuzz": ("Hostile requests, messages and floods", durability.show_fuzz),
            "flood": ("Speech beside floods of requests", durability.show_flood),
            "soak": ("Half an hour of ordinary use", durability.show_soak),
            "replay": ("Traces replayed bit for bit", durability.show_replay),
        },
    ),
}
_HEAD = """# Results

Generated by `studio bench summary` from the newest files of `bench/results/`; do not edit. Each section names the
command that prints its figures. `lark` is the voice that `wren` replaced. A word error rate depends on the recogniser
that its table names: compare it with the teacher's, and with the teacher's frames through the same vocoder ("dMel").
"""
_PAPER_HEAD = """Generated by `studio bench summary` from what `studio train table` measured; do not edit. The nets are
small and the corpus is the studio's own: compare which of two rows is better, not how good either is."""


def summarise(results: Path = RESULTS, page_path: Path = PAGE) -> Path:
    """Write the overview, and a page for each topic and each paper. Raises BadFile without results."""
    overview, folder = [_HEAD], page_path.parent
    folder.mkdir(parents=True, exist_ok=True)
    for topic, (heading, measurements) in TOPICS.items():
        sections, lines = [], []
        for name, (title, show) in measurements.items():
            for voice, path in newest_results(name, results).items():
                figures, full_title = _read(path), f"{title}, {voice}" if voice else title
                sections.append(_section(full_title, figures, show))
                lines.append(f"| [{full_title}]({topic}.md#{_anchor(full_title)}) | {figures['date'][:10]} |")
        if sections:
            (folder / f"{topic}.md").write_text("\n".join([f"# {heading}\n", *sections]), encoding="utf-8")
            overview += [f"## {heading}", "", "| figure | measured |", "|---|---|", *lines, ""]
    papers = {path.name.split("-")[1]: path for path in sorted(results.glob("table-*.json"))}
    if len(overview) == 1 and not papers:
        raise BadFile(f"there are no results in {results}", "save some, for example with `studio eval wer --save`")
    if papers:
        overview.append(_papers({name: _read(path) for name, path in papers.items()}, folder))
    page_path.write_text("\n".join(overview), encoding="utf-8")
    return page_path


def _anchor(title: str) -> str:
    """The anchor that Markdown renderers give a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _papers(results: Mapping[str, dict[str, Any]], folder: Path) -> str:
    """Write a page for each paper's tables; returns the section that links them."""
    lines = []
    for name, figures in results.items():
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
    body = "\n".join(line.rstrip() for line in as_markdown(show, figures).splitlines())
    body = re.sub(r"\n{3,}", "\n\n", body.strip())
    about = f"`{figures['command']}`, {figures['date'][:10]}, sources {figures['git_sha']}, {where}."
    if earlier := _of_earlier_weights(figures):
        about += f" The weights of {' and '.join(earlier)} have changed since."
    return "\n".join([f"## {title}", "", about, "", body, ""])


def _of_earlier_weights(figures: Mapping[str, Any]) -> list[str]:
    """The shipped voices whose weights have changed since the measurement."""
    measured: dict[str, Any] = {figures.get("voice", ""): figures}
    if isinstance(figures.get("voices"), Mapping):
        measured |= figures["voices"]
    return [name for name, now in _shipped().items() if measured.get(name, {}).get("sha256", now) != now]


@functools.cache
def _shipped() -> dict[str, Mapping[str, str]]:
    """SHA-256 of each weights file of each shipped voice, by its card."""
    return {name: card.sha256 for name, (card, _) in read_cards(VOICES).items()}
