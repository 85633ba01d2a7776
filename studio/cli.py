"""The command line: with studio.commands the one place that knows every room; each is imported inside its command.

``say``, ``train`` and ``bench`` work where gradio, fastapi, pydantic and sqlmodel are absent.
"""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.backup import backup, restore
from studio.commands.bench.app import bench
from studio.commands.campaign.app import campaign
from studio.commands.common import (
    Data,
    Database,
    Device,
    Threads,
    Vocoder,
    VoiceName,
    Voices,
    tell_token,
)
from studio.commands.compare import compare
from studio.commands.evaluate.app import evaluate
from studio.commands.force import force
from studio.commands.inspect import inspect
from studio.commands.library import library
from studio.commands.measure import measure, synth
from studio.commands.replay import replay
from studio.commands.timing import timing
from studio.commands.train.app import train
from studio.commands.voices import voices
from studio.core.errors import StudioError
from studio.core.folders import DEFAULT_DATA
from studio.core.printable import escaped
from studio.core.shipped import DEMO, VOICES

cli = typer.Typer(
    name="studio",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streaming-TTS Studio: speech that starts before the text is finished.",
)
cli.add_typer(train, name="train")
cli.add_typer(evaluate, name="eval")
cli.add_typer(bench, name="bench")
cli.add_typer(campaign, name="campaign")
cli.add_typer(voices, name="voices")
cli.add_typer(library, name="library")
cli.command()(inspect)
cli.command()(compare)
cli.command()(replay)
cli.command()(force)
cli.command()(measure)
cli.command()(synth)
cli.command()(timing)
cli.command()(backup)
cli.command()(restore)


