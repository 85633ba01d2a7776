"""``studio inspect``: what the system knew of an utterance, in the terminal, as a picture, or as one page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import Json

File = Annotated[Path, typer.Argument(help="A .trace, a folder that a crash left, or a WAV.")]
Picture = Annotated[Path | None, typer.Option(help="Also draw the timeline: what was typed, made and heard.")]


def inspect(
    file: File,
    text: Annotated[str, typer.Option(help="What a WAV says.")] = "",
    svg: Picture = None,
    png: Picture = None,
    pdf: Picture = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one page with sound and the interactive picture, to send by mail.")
    ] = None,
    textgrid: Annotated[
        Path | None, typer.Option(help="Also write words, segments and seams for Praat, in the time of the sound.")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="A TextGrid whose tier words is compared with; it places the words of a WAV."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell when each word was typed, made and heard, and what held it up."""
    from studio.inspection.facts import against, facts, shown
    from studio.inspection.opening import open_file, placed
    from studio.inspection.textgrid import read_words, write_textgrid
    from studio.inspection.timeline import timeline
    from studio.measure.report import console, plain
    from studio.say import check_place

    pictures = {"--svg": svg, "--png": png, "--pdf": pdf}
    for option, place in (pictures | {"--html": html}).items():
        check_place(place, option, f".{option[2:]}")
    check_place(textgrid, "--textgrid", ".textgrid")
    trace = open_file(file, text)
    true = read_words(reference) if reference else []
    is_recording = trace.meta.get("source") == "recording"
    if reference and is_recording:
        trace = placed(trace, true)
    line = timeline(trace)
    found = facts(trace, line)
    if reference and not is_recording:
        found["reference"] = against(trace, true)
    if as_json:
        typer.echo(json.dumps(plain(found)))
    else:
        for part in shown(found):
            console().print(part, highlight=False, markup=False)
    if places := [place for place in pictures.values() if place]:
        from studio.inspection.picture import save

        for place in places:
            save(line, place, title=line.text if len(line.text) < 100 else file.name)
            typer.echo(f"{place}: the timeline", err=True)
    if textgrid:
        write_textgrid(trace, textgrid)
        typer.echo(f"{textgrid}: words, segments and seams", err=True)
    if html:
        from studio.ui.inspection_file import write_inspection

        write_inspection(trace, html)
        typer.echo(f"{html}: the utterance with its sound", err=True)
