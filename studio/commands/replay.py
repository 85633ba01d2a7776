"""``studio replay``: the same samples again from a trace, or what differs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Voices
from studio.core.shipped import VOICES

if TYPE_CHECKING:
    from studio.core.traces.trace import Trace

_MOST_THREADS = 256


def replay(
    file: Annotated[Path, typer.Argument(help="A .trace, or a folder that a crash left.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write what was made now as WAV.")] = None,
    voices: Voices = VOICES,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda; the trace's own unless given.")] = "",
) -> None:
    """Speak a trace again and compare every sample; ends with 1 where one differs."""
    from studio.core.errors import BadFile
    from studio.core.traces.trace import open_trace
    from studio.engine.loop import open_engine
    from studio.replay import replay as again
    from studio.say import check_place, save
    from studio.text.normalise import best

    check_place(out, "-o", ".wav")
    before = open_trace(file, str(file))
    if not len(before.pcm):
        raise BadFile(f"{file} holds no sound", "there is nothing to compare with")
    _ = before.request  # refused before a voice is loaded
    told = tuple(before.meta.get(name, plain) for name, plain in (("device", "auto"), ("threads", 1), ("vocoder", "")))
    match told:
        case (str(at), int(threads), str(vocoder)) if 1 <= threads <= _MOST_THREADS:
            engine = open_engine(voices, best(), device=device or at, threads=threads, vocoder=vocoder)
        case _:
            raise BadFile(
                "the trace does not say by what it was computed", f"of device, threads, vocoder it has {told!r:.200}"
            )
    try:
        found = again(engine, before)
    finally:
        engine.close()
    if out:
        save(found.trace, out, as_heard=False)
    for told in found.differences:
        typer.echo(told)
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
    from studio.core.printable import printable

    said = [word.text for word in trace.words() if word.start is not None and word.start <= at < (word.end or at + 1)]
    return f"at {at / trace.rate_hz:.3f} s" + (f", in “{printable(said[0])}”" if said else "")
