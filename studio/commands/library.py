"""``studio library``: utterances that were kept, found again, tagged, removed."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import DEFAULT_DATA, Data, Json, progress_bar

if TYPE_CHECKING:
    from studio.library.entries import Entry
    from studio.library.library import Library

library = typer.Typer(no_args_is_help=True, help="Utterances that were kept: find, open, tag, remove.")

Which = Annotated[str, typer.Argument(help="The first six or more digits of its name.")]
Tags = Annotated[list[str] | None, typer.Option(help="A tag; may be repeated.")]
Title = Annotated[str, typer.Option(help="One line.")]
Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="A day, UTC.")]


@contextmanager
def _opened(data: Path) -> "Generator[Library]":
    from studio.library.library import Library

    found = Library(data / "library")
    try:
        yield found
    finally:
        found.close()


@library.command()
def add(
    files: Annotated[list[Path], typer.Argument(help="Traces, or WAV files.")],
    text: Annotated[str, typer.Option(help="What a WAV says; FILE.txt beside it unless given.")] = "",
    title: Title = "",
    tag: Tags = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Keep traces, or recordings with their text."""
    from studio.core.errors import BadFile
    from studio.core.files import MAX_TEXTS_BYTES, read_bounded
    from studio.library.library import MAX_FILE_BYTES

    with _opened(data) as kept:
        for file in files:
            says = text
            try:
                sound = read_bounded(file, MAX_FILE_BYTES)
                beside = file.with_suffix(".txt")
                if not says and sound.startswith(b"RIFF") and beside.is_file():
                    says = read_bounded(beside, MAX_TEXTS_BYTES).decode("utf-8").strip()
            except (OSError, UnicodeError) as error:
                raise BadFile(f"{file} cannot be read: {error}", "give a trace, or a WAV with its text") from error
            typer.echo(_line(kept.keep(sound, says, title, tag or ())))


@library.command()
def find(
    text: Annotated[str, typer.Argument(help="Words, all of them in its text or title.")] = "",
    voice: Annotated[str, typer.Option(help="name[:speaker].")] = "",
    tag: Annotated[str, typer.Option(help="A tag that it has.")] = "",
    since: Day = None,
    until: Day = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 50,
    skip: Annotated[int, typer.Option(min=0, help="How many of the newest to leave out.")] = 0,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """List what was kept."""
    from studio.library.index import Query

    wanted = Query(
        text=text,
        voice=voice,
        tag=tag,
        since=since.date() if since else None,
        until=until.date() if until else None,
        limit=count,
        offset=skip,
    )
    with _opened(data) as kept:
        found, of = kept.find(wanted)
        if as_json:
            typer.echo(json.dumps({"of": of, "entries": [one.to_dict() for one in found]}, ensure_ascii=False))
            return
        for one in found:
            typer.echo(_line(one))
        typer.echo(f"{len(found)} of {of}", err=True)


@library.command()
def tags(data: Data = DEFAULT_DATA) -> None:
    """Every tag, and how many have it."""
    with _opened(data) as kept:
        for tag, count in kept.tags():
            typer.echo(f"{count:6}  {tag}")


@library.command()
def note(
    name: Which,
    title: Annotated[str | None, typer.Option(help="One line.")] = None,
    tag: Tags = None,
    untag: Annotated[list[str] | None, typer.Option(help="A tag to take away; may be repeated.")] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Give an utterance another title, more tags, fewer tags."""
    with _opened(data) as kept:
        typer.echo(_line(kept.note(kept.entry(name), title, tag or (), untag or ())))


@library.command()
def path(name: Which, data: Data = DEFAULT_DATA) -> None:
    """Where its file lies: studio inspect "$(studio library path NAME)"."""
    with _opened(data) as kept:
        typer.echo(kept.path(kept.entry(name)))


@library.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Names, six or more digits each.")], data: Data = DEFAULT_DATA
) -> None:
    """Delete utterances, with what was said of them."""
    with _opened(data) as kept:
        for one in [kept.entry(name) for name in names]:
            kept.remove(one)


@library.command()
def rebuild(data: Data = DEFAULT_DATA) -> None:
    """Make the index again from the folder."""
    with _opened(data) as kept, progress_bar() as bar:
        task = bar.add_task("Reading what was kept", total=None)
        count, problems = kept.rebuild(lambda done, of: bar.update(task, completed=done, total=of))
    for one in problems:
        typer.echo(one, err=True)
    typer.echo(f"{count} utterances")
    if problems:
        raise typer.Exit(1)


def _line(one: "Entry") -> str:
    day = datetime.fromtimestamp(one.note.added_at, UTC).strftime("%Y-%m-%d")
    who = f"{one.voice}:{one.speaker}" if one.voice else "recording"
    said = one.note.title or one.text
    tags = "".join(f" [{tag}]" for tag in one.note.tags)
    return f"{one.name}  {day}  {one.duration_ms / 1000.0:6.1f} s  {who}  {said[:80]}{tags}"
