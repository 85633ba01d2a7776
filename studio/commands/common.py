"""What several commands share: options, where things lie, how figures are shown and saved."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.core.folders import data_folder
from studio.core.shipped import VOICES

if TYPE_CHECKING:
    from rich.progress import Progress

    from studio.mos.service import Listening

RECIPE = VOICES / "wren" / "recipe.toml"

Voices = Annotated[Path, typer.Option(help="Folder of voices.", envvar="STUDIO_VOICES")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
VoiceName = Annotated[str, typer.Option(help="A voice, name[:speaker]; the first one unless named.")]
Speakers = Annotated[
    list[str] | None,
    typer.Option("--speaker", help="Of the voice; the one named with it, or all, unless given. May be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")]
Save = Annotated[bool, typer.Option("--save", help="Also write a dated JSON file to bench/results/.")]
Vocoder = Annotated[
    str, typer.Option(help="The vocoder; each voice's own unless named; `studio voices info` lists them.")
]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Of arithmetic on a CPU; more help large nets only.")]
Texts = Annotated[Path, typer.Option(help="One text a line.")]
Count = Annotated[int, typer.Option(min=1, help="How many texts, from the first.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        help="The family's options: name=value,name=value. May be repeated where settings are compared; "
        "the family names some where none is given."
    ),
]
Recogniser = Annotated[
    str,
    typer.Option(
        help="whisper (its base weights), whisper:NAME of the hub, whisper:FOLDER, or pocketsphinx.",
        envvar="STUDIO_RECOGNISER",
    ),
]
Cache = Annotated[Path | None, typer.Option(help="Keep speech and answers here, so that a stopped run goes on.")]
Recipe = Annotated[Path, typer.Option(help="The voice's recipe.")]
Database = Annotated[
    str,
    typer.Option(
        help="sqlite:///FILE or postgresql://...; studio.sqlite in --data unless given.", envvar="STUDIO_DATABASE"
    ),
]


Data = Annotated[
    Path,
    typer.Option(
        help="Folder of clips and of the database.",
        envvar="STUDIO_DATA_FOLDER",
        parser=data_folder,
        metavar="PATH",
    ),
]
Name = Annotated[str, typer.Argument(help="The campaign's name.")]
Base = Annotated[str, typer.Option(help="Where raters reach the studio.", envvar="STUDIO_URL")]


@contextmanager
def opened(database: str, data: Path, *, is_token_told: bool = True) -> "Generator[Listening]":
    """The listening tests of a database, let go afterwards. Raises NotStored where the database refuses a change.

    Whichever command makes the database tells the owner's token: nothing else ever can.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from studio.core.errors import NotStored
    from studio.mos.service import open_listening

    listening = open_listening(database, data)
    if is_token_told:
        tell_token(listening)
    try:
        yield listening
    except SQLAlchemyError as error:
        why = getattr(error, "orig", None) or type(error).__name__
        raise NotStored(f"the database refused it: {why!s:.200}", "make room on its disk, then try again") from error
    finally:
        listening.close()


def tell_token(listening: "Listening") -> None:
    """Print the owner's token where it was made just now; not among what a command is asked for."""
    if (token := listening.access.first_token) is not None:
        typer.echo(f"The owner's token of the listening tests, shown this once: {token}", err=True)


def advised(listening: "Listening", name: str) -> list[str]:
    """What to tell whoever made, changed or opened a campaign: what does not do what it says, as sentences."""
    from studio.core.errors import BadOption
    from studio.mos.analysis.advice import advice
    from studio.mos.rating.campaigns import find
    from studio.mos.rating.parts import check_parts, config_of

    with listening.store.read() as session:
        campaign = find(session, name)
        found = [str(one) for one in advice(session, campaign)]
        try:
            check_parts(session, campaign, config_of(campaign))
        except BadOption as error:
            found.append(str(error))
    return found


def progress_bar() -> "Progress":
    """Progress that is told beside what a command is asked for, not in it."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True)


def show(name: str, figures: dict[str, Any], as_json: bool, save: bool) -> None:
    """Print figures as JSON where wanted, and keep them in bench/results where wanted."""
    from studio.measure.report import plain, write_result

    if as_json:
        typer.echo(json.dumps(plain(figures)))
    if save:
        typer.echo(f"written to {write_result(name, figures)}", err=True)
