"""``studio force``: teacher forcing of a voice on a recording; ``studio replay``: repeat a trace's utterance."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, FamilyOption, VoiceName, Voices
from studio.core.folders import VOICES, speakers_folder
from studio.core.terminal import print_line

if TYPE_CHECKING:
    from studio.core.traces.teacher_forcing import TeacherForcingRequest
    from studio.core.traces.trace import Trace

_MOST_THREADS = 256


def force(
    file: Annotated[Path, typer.Argument(help="Sound file, mixed to mono; at most 10 minutes.")],
    text: Annotated[str, typer.Option(help="Its text; by default FILE.txt.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Trace to write; by default FILE.trace.")] = None,
    textgrid: Annotated[
        Path | None, typer.Option(help="TextGrid whose tier words gives the word times; p_eos decides without one.")
    ] = None,
    align: Annotated[bool, typer.Option("--align", help="Align words with pocketsphinx instead of p_eos.")] = False,
    voice: VoiceName = "",
    option: FamilyOption = None,
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

    path = out or file.with_suffix(".trace")
    check_output_file(path, "-o", ".trace")
    recording = _read(file, text, textgrid, MAX_RECORDING_S)
    if align:
        recording = request_from_aligner(recording)
    with closing(open_engine(voices, best(), device, speakers=speakers_folder())) as engine:
        card, _ = parse_voice(voice, {card.name: card for card in engine.cards()})
        options = parse_options(card.options, option or [])
        trace = engine.recomputer().teacher_force(replace(recording, voice=voice or card.name, options=options))
    save_trace(trace, path)
    _print_summary(trace, path)


def _read(file: Path, text: str, textgrid: Path | None, most_s: float) -> "TeacherForcingRequest":
    from studio.core.errors import BadFile, BadOption, BadText, bad_file
    from studio.core.files import read_bounded
    from studio.core.sound_files import read_mono
    from studio.core.traces.teacher_forcing import TeacherForcingRequest
    from studio.core.traces.textgrid import MAX_BYTES
    from studio.inspection.opening import request_from_textgrid

    with bad_file(f"{file} cannot be read", "give a WAV file"):
        pcm, rate_hz = read_mono(read_bounded(file, 1 << 29), file.name)
    if len(pcm) > most_s * rate_hz:
        raise BadFile(f"{file} lasts {len(pcm) / rate_hz:.0f} s", f"give at most {most_s:.0f} s at once")
    if textgrid is not None:
        if text:
            raise BadOption("--textgrid brings its own words", "omit --text")
        with bad_file(f"{textgrid} cannot be read", "give another file"):
            return request_from_textgrid(pcm, rate_hz, read_bounded(textgrid, MAX_BYTES), textgrid.name)
    text_file = file.with_suffix(".txt")
    if not text and text_file.is_file():
        text = read_bounded(text_file, 1 << 20).decode("utf-8", "replace").strip()
    if not text:
        raise BadText(f"what {file.name} says is not known", "give --text, a file .txt beside it, or --textgrid")
    return TeacherForcingRequest(pcm, rate_hz, text=text)


def _print_summary(trace: "Trace", path: Path) -> None:
    import numpy as np

    segments, words = trace.segments(), trace.words()
    missing = sum(word.start is None for word in words)
    print_line(
        f"{path}: {len(trace.pcm) / trace.rate_hz:.2f} s through {trace.meta['voice']}:{trace.meta['speaker']}, "
        f"{len(words)} words, {len(segments)} segments, words placed by {trace.meta['placed_by']}",
        err=True,
    )
    print_line(f"log-likelihood of a frame, mean: {np.nanmean(trace.layers['log_likelihood']):.1f}", err=True)
    forced = sum(one.forced for one in segments[:-1])
    if forced:
        print_line(f"{forced} segments end where p_eos would not have ended them", err=True)
    if missing:
        print_line(
            f"{missing} words were not reached: is this the text of the recording? --align places them",
            err=True,
            colour="yellow",
        )


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
    _ = before.request  # raises BadFile before a voice is loaded
    origin = tuple(
        before.meta.get(name, plain) for name, plain in (("device", "auto"), ("threads", 1), ("vocoder", ""))
    )
    match origin:
        case (str(at), int(threads), str(vocoder)) if 1 <= threads <= _MOST_THREADS:
            engine = open_engine(
                voices, best(), device=device or at, threads=threads, vocoder=vocoder, speakers=speakers_folder()
            )
        case _:
            raise BadFile("the trace does not say how it was computed", f"device, threads, vocoder: {origin!r:.200}")
    try:
        replayed = again(engine, before)
    finally:
        engine.close()
    if out:
        save_audio(out, replayed.trace.pcm, replayed.trace.rate_hz, replayed.trace.meta)
    for difference in replayed.differences:
        print_line(difference)
    rate_hz = before.rate_hz
    if replayed.is_same:
        print_line(f"the same {replayed.samples:,} samples, bit for bit ({replayed.samples / rate_hz:.2f} s)")
        return
    if replayed.first_difference is not None:
        where = _where(replayed.trace, replayed.first_difference)
        print_line(f"the first sample that differs is {replayed.first_difference:,}, {where}")
    if not replayed.is_whole:
        print_line(f"it had {len(before.pcm):,} samples, now it has {len(replayed.trace.pcm):,}")
    raise typer.Exit(1)


def _where(trace: "Trace", at: int) -> str:
    """The time of a sample, and the word spoken at it."""
    from studio.core.checks import to_printable

    words = [word.text for word in trace.words() if word.start is not None and word.start <= at < (word.end or at + 1)]
    return f"at {at / trace.rate_hz:.3f} s" + (f", in “{to_printable(words[0])}”" if words else "")
