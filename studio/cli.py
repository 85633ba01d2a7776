"""The command line. Each command imports its packages when it runs.

``say``, ``train`` and ``bench`` work where gradio, fastapi, pydantic and sqlmodel are absent.
"""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from studio.commands.app import app
from studio.commands.backup import backup, restore
from studio.commands.bench import bench, evaluate
from studio.commands.campaign.app import campaign
from studio.commands.inspect import compare, inspect
from studio.commands.library import library
from studio.commands.measure import measure, synth, timing
from studio.commands.say import say
from studio.commands.traces import force, replay
from studio.commands.train import train
from studio.commands.voices import voices
from studio.core.checks import escape_unprintable
from studio.core.errors import StudioError

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
cli.command()(app)
cli.command()(say)


class _Terminated(SystemExit):
    """Raised in the main thread by a signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _end(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # already ending
    raise _Terminated(number)


@contextmanager
def _signals_as_exceptions() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise an exception, so that a command closes its files and databases.

    Afterwards the process ends by the signal, as its sender expects.
    """
    handlers: dict[int, Any] = {signal.SIGTERM: _end}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
        handlers[signal.SIGHUP] = lambda *_: signal.raise_signal(signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except _Terminated as terminated:
        with suppress(OSError):
            sys.stdout.flush()
        signal.signal(terminated.number, signal.SIG_DFL)
        signal.raise_signal(terminated.number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run a command; errors of the user print two lines instead of a traceback."""
    try:
        with _signals_as_exceptions():
            cli()
    except StudioError as error:
        _report(error)
        raise SystemExit(2) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from error
        where = f" at {error.filename}" if error.filename else ""
        do = "make its folder first" if isinstance(error, FileNotFoundError) else "make room there"
        _report(StudioError(f"{error.strerror or error}{where}", f"{do}, or give another place"))
        raise SystemExit(2) from error


def _report(error: StudioError) -> None:
    typer.secho(f"studio: {escape_unprintable(error.what)}", err=True, fg="red")
    if error.do:
        typer.echo(f"  {escape_unprintable(error.do)}", err=True)
