"""Options and helpers shared by several commands."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.core.errors import BadFile, BadOption
from studio.core.folders import DATA_VARIABLE, VOICES, data_folder
from studio.core.terminal import print_json, print_line

if TYPE_CHECKING:
    from rich.progress import Progress
    from sqlmodel import Session

    from studio.mos.service import ListeningTests
    from studio.mos.store.tables import Campaign


RECIPE = VOICES / "wren" / "recipe.toml"

Json = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
Speed = Annotated[
    float, typer.Option(min=0.5, max=2.0, help="How fast it is spoken, the pitch kept: 2 is twice as fast.")
]
Save = Annotated[bool, typer.Option("--save", help="Write a dated JSON file to bench/results/.")]
Recipe = Annotated[Path, typer.Option(help="The voice's recipe.")]
Database = Annotated[
    str,
    typer.Option(
        help="sqlite:///FILE or postgresql://...; by default studio.sqlite in --data.", envvar="STUDIO_DATABASE"
    ),
]


Data = Annotated[
    Path,
    typer.Option(help="Folder of clips and of the database.", envvar=DATA_VARIABLE, parser=data_folder, metavar="PATH"),
]
Name = Annotated[str, typer.Argument(help="The campaign's name.")]
Base = Annotated[str, typer.Option(help="Public address of the studio for raters.", envvar="STUDIO_URL")]


@contextmanager
def opened(database: str, data: Path, *, prints_token: bool = True) -> "Generator[ListeningTests]":
    """Open the listening tests of a database, and close them afterwards.

    Raises Unavailable: the database is locked, damaged, or refuses a change; one in a read-only folder can be read.

    The command that creates the database prints the owner's token, which cannot be read later.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from studio.mos.service import open_listening_tests
    from studio.mos.store.problems import database_problem

    listening = open_listening_tests(database, data, may_be_read_only=True)
    if prints_token:
        tell_token(listening)
    try:
        yield listening
    except SQLAlchemyError as error:
        raise database_problem(error) from error
    finally:
        listening.close()


@contextmanager
def read_campaign(name: str, database: str, data: Path) -> "Generator[tuple[ListeningTests, Session, Campaign]]":
    """Open the listening tests of a database to read one campaign."""
    from studio.mos.sessions.campaigns import find_campaign

    with opened(database, data) as listening, listening.store.read() as session:
        yield listening, session, find_campaign(session, name)


def print_notes(lines: "Iterable[object]") -> None:
    """Print notes on stderr."""
    for line in lines:
        print_line(f"note: {line}", err=True, colour="yellow")


def tell_token(listening: "ListeningTests") -> None:
    """Print the owner's token to stderr if it has just been created."""
    if (token := listening.access.first_token) is not None:
        print_line(f"The owner's access key, shown this once: {token}", err=True)


def advised(listening: "ListeningTests", name: str) -> list[str]:
    """Warnings about a campaign's settings, as sentences."""
    from studio.core.errors import BadOption
    from studio.mos.analysis.planning import advice
    from studio.mos.campaign.config import campaign_config
    from studio.mos.sessions.campaigns import find_campaign
    from studio.mos.sessions.parts import check_parts

    with listening.store.read() as session:
        campaign = find_campaign(session, name)
        notes = [str(one) for one in advice(session, campaign)]
        try:
            check_parts(session, campaign, campaign_config(campaign))
        except BadOption as error:
            notes.append(str(error))
    return notes


def check_output_file(path: Path | None, option: str, *suffixes: str) -> None:
    """Fail early if a file cannot be written, or has none of the suffixes. Raises BadFile."""
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):  # a device or a pipe
        return
    problem = ""
    if path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "you may not write there"
    elif path.suffix.lower() not in suffixes:
        problem = f"it does not end in {' or '.join(suffixes)}"
    if problem:
        raise BadFile(f"{path} cannot be written: {problem}", f"give a file like {option} out{suffixes[0]}")


def confirm(question: str, yes: bool, flag: str) -> bool:
    """Whether the user accepts, by ``flag`` or on the terminal. Raises BadOption: there is no terminal to ask on."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadOption("there is no terminal to ask on", f"read what is written here, then give {flag}")
    print_line(f"{question} [y/N] ", err=True, end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def progress_bar() -> "Progress":
    """A progress bar on stderr."""
    from rich.progress import Progress

    from studio.measure.report import console

    return Progress(console=console(stderr=True), transient=True)


def show(name: str, figures: dict[str, Any], as_json: bool, save: bool) -> None:
    """Print figures as JSON, and save them to bench/results, as requested."""
    from studio.measure.report import plain, write_result

    if as_json:
        print_json(plain(figures))
    if save:
        print_line(f"written to {write_result(name, figures)}", err=True)
