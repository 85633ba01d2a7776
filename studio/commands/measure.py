"""``studio synth``: speak many texts; ``studio measure``: tables of utterances; ``studio timing``: their word times."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import Speed, progress_bar
from studio.core.errors import BadOption, bad_file
from studio.core.folders import VOICES
from studio.core.plurals import counted
from studio.core.terminal import print_line
from studio.markup import Markup

if TYPE_CHECKING:
    from studio.inspection.batch import BatchTables


def measure(
    sources: Annotated[
        list[Path], typer.Argument(help="Traces, WAV files, folders of them, or output of studio synth.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables, created if missing.")],
    kind: Annotated[str, typer.Option("--format", help="parquet, csv or json.")] = "parquet",
    pitch: Annotated[bool, typer.Option(help="Measure pitch, which takes most time.")] = True,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0 for one per core.")] = 0,
) -> None:
    """Measure many utterances: rate, pauses, pitch, seams, latency, with a row per utterance, word and seam.

    The text of a WAV comes from FILE.txt or texts.txt, its word times from FILE.TextGrid. A repeated run measures only
    new files.
    """
    from studio.inspection import batch as run

    ending = run.check_kind(kind)
    with bad_file(f"{out} cannot be made", "choose another folder"):
        out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as bar:
        task = bar.add_task("Measuring", total=None)
        tables = run.measure(
            sources,
            with_pitch=pitch,
            workers=workers or None,
            journal=out / run.JOURNAL,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    for path in tables.save(out, ending):
        print_line(path)
    _show(tables)
    for one in tables.problems:
        print_line(one, err=True)
    if tables.problems:
        raise typer.Exit(1)


def synth(
    texts: Annotated[Path, typer.Option(help="One text a line, or item|text.")],
    systems: Annotated[
        list[str], typer.Option("--system", help="voice[:speaker] and settings: miles?m=1,n=1. Repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for sounds, traces and the manifest.")],
    count: Annotated[int, typer.Option(min=0, help="Number of texts, from the first; 0 for all.")] = 0,
    markup: Annotated[Markup, typer.Option(help="What the texts are written in.")] = "plain",
    captions: Annotated[str, typer.Option(help="Also write captions beside each sound: srt or vtt.")] = "",
    speed: Speed = 1.0,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Speak many texts by several voices and settings, for studio measure or a listening test.

    A stopped run resumes.
    """
    from studio.commands.stimuli import speak_all
    from studio.core.traces.captions import SUFFIXES
    from studio.mos.campaign.names import read_texts

    if captions and f".{captions}" not in SUFFIXES:
        raise BadOption(f"there are no captions {captions[:40]!r}", "write --captions srt or --captions vtt")
    spoken = dict(list(read_texts(texts).items())[: count or None])
    with progress_bar() as bar:
        task = bar.add_task("Speaking", total=len(spoken) * len(systems))
        manifest = speak_all(
            systems,
            spoken,
            out,
            voices=voices,
            device=device,
            markup=markup,
            speed=speed,
            spoken=lambda: bar.update(task, advance=1),
        )
    if captions:
        _write_all_captions(manifest, f".{captions}")
    print_line(manifest)


def _write_all_captions(manifest: Path, suffix: str) -> None:
    """Write captions next to each sound of a manifest that has a trace; print the sounds without, and the count."""
    from studio.core.traces.captions import write_captions
    from studio.core.traces.trace import open_trace

    files, written = json.loads(manifest.read_text(encoding="utf-8"))["files"], 0
    for file in files:
        path = (manifest.parent / file["file"]).with_suffix(suffix)
        if "trace" not in file:
            print_line(f"{path.name}: no captions, since this system has no word times", err=True)
            continue
        write_captions(open_trace(manifest.parent / file["trace"]), path)
        written += 1
    print_line(f"captions of {counted(written, 'sound')}", err=True)