class _Ended(SystemExit):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _end(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # the process is ending already
    raise _Ended(number)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let SIGTERM and SIGHUP end a command as an exception does, so that it closes its files and databases.

    Afterwards the process ends by the signal, as whoever sent it expects.
    """
    handlers: dict[int, Any] = {signal.SIGTERM: _end}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
        handlers[signal.SIGHUP] = lambda *_: signal.raise_signal(signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except _Ended as ended:
        with suppress(OSError):
            sys.stdout.flush()
        signal.signal(ended.number, signal.SIG_DFL)
        signal.raise_signal(ended.number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run a command; a user's mistake is answered in two lines, not with a traceback."""
    try:
        with _ended_by_signals():
            cli()
    except StudioError as error:
        _told(error)
        raise SystemExit(2) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # whoever read our output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from error
        where = f" at {error.filename}" if error.filename else ""
        do = "make its folder first" if isinstance(error, FileNotFoundError) else "make room there"
        _told(StudioError(f"{error.strerror or error}{where}", f"{do}, or give another place"))
        raise SystemExit(2) from error


def _told(error: StudioError) -> None:
    typer.secho(f"studio: {escaped(error.what)}", err=True, fg="red")
    if error.do:
        typer.echo(f"  {escaped(error.do)}", err=True)


@cli.command()
def app(
    host: Annotated[
        str, typer.Option(help="Address to listen on; others can reach you on 0.0.0.0, with the key that is printed.")
    ] = "",
    port: Annotated[int | None, typer.Option(help="0 takes any free one.")] = None,
    no_key: Annotated[
        bool, typer.Option("--open", help="Ask nobody for a key, also where others can reach the address.")
    ] = False,
    settings: Annotated[Path | None, typer.Option(help="A TOML file with a table named serve.")] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    places: Annotated[int, typer.Option(min=1, max=64, help="Utterances spoken at once.")] = 4,
    queue: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Utterances that wait for a place; the settings' 16 if absent.")
    ] = None,
    threads: Threads = 1,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Bring the demo listening test along.", envvar="STUDIO_DEMO")
    ] = True,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Open the studio in a browser: type, and hear it while you type."""
    import threading
    from dataclasses import replace

    from studio.commands.welcome import welcome
    from studio.engine.hosting.limits import Limits
    from studio.engine.loop import open_engine
    from studio.mos.making.demo import add_demo_quietly
    from studio.mos.service import open_listening
    from studio.serve.app import create_app
    from studio.serve.run import run, take_port
    from studio.settings import load_settings
    from studio.text.normalise import best
    from studio.ui.app import mount

    chosen = load_settings(settings, os.environ)
    chosen = replace(chosen, host=host or chosen.host, port=chosen.port if port is None else port)
    limits = Limits(
        queue=chosen.max_queue if queue is None else queue,
        queue_timeout_ms=chosen.queue_timeout_ms,
        idle_ms=chosen.idle_utterance_ms,
        idle_wanted_ms=chosen.idle_wanted_ms,
        slow_run_ms=chosen.slow_run_ms,
        stuck_run_ms=chosen.stuck_run_ms,
    )
    taken = take_port(chosen)
    door = welcome(replace(chosen, port=taken.getsockname()[1]), is_open=no_key)
    chosen = door.settings

    def listening_now() -> None:
        typer.echo(f"Streaming-TTS Studio: {'  '.join(door.links)}", err=True)
        typer.echo(f"Listening tests, library and clips are kept in {data.resolve()} (--data)", err=True)
        if door.words:
            typer.secho(door.words, err=True, fg="yellow")

    with (
        closing(
            open_engine(voices, best(), device, places=places, threads=threads, vocoder=vocoder, limits=limits)
        ) as engine,
        closing(open_listening(database, data)) as listening,
    ):
        tell_token(listening)
        mounted = mount(create_app(engine, chosen, listening), engine, chosen, listening)
        if demo and DEMO.is_dir():  # in the background: the page does not wait for it
            threading.Thread(target=add_demo_quietly, args=(listening, DEMO), name="demo", daemon=True).start()
        run(mounted, chosen, taken, listening_now, stopped=listening.close)


@cli.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say; - reads a pipe and speaks as it comes.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="WAV file; - writes it to standard output. Without one it is played here, which needs sounddevice "
            "(pip) and PortAudio.",
        ),
    ] = None,
    voice: VoiceName = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", help="name=value, of the voice's family; may be repeated.")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", "-m", help="Words seen per segment: --option m=... (SpeakStream).")
    ] = None,
    hop: Annotated[
        int | None, typer.Option("--hop", "-n", help="Words spoken per segment: --option n=... (SpeakStream).")
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(help="S1 repeats look-ahead words, S2 does not: --option scheme=... (SpeakStream)."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="The voice's own unless given; 0 is greedy.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Also write the trace: events, frames, p_eos, sound.")] = None,
    typing_wpm: Annotated[float | None, typer.Option(help="Type the text at so many words a minute.")] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help='Lines {"t_ms": 0, "text": "Hel"}, sent at their times.')
    ] = None,
    as_heard: Annotated[
        bool, typer.Option("--as-heard", help="With the pauses for text, in the WAV and where it is played.")
    ] = False,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    threads: Threads = 1,
) -> None:
    """Speak a text: through the loudspeaker, or with -o into a WAV file."""
    from studio import say as saying
    from studio.core.cards import parse_voice, read_cards
    from studio.core.errors import BadOption
    from studio.core.options import flagged_options, merge_options, parse_options
    from studio.core.ports import SpeakRequest
    from studio.core.time import MonotonicClock

    if arrivals and (text or typing_wpm is not None):
        raise BadOption("--arrivals brings its own text and times", "leave out the text and --typing-wpm")
    if out is None:
        saying.loudspeaker()  # before anything is spoken
    if out == saying.STANDARD_OUTPUT:
        saying.check_output()
    else:
        saying.check_place(out, "-o", ".wav")
    saying.check_place(trace, "--trace", ".trace")
    if arrivals:
        source = saying.recorded(arrivals)
    elif text == "-":
        source = saying.piped(sys.stdin.fileno())
    else:
        source = list(saying.at_once(text) if typing_wpm is None else saying.typed(text, typing_wpm))
    card, _ = parse_voice(voice, {name: card for name, (card, _) in read_cards(voices).items()})
    short = {"--window": ("m", window), "--hop": ("n", hop), "--scheme": ("scheme", scheme)}
    written = flagged_options(card.options, short) + (option or [])
    options = merge_options(card.options, parse_options(card.options, written), {})

    from studio.engine.loop import open_engine  # takes seconds: a slip of the pen is told before
    from studio.text.normalise import best

    engine = open_engine(voices, best(), device, [card.name], threads=threads, vocoder=vocoder)
    try:
        request = SpeakRequest(voice=voice, seed=seed, temperature=temperature, options=options)
        folder = trace.with_suffix("") if trace else None
        with saying.progress() as told:
            spoken = saying.speak(engine, request, source, MonotonicClock(), folder, told)
    finally:
        engine.close()
    made, broken_by = spoken.trace, spoken.broken_by
    if broken_by and not len(made.pcm):
        raise broken_by
    for left_out in saying.unspoken(made):
        typer.echo(f"left out: {left_out}", err=True)
    if out:
        length_s = saying.save(made, out, as_heard=as_heard)
        speech_s = len(made.pcm) / made.rate_hz
        told_s = f"{length_s:.2f} s, {speech_s:.2f} s of it speech" if as_heard else f"{length_s:.2f} s"
        so_far = ", all that was spoken when it broke off" if broken_by else ""
        where = "standard output" if out == saying.STANDARD_OUTPUT else out
        typer.echo(f"{where}: {told_s}{so_far}", err=True)
    elif not broken_by:
        saying.play(made, as_heard=as_heard)
    if broken_by:
        raise broken_by


# ------------------------------------------------------------------ train
