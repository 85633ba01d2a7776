"""``studio force``: a recording through a voice's net, frame by frame, as a trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Device, VoiceName, Voices
from studio.core.shipped import VOICES

if TYPE_CHECKING:
    from studio.core.forced import Recording
    from studio.core.trace import Trace


def force(
    file: Annotated[Path, typer.Argument(help="A WAV: mono, 16 bits, at most 10 minutes.")],
    text: Annotated[str, typer.Option(help="What it says; FILE.txt beside it unless given.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The trace; FILE.trace unless given.")] = None,
    textgrid: Annotated[
        Path | None,
        typer.Option(help="A TextGrid whose tier words says where the words lie; p_eos decides without one."),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Let pocketsphinx place the words, in place of p_eos.")
    ] = False,
    voice: VoiceName = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", help="name=value, of the voice's family; may be repeated.")
    ] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Send a recording through a voice: p_eos, likelihood and attention of each of its frames, as a trace."""
    from dataclasses import replace

    from studio.core.cards import parse_voice
    from studio.core.forced import MAX_FORCED_S
    from studio.core.options import parse_options
    from studio.core.trace import save_trace
    from studio.engine.loop import open_engine
    from studio.say import check_place
    from studio.text.normalise import best

    place = out or file.with_suffix(".trace")
    check_place(place, "-o", ".trace")
    recording = _read(file, text, textgrid, MAX_FORCED_S)
    if align:
        recording = _aligned(recording)
    engine = open_engine(voices, best(), device)
    try:
        card, _ = parse_voice(voice, {card.name: card for card in engine.cards()})
        options = parse_options(card.options, option or [])
        trace = engine.force(replace(recording, voice=voice or card.name, options=options))
    finally:
        engine.close()
    save_trace(trace, place)
    _tell(trace, place)


def _read(file: Path, text: str, textgrid: Path | None, most_s: float) -> "Recording":
    from studio.core.clips import read_wav
    from studio.core.errors import BadFile, BadOption, BadText
    from studio.core.files import read_bounded
    from studio.core.forced import Recording, WordSpan
    from studio.inspection.textgrid import read_words

    try:
        pcm, rate_hz = read_wav(read_bounded(file, 1 << 29))
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}", "give a WAV file") from error
    if len(pcm) > most_s * rate_hz:
        raise BadFile(f"{file} lasts {len(pcm) / rate_hz:.0f} s", f"give at most {most_s:.0f} s at once")
    if textgrid is not None:
        if text:
            raise BadOption("--textgrid brings its own words", "leave out --text")
        spans = [WordSpan(one.text, one.start_s, one.end_s) for one in read_words(textgrid)]
        return Recording(pcm, rate_hz, spans=spans, placed_by=textgrid.name)
    beside = file.with_suffix(".txt")
    if not text and beside.is_file():
        text = read_bounded(beside, 1 << 20).decode("utf-8", "replace").strip()
    if not text:
        raise BadText(f"what {file.name} says is not known", "give --text, a file .txt beside it, or --textgrid")
    return Recording(pcm, rate_hz, text=text)


def _aligned(recording: "Recording") -> "Recording":
    """The words placed by the studio's aligner. Raises BadFile where it finds another text."""
    from dataclasses import replace

    from studio.core.errors import BadFile, BadOption
    from studio.core.forced import WordSpan
    from studio.measure.recognisers.pocketsphinx import PocketSphinx

    if recording.spans:
        raise BadOption("--align and --textgrid both place the words", "give one of them")
    found = PocketSphinx().align(recording.pcm, recording.rate_hz, recording.text)
    words = recording.text.split()
    if found is None or len(found) != len(words):
        raise BadFile("the aligner does not find this text in the recording", "leave out --align, or give --textgrid")
    spans = [WordSpan(word, one.start_s, one.end_s) for word, one in zip(words, found, strict=True)]
    return replace(recording, spans=spans, placed_by="pocketsphinx")


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
        typer.secho(f"{missing} words were not reached: is this the text of the recording?", err=True, fg="yellow")
