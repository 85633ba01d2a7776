"""``studio compare``: utterances of one text side by side, in the terminal, as a picture, or as one page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import Json
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.core.traces.trace import Trace

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Two to eight .trace files, or WAV files with FILE.txt and FILE.TextGrid; one with --overlapped."
    ),
]
Picture = Annotated[
    Path | None, typer.Option(help="Also draw words on one axis, durations, and the difference of the first two.")
]


def compare(
    files: Files,
    text: Annotated[str, typer.Option(help="Text of WAV files without a FILE.txt.")] = "",
    svg: Picture = None,
    png: Picture = None,
    pdf: Picture = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one page with the sounds and the interactive picture.")
    ] = None,
    no_pitch: Annotated[bool, typer.Option("--no-pitch", help="Skip pitch, which takes the longest.")] = False,
    overlapped: Annotated[
        bool,
        typer.Option(
            "--overlapped",
            help="Also compare each trace with its frames vocoded segment by segment with cross-fades.",
        ),
    ] = False,
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Compare utterances of one text word by word: times, durations, pitch, level, latency."""
    from studio.commands.common import check_output_file
    from studio.core.errors import BadOption
    from studio.inspection.comparison.compare import MAX_UTTERANCES, compared_utterance
    from studio.inspection.comparison.compare import compare as compared
    from studio.inspection.comparison.naming import labels
    from studio.inspection.comparison.tables import figures_of, render_comparison
    from studio.inspection.opening import open_source
    from studio.measure.report import console, plain

    count = len(files) * (2 if overlapped else 1)
    if not 2 <= count <= MAX_UTTERANCES:
        raise BadOption(
            f"{count} to compare", f"give from {1 if overlapped else 2} to {MAX_UTTERANCES // (1 + overlapped)} files"
        )
    pictures = {"--svg": svg, "--png": png, "--pdf": pdf}
    for option, place in (pictures | {"--html": html}).items():
        check_output_file(place, option, f".{option[2:]}")
    traces = [open_source(file, text) for file in files]
    sources = [file.name for file in files]
    if overlapped:
        traces = _with_overlapped(traces, voices, device)
        sources = [name for file in sources for name in (file, f"{file}, overlapped")]
    names = labels(traces)
    if len(set(names)) < len(names):
        names = sources
    found = compared([compared_utterance(name, trace) for name, trace in zip(names, traces, strict=True)])
    figures = figures_of(found, with_pitch=not no_pitch)
    if as_json:
        typer.echo(json.dumps(plain(figures)))
    else:
        for part in render_comparison(figures, names):
            console().print(part, highlight=False, markup=False)
    if places := [place for place in pictures.values() if place]:
        from studio.inspection.comparison.picture import save

        for place in places:
            save(found, names, place)
            typer.echo(f"{place}: the comparison", err=True)
    if html:
        from studio.ui.html_file import write_comparison

        write_comparison(found, html)
        typer.echo(f"{html}: the comparison with its sounds", err=True)


def _with_overlapped(traces: "list[Trace]", voices: Path, device: str) -> "list[Trace]":
    """Each trace, and after it the same frames vocoded a segment at a time by the voice that spoke it."""
    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    engine = open_engine(voices, best(), device)
    try:
        return [one for trace in traces for one in (trace, engine.vocode_overlapped(trace))]
    finally:
        engine.close()
