"""``studio campaign`` demo, import, merge, remove and delete: what comes into a database, and what goes out of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.common import Base, Data, Database, Device, Json, Name, Voices, opened, progress_bar
from studio.core.folders import DEFAULT_DATA
from studio.core.shipped import DEMO, TEXTS, VOICES

if TYPE_CHECKING:
    from studio.mos.exchange.merge import Merged

campaign_in = typer.Typer()


@campaign_in.command("demo")
def demo(
    make: Annotated[
        Path | None, typer.Option(help="Speak the demo anew into this folder (assets/demo is the shipped one).")
    ] = None,
    source: Annotated[Path, typer.Option("--from", help="The folder of a demo that was made.")] = DEMO,
    texts: Annotated[Path, typer.Option(help="What is spoken, a line NAME|TEXT each.")] = TEXTS / "demo.txt",
    arena: Annotated[
        bool, typer.Option("--arena", help="An arena of its voices instead: visitors type to two of them, and vote.")
    ] = False,
    base: Base = "http://127.0.0.1:7860",
    database: Database = "",
    data: Data = DEFAULT_DATA,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """The test that comes with the studio: build it into the database and print its link, or make its sounds anew."""
    from studio.mos.making.demo import ARENA_NAME, NAME, add_arena, add_demo, demo_campaign, demo_link

    if make is not None:
        _make(make, texts, voices, device)
        return
    with opened(database, data) as listening:
        which, add = (ARENA_NAME, add_arena) if arena else (NAME, add_demo)
        is_new = add(listening, source)
        row, link = demo_campaign(listening, which), demo_link(listening, which)
    assert row is not None, "it was added, or was there"
    typer.echo(f"{row.name} {'is new' if is_new else 'was there already'}, {row.state}")
    if link is not None:
        typer.echo(f"rater    {base.rstrip('/')}{link}")


def _make(out: Path, texts: Path, voices: Path, device: str) -> None:
    from studio.commands.demo import make_demo, systems_of
    from studio.core.cards import read_cards
    from studio.mos.campaign.texts import read_texts

    systems = systems_of(read_cards(voices))
    with progress_bar() as progress:
        bar = progress.add_task("speaking", total=len(systems) * len(read_texts(texts)))
        size = make_demo(
            out,
            texts,
            systems,
            voices=voices,
            device=device,
            spoken=lambda: progress.advance(bar),
        )
    typer.echo(f"{out}: {len(systems)} systems, {size:,} bytes")


@campaign_in.command("import")
def import_sounds(
    name: Name,
    source: Annotated[Path, typer.Option("--from", help="Folder SYSTEM/ITEM.wav, or a .csv or .json manifest.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Add sounds to a draft: more scripts, more systems, or both; checked as `new` checks them."""
    from studio.mos.making.building import extend

    with opened(database, data) as listening, progress_bar() as progress:
        bar = progress.add_task("reading and levelling", total=None)
        count, told = extend(listening, name, source, heard=lambda: progress.advance(bar))
    for line in told:
        typer.secho(f"note: {line}", err=True, fg="yellow")
    typer.echo(f"{name}: {count} sounds more, a draft")


@campaign_in.command("remove")
def remove(
    name: Name,
    item: Annotated[str | None, typer.Option(help="A script; with --system, its sound by that one alone.")] = None,
    system: Annotated[str | None, typer.Option(help="A system.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Take a script, a system, or one sound out of a draft again; what has no sound left goes with it."""
    from studio.mos.making.removing import remove_sounds

    with opened(database, data) as listening:
        gone = remove_sounds(listening, name, item, system)
    typer.echo(f"{name}: {gone.sounds} sounds less, " + (f"{gone.left} left" if gone.left else "none is left: deleted"))


@campaign_in.command("delete")
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Delete a campaign that is not open, with its raters and all their answers."""
    from studio.mos.analysis.results import overview
    from studio.mos.making.removing import delete_campaign
    from studio.mos.rating.campaigns import find

    with opened(database, data) as listening:
        with listening.store.read() as session:
            there = overview(session, find(session, name))
        lost = f"{there['raters']} raters and {there['answers']} answers"
        if not yes:
            typer.confirm(f"Delete {name} ({there['state']}) with {lost}? Export it first", abort=True)
        delete_campaign(listening, name)
    typer.echo(f"{name} is deleted, with {lost}")


@campaign_in.command("tag")
def tag_scripts(
    name: Name,
    tags: Annotated[Path, typer.Argument(help="CSV with item,tags; several tags are divided by semicolons.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Say what scripts are like, for tables by tag; at any time, for raters see no tags."""
    from studio.mos.making.manifest import read_tag_file
    from studio.mos.rating.campaigns import find, tag_items

    wanted = read_tag_file(tags)
    with opened(database, data) as listening:
        changed = listening.store.write_now(lambda session: tag_items(session, find(session, name), wanted))
    typer.echo(f"{name}: {changed} scripts tagged anew, of {len(wanted)} listed")


@campaign_in.command("merge")
def merge(
    other: Annotated[str, typer.Argument(help="The other studio's studio.sqlite, or its database address.")],
    name: Annotated[str | None, typer.Option(help="Only this campaign of it.")] = None,
    other_data: Annotated[
        Path | None, typer.Option("--from-data", help="The other's data folder; beside its file unless given.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come, and change nothing.")] = False,
    accept_removals: Annotated[
        bool, typer.Option("--accept-removals", help="Forget here, too, who was forgotten there; else they are listed.")
    ] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Bring another database's campaigns, raters, answers and clips into this one; twice is as good as once."""
    from studio.mos.exchange.other_database import merge_from

    clips = None if other_data is None else other_data / "clips"
    with opened(database, data) as listening:
        found = merge_from(listening, other, clips, only=name, dry=dry_run, accept_removals=accept_removals)
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found]))
        return
    for one in found:
        how = "joins the same campaign here" if one.joined else "is new"
        counts = ", ".join(f"{getattr(one, what)} {what}" for what in ("stimuli", "raters", "trials", "answers"))
        gone = f", {one.forgotten} forgotten" if one.forgotten else ""
        typer.echo(f"{one.here}: {how}; {'would bring' if dry_run else 'brought'} {counts}{gone}")
        for note in (*one.notes, *_removals_of(one, dry_run)):
            typer.secho(f"  note: {note}", err=True, fg="yellow")
    if not found:
        typer.echo("the other database has no campaign")


def _removals_of(merged: "Merged", dry_run: bool) -> list[str]:
    """What is said of those who were forgotten there and are here."""
    how = ("would go from" if dry_run else "went from") if merged.is_accepted else "stays"
    gone = merged.removals.items()
    said = [f"{name} was forgotten there, and {how} here (answers: {answers})" for name, answers in gone]
    if said and not merged.is_accepted:
        said.append("--accept-removals forgets them here, too; their answers cannot be brought back")
    return said
