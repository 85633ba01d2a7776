"""``studio replay``: repeat an utterance from its trace, and compare the samples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Voices
from studio.core.folders import VOICES

if TYPE_CHECKING:
    from studio.core.traces.trace import Trace

_MOST_THREADS = 256


def replay(
    file: Annotated[Path, typer.Argument(help="A .trace, or the folder of an interrupted one.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the new sound as WAV.")] = None,
    voices: Voices = VOICES,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda; by default the trace's.")] = "",
) -> None:
    """Speak a trace again and compare every sample; exit status 1 if one differs."""
    from studio.commands.common import check_output_file
    from studio.core.errors import BadFile
    from studio.core.speaking import save_audio
    from studio.core.traces.trace import open_trace
    from studio.engine.engine import open_engine
    from studio.inspection.replay import replay as again
    from studio.text.normalise import best

    check_output_file(out, "-o", ".wav")
    before = open_trace(file, str(file))
    if not len(before.pcm):
        raise BadFile(f"{file} holds no sound", "there is nothing to compare with")
    _ = before.request  # refused before a voice is loaded
    origin = tuple(
        before.meta.get(name, plain) for name, plain in (("device", "auto"), ("threads", 1), ("vocoder", ""))
    )
    match origin:
        case (str(at), int(threads), str(vocoder)) if 1 <= threads <= _MOST_THREADS:
            engine = open_engine(voices, best(), device=device or at, threads=threads, vocoder=vocoder)
        case _:
            raise BadFile("the trace does not say how it was computed", f"device, threads, vocoder: {origin!r:.200}")
    try:
        found = again(engine, before)
    finally:
        engine.close()
    if out:
        save_audio(out, found.trace.pcm, found.trace.rate_hz)
    for difference in found.differences:
        typer.echo(difference)
    rate_hz = before.rate_hz
    if found.is_same:
        typer.echo(f"the same {found.samples:,} samples, bit for bit ({found.samples / rate_hz:.2f} s)")
        return
    if found.first_difference is not None:
        where = _where(found.trace, found.first_difference)
        typer.echo(f"the first sample that differs is {found.first_difference:,}, {where}")
    if not found.is_whole:
        typer.echo(f"it had {len(before.pcm):,} samples, now it has {len(found.trace.pcm):,}")
    raise typer.Exit(1)


def _where(trace: "Trace", at: int) -> str:
    """The time of a sample, and the word that is said there."""
    from studio.core.checks import to_printable

    said = [word.text for word in trace.words() if word.start is not None and word.start <= at < (word.end or at + 1)]
    return f"at {at / trace.rate_hz:.3f} s" + (f", in “{to_printable(said[0])}”" if said else "")
