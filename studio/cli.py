"""The command line. Each command imports its packages when it runs.

``say``, ``train`` and ``bench`` work where gradio, fastapi, pydantic and sqlmodel are absent.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from studio import __version__
from studio.commands.app import app
from studio.commands.backup import backup, restore
from studio.commands.bench import bench, evaluate
from studio.commands.campaign.app import campaign
from studio.commands.desktop import desktop
from studio.commands.inspect import compare, inspect
from studio.commands.library import library
from studio.commands.measure import measure, synth, timing
from studio.commands.say import say, words
from studio.commands.systems import systems
from studio.commands.talk import talk
from studio.commands.traces import force, replay
from studio.commands.train import train
from studio.commands.type import type_
from studio.commands.voices import voices
from studio.core.checks import escape_unprintable
from studio.core.errors import StudioError
from studio.core.terminal import print_line

_SENT_AGAIN_S = 0.05


class _Group(TyperGroup):
    """Commands whose usage errors cannot send the escape sequences of an argument to the terminal."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        with _escaped_usage_errors():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        with _escaped_usage_errors():
            return super().invoke(ctx)


@contextmanager
def _escaped_usage_errors() -> Generator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # errors of click, which typer does not export
            vars(error)["message"] = escape_unprintable(message)
        raise


cli = typer.Typer(
    name="studio",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streaming-TTS Studio: speech that starts before the text is finished.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"studio {__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of ``studio`` itself."""


cli.add_typer(train, name="train")
cli.add_typer(evaluate, name="eval")
cli.add_typer(bench, name="bench")
cli.add_typer(campaign, name="campaign")
cli.add_typer(voices, name="voices")
cli.add_typer(library, name="library")
cli.add_typer(systems, name="systems")
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
cli.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(desktop)
cli.command()(say)
cli.command()(talk)
cli.command("type")(type_)
cli.command()(words)


class _Terminated(SystemExit):
    """Raised in the main thread by a signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def _end(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # already ending
    raise _Terminated(number)


def _send_again(hook: Callable[["sys.UnraisableHookArgs"], object], unraisable: "sys.UnraisableHookArgs") -> None:
    """Send a signal again whose exception was raised where none can leave: in a callback of a C library or weakref.

    Other exceptions go to the hook that was there before.
    """
    error = unraisable.exc_value
    if isinstance(error, (_Terminated, KeyboardInterrupt)):
        number = signal.SIGINT
        if isinstance(error, _Terminated):
            number = error.number
            signal.signal(number, _end)
        timer = threading.Timer(_SENT_AGAIN_S, os.kill, [os.getpid(), number])  # it wakes a main thread that waits
        timer.daemon = True
        timer.start()
    else:
        hook(unraisable)


def _is_no_signal(record: logging.LogRecord) -> bool:
    """Whether a record of the log has no traceback of a signal: SQLAlchemy writes one before it goes on ending."""
    return not (record.exc_info and isinstance(record.exc_info[1], (_Terminated, KeyboardInterrupt)))


@contextmanager
def _signals_as_exceptions() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise an exception, so that a command closes its files and databases.

    Afterwards the process ends by the signal, as its sender expects.
    """
    handlers: dict[int, Any] = {signal.SIGTERM: _end}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not under nohup
        handlers[signal.SIGHUP] = lambda *_: signal.raise_signal(signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    hook = sys.unraisablehook
    sys.unraisablehook = partial(_send_again, hook)
    if logging.lastResort:
        logging.lastResort.addFilter(_is_no_signal)
    try:
        yield
    except _Terminated as terminated:
        with suppress(OSError):
            sys.stdout.flush()
        signal.signal(terminated.number, signal.SIG_DFL)
        signal.raise_signal(terminated.number)
    finally:
        sys.unraisablehook = hook
        if logging.lastResort:
            logging.lastResort.removeFilter(_is_no_signal)
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
    except RecursionError as error:
        _report(StudioError("the input is nested too deeply", "give a flatter one"))
        raise SystemExit(2) from error
    except UnicodeEncodeError as error:
        _report(StudioError(f"{error.object[:80]!r} is no UTF-8", "give text of whole characters"))
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
    print_line(f"studio: {error.what}", err=True, colour="red")
    if error.do:
        print_line(f"  {error.do}", err=True)
