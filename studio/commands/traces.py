"""``studio force``: teacher forcing of a voice on a recording, as a trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, VoiceName, Voices
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.core.traces.teacher_forcing import TeacherForcingRequest
    from studio.core.traces.trace import Trace


def force(
    file: Annotated[Path, typer.Argument(help="WAV file: mono, 16 bits, at most 10 minutes.")],
    text: Annotated[str, typer.Option(help="Its text; by default FILE.txt.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Trace to write; by default FILE.trace.")] = None,
    textgrid: Annotated[
        Path | None, typer.Option(help="TextGrid whose tier words gives the word times; p_eos decides without one.")
    ] = None,
    align: Annotated[bool, typer.Option("--align", help="Align words with pocketsphinx instead of p_eos.")] = False,
    voice: VoiceName = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", help="Option of the family, name=value. Repeatable.")
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Teacher-force a voice on a recording: p_eos, likelihood and attention of each frame, as a trace."""
    from dataclasses import replace

    from studio.commands.common import check_output_file
    from studio.core.cards import parse_voice
    from studio.core.options import parse_options
    from studio.core.traces.teacher_forcing import MAX_RECORDING_S
    from studio.core.traces.trace_writer import save_trace
    from studio.engine.engine import open_engine
    from studio.inspection.opening import request_from_aligner
    from studio.text.normalise import best

    place = out or file.with_suffix(".trace")
    check_output_file(place, "-o", ".trace")
    recording = _read(file, text, textgrid, MAX_RECORDING_S)
    if align:
        recording = request_from_aligner(recording)
    engine = open_engine(voices, best(), device)
    try:
        card, _ = parse_voice(voice, {card.name: card for card in engine.cards()})
        options = parse_options(card.options, option or [])
        trace = engine.teacher_force(replace(recording, voice=voice or card.name, options=options))
    finally:
        engine.close()
    save_trace(trace, place)
    _tell(trace, place)


def _read(file: Path, text: str, textgrid: Path | None, most_s: float) -> "TeacherForcingRequest":
    from studio.core.clips import read_wav
    from studio.core.errors import BadFile, BadOption, BadText
    from studio.core.files import read_bounded
    from studio.core.traces.teacher_forcing import TeacherForcingRequest
    from studio.core.traces.textgrid import MAX_BYTES
    from studio.inspection.opening import request_from_textgrid

    try:
        pcm, rate_hz = read_wav(read_bounded(file, 1 << 29))
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}", "give a WAV file") from error
    if len(pcm) > most_s * rate_hz:
        raise BadFile(f"{file} lasts {len(pcm) / rate_hz:.0f} s", f"give at most {most_s:.0f} s at once")
    if textgrid is not None:
        if text:
            raise BadOption("--textgrid brings its own words", "omit --text")
        try:
            return request_from_textgrid(pcm, rate_hz, read_bounded(textgrid, MAX_BYTES), textgrid.name)
        except OSError as error:
            raise BadFile(f"{textgrid} cannot be read: {error.strerror}", "give another file") from error
    beside = file.with_suffix(".txt")
    if not text and beside.is_file():
        text = read_bounded(beside, 1 << 20).decode("utf-8", "replace").strip()
    if not text:
        raise BadText(f"what {file.name} says is not known", "give --text, a file .txt beside it, or --textgrid")
    return TeacherForcingRequest(pcm, rate_hz, text=text)


def _tell(trace: "Trace", place: Path) -> None:
    import numpy as np

    segments, words = trace.segments(), trace.words()
    missing = sum(word.start is None for word in words)
    typer.echo(
        f"{place}: {len(trace.pcm) / trace.rate_hz:.2f} s through {trace.meta['voice']}:{trace.meta['speaker']}, "
        f"{len(words)} words, {len(segments)} segments, words placed by {trace.meta['placed_by']}",
        err=True,
    )
    typer.echo(f"log-likelihood of a frame, mean: {np.nanmean(trace.layers['log_likelihood']):.1f}", err=True)
    against = sum(one.forced for one in segments[:-1])
    if against:
        typer.echo(f"{against} ends of segments lie where p_eos would have gone on", err=True)
    if missing:
        typer.secho(
            f"{missing} words were not reached: is this the text of the recording? --align places them",
            err=True,
            fg="yellow",
        )
