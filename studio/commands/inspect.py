"""``studio inspect``: what the system knew of an utterance, in the terminal, as a picture, or as one page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Device, Json, Voices
from studio.core.shipped import VOICES

if TYPE_CHECKING:
    from studio.core.traces.forced import Attended
    from studio.core.traces.trace import Trace

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
    attention: Annotated[
        Path | None,
        typer.Option(help="Also write where the net attended to this .npz, and draw it in --html; of a trace."),
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
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
    check_place(attention, "--attention", ".npz")
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
    looked = _attention(trace, attention, voices, device) if attention else None
    if textgrid:
        write_textgrid(trace, textgrid)
        typer.echo(f"{textgrid}: words, segments and seams", err=True)
    if html:
        from studio.ui.inspection_file import write_inspection

        write_inspection(trace, html, looked)
        typer.echo(f"{html}: the utterance with its sound", err=True)


def _attention(trace: "Trace", place: Path, voices: Path, device: str) -> "Attended":
    """Compute where the net attended, and write it.

    The file holds ``by_layer`` float16 [L, F, K], ``shares`` float32 [F, K], ``word`` int32 [F] (the spoken word of
    column 0), ``words`` (their texts), ``p_eos`` and ``log_likelihood`` float32 [F].
    """
    import numpy as np

    from studio.engine.loop import open_engine
    from studio.text.normalise import best

    engine = open_engine(voices, best(), device)
    try:
        found = engine.attend(trace)
    finally:
        engine.close()
    np.savez_compressed(
        place,
        by_layer=found.by_layer,
        shares=found.shares,
        word=found.word,
        words=np.array([word.text for word in trace.words()]),
        p_eos=found.p_eos,
        log_likelihood=found.log_likelihood,
        what=np.array(found.what),
    )
    away = found.difference(trace.p_eos)
    typer.echo(f"{place}: {found.what}; p_eos computed again differs by at most {away:.2g}", err=True)
    return found
