"""``studio measure``: tables of many utterances; ``studio synth``: many utterances to measure."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import progress_bar
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.inspection.batch.run import BatchTables


def measure(
    places: Annotated[
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
    from studio.core.errors import BadFile
    from studio.inspection.batch import run

    ending = run.check_kind(kind)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"{out} cannot be made: {error.strerror}", "choose another folder") from error
    with progress_bar() as bar:
        task = bar.add_task("Measuring", total=None)
        found = run.measure(
            places,
            with_pitch=pitch,
            workers=workers or None,
            journal=out / run.JOURNAL,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    for path in found.save(out, ending):
        typer.echo(path)
    _show(found)
    for one in found.problems:
        typer.echo(one, err=True)
    if found.problems:
        raise typer.Exit(1)


def synth(
    texts: Annotated[Path, typer.Option(help="One text a line, or item|text.")],
    systems: Annotated[
        list[str], typer.Option("--system", help="voice[:speaker] and settings: miles?m=1,n=1. Repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for sounds, traces and the manifest.")],
    count: Annotated[int, typer.Option(min=0, help="Number of texts, from the first; 0 for all.")] = 0,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Speak many texts by several voices and settings, for studio measure or a listening test.

    A stopped run resumes.
    """
    from studio.commands.stimuli import speak_all
    from studio.mos.campaign.texts import read_texts

    spoken = dict(list(read_texts(texts).items())[: count or None])
    with progress_bar() as bar:
        task = bar.add_task("Speaking", total=len(spoken) * len(systems))
        manifest = speak_all(
            systems, spoken, out, voices=voices, device=device, spoken=lambda: bar.update(task, advance=1)
        )
    typer.echo(manifest)


def _show(found: "BatchTables") -> None:
    """Print a summary of each system."""
    import numpy as np

    from studio.measure.report import print_table

    def middle(rows: list[dict[str, Any]], name: str) -> str:
        values = [row[name] for row in rows if row[name] is not None]
        return f"{np.median(values):,.1f}" if values else "-"

    columns = ("words_per_min", "pauses_s", "pitch_hz", "pitch_range_st", "seam_level_db", "level_dbfs")
    by_system: dict[str, list[dict[str, Any]]] = {}
    for row in found.utterances:
        by_system.setdefault(row["system"], []).append(row)
    rows: list[list[object]] = []
    for name, mine in by_system.items():
        audio_s = sum(row["audio_s"] for row in mine)
        rows.append([name, len(mine), f"{audio_s:,.1f}", *(middle(mine, column) for column in columns)])
    headings = ("system", "n", "audio s", "words/min", "pauses s", "pitch Hz", "range st", "seam dB", "level dBFS")
    print_table(f"{len(found.utterances)} utterances (medians; audio together)", headings, rows)
