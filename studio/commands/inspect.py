"""``studio inspect``: the timeline of an utterance in the terminal, as a picture or as one HTML page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import Json
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.core.traces.teacher_forcing import TeacherForcingResult
    from studio.core.traces.trace import Trace

File = Annotated[Path, typer.Argument(help="A .trace, the folder of an interrupted one, or a WAV.")]
Picture = Annotated[Path | None, typer.Option(help="Also draw the timeline: typed, generated and played.")]


def inspect(
    file: File,
    text: Annotated[str, typer.Option(help="Text of a WAV.")] = "",
    svg: Picture = None,
    png: Picture = None,
    pdf: Picture = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write one HTML page with sound and the interactive picture.")
    ] = None,
    textgrid: Annotated[
        Path | None, typer.Option(help="Also write words, segments and seams as a TextGrid, in the time of the sound.")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="TextGrid whose tier words is compared; it gives the word times of a WAV."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(help="Also write the attention of a trace to this .npz, and draw it in --html."),
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Show when each word was typed, generated and played, and the cause of every wait."""
    from studio.commands.common import check_output_file
    from studio.inspection.facts import compare_with_reference, facts, render_facts
    from studio.inspection.opening import open_file, with_word_times
    from studio.inspection.textgrid import read_words, write_textgrid
    from studio.inspection.timeline import timeline
    from studio.measure.report import console, plain

    pictures = {"--svg": svg, "--png": png, "--pdf": pdf}
    for option, place in (pictures | {"--html": html}).items():
        check_output_file(place, option, f".{option[2:]}")
    check_output_file(attention, "--attention", ".npz")
    check_output_file(textgrid, "--textgrid", ".textgrid")
    trace = open_file(file, text)
    true = read_words(reference) if reference else []
    is_recording = trace.meta.get("source") == "recording"
    if reference and is_recording:
        trace = with_word_times(trace, true)
    line = timeline(trace)
    found = facts(trace, line)
    if reference and not is_recording:
        found["reference"] = compare_with_reference(trace, true)
    if as_json:
        typer.echo(json.dumps(plain(found)))
    else:
        for part in render_facts(found):
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
        from studio.ui.html_file import write_inspection

        write_inspection(trace, html, looked)
        typer.echo(f"{html}: the utterance with its sound", err=True)


def _attention(trace: "Trace", place: Path, voices: Path, device: str) -> "TeacherForcingResult":
    """Compute the attention, and write it.

    The file has ``by_layer`` float16 [L, F, K], ``shares`` float32 [F, K], ``word`` int32 [F] (the spoken word of
    column 0), ``words`` (their texts), ``p_eos`` and ``log_likelihood`` float32 [F].
    """
    import numpy as np

    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    engine = open_engine(voices, best(), device)
    try:
        found = engine.compute_attention(trace)
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