def _show(tables: "BatchTables") -> None:
    """Print a summary of each system."""
    import numpy as np

    from studio.measure.report import print_table

    def median(rows: list[dict[str, Any]], name: str) -> str:
        values = [row[name] for row in rows if row[name] is not None]
        return f"{np.median(values):,.1f}" if values else "-"

    columns = ("words_per_min", "pauses_s", "pitch_hz", "pitch_range_st", "seam_level_db", "level_dbfs")
    by_system: dict[str, list[dict[str, Any]]] = {}
    for row in tables.utterances:
        by_system.setdefault(row["system"], []).append(row)
    rows: list[list[object]] = []
    for name, own in by_system.items():
        audio_s = sum(row["audio_s"] for row in own)
        rows.append([name, len(own), f"{audio_s:,.1f}", *(median(own, column) for column in columns)])
    headings = ("system", "n", "audio s", "words/min", "pauses s", "pitch Hz", "range st", "seam dB", "level dBFS")
    print_table(f"{len(tables.utterances)} utterances (medians; audio together)", headings, rows)


def timing(
    paths: Annotated[list[Path], typer.Argument(help="Traces, WAV files with FILE.txt, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the table and the TextGrids.")],
    aligner: Annotated[
        list[str] | None, typer.Option(help="pocketsphinx, whisper or whisper:FOLDER. Repeatable.")
    ] = None,
    others: Annotated[
        list[Path] | None, typer.Option("--from", help="Folder of another aligner's TextGrids. Repeatable.")
    ] = None,
    cut: Annotated[
        str, typer.Option(help="Also cut at each boundary and transcribe both sides: whisper or pocketsphinx.")
    ] = "",
    moved_ms: Annotated[float, typer.Option(min=1, max=1000, help="Offset of the control cuts.")] = 100.0,
    kind: Annotated[str, typer.Option("--format", help="parquet, csv or json.")] = "parquet",
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 1,
) -> None:
    """Align words with several aligners: median and interval of each boundary, as a table and a TextGrid."""
    from studio.inspection.batch import check_kind
    from studio.inspection.opening import find_sources
    from studio.inspection.timing import COLUMNS, TimingSetting, summary, time_all
    from studio.measure.tables import write_rows

    ending = check_kind(kind)
    sources = find_sources(paths)
    setting = TimingSetting(
        aligners=tuple(aligner if aligner else () if others else ("pocketsphinx",)),
        folders=tuple(others or ()),
        recogniser=cut,
        moved_ms=moved_ms,
    )
    with bad_file(f"{out} cannot be made", "choose another folder"):
        out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as bar:
        task = bar.add_task("Timing", total=len(sources))
        answers = time_all(sources, setting, workers=workers, on_done=lambda: bar.advance(task))
    timed = [one for one in answers if not isinstance(one, str)]
    for one in timed:
        path = (out / one.file).with_suffix(".TextGrid")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.textgrid(), encoding="utf-8")
    table = out / f"boundaries{ending}"
    write_rows(
        table, COLUMNS, [row for one in timed for row in one.rows()], {}, "boundaries of words, by studio timing"
    )
    print_line(table)
    if timed:
        _show_timing(summary(timed))
    problems = [one for one in answers if isinstance(one, str)]
    for one in problems:
        print_line(one, err=True)
    if problems:
        raise typer.Exit(1)


def _show_timing(figures: Mapping[str, Any]) -> None:
    from studio.measure.report import print_table

    def spread(of: Mapping[str, float] | None) -> str:
        return f"{of['p50']:.1f}, {of['p90']:.1f}" if of else "-"

    def share(of: Any) -> str:
        return f"{of.value:.3f} [{of.low:.3f}, {of.high:.3f}]" if of else "-"

    rows: list[list[object]] = [
        ["width of an interval: median, p90 (ms)", spread(figures["width_ms"])],
        ["own boundary from the median: median, p90 (ms)", spread(figures["own_away_ms"])],
        ["own boundaries within their interval", figures["own_inside"]],
    ]
    if figures["cuts_held"]:
        rows.append(["cuts with both words recognised", share(figures["cuts_held"])])
        rows.append(["the same, moved", share(figures["moved_held"])])
    print_table(f"{figures['boundaries']} boundaries of {figures['utterances']} utterances", ("", "value"), rows)
