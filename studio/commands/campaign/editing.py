"""``studio campaign`` demo, import, remove, delete, tag, merge, and the actions on a draft: settings, ready, speak."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import (
    Base,
    Data,
    Database,
    Json,
    Name,
    advised,
    opened,
    print_notes,
    progress_bar,
    read_campaign,
)
from studio.core.errors import BadOption, bad_file
from studio.core.folders import DEFAULT_DATA, DEMO, TEXTS, VOICES
from studio.core.terminal import print_data, print_json, print_line

if TYPE_CHECKING:
    from studio.mos.import_export.merge import MergeReport

campaign_in = typer.Typer()


@campaign_in.command("demo")
def demo(
    make: Annotated[
        Path | None, typer.Option(help="Speak the demo's sounds into this folder (shipped: assets/demo).")
    ] = None,
    source: Annotated[Path, typer.Option("--from", help="Folder of the demo's sounds.")] = DEMO,
    texts: Annotated[Path, typer.Option(help="Texts, as lines NAME|TEXT.")] = TEXTS / "demo.txt",
    arena: Annotated[
        bool,
        typer.Option(
            "--arena", help="Create an arena of the demo's voices instead: visitors type to two of them and vote."
        ),
    ] = False,
    base: Base = "http://127.0.0.1:7860",
    database: Database = "",
    data: Data = DEFAULT_DATA,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Add the shipped demo test and print its link, or speak its sounds again."""
    from studio.mos.stimuli.demo import ARENA_NAME, NAME, add_arena, add_demo, demo_campaign, demo_link

    if make is not None:
        _make(make, texts, voices, device)
        return
    with opened(database, data) as listening:
        which, add = (ARENA_NAME, add_arena) if arena else (NAME, add_demo)
        is_new = add(listening, source)
        row, link = demo_campaign(listening, which), demo_link(listening, which)
    assert row is not None, "it was added, or was there"
    print_line(f"{row.name} {'is new' if is_new else 'was there already'}, {row.state}")
    if link is not None:
        print_line(f"rater    {base.rstrip('/')}{link}")


def _make(out: Path, texts: Path, voices: Path, device: str) -> None:
    from studio.commands.stimuli import make_demo, systems_of
    from studio.core.cards import read_cards
    from studio.mos.campaign.names import read_texts

    systems = systems_of(read_cards(voices))
    with progress_bar() as progress:
        bar = progress.add_task("speaking", total=len(systems) * len(read_texts(texts)))
        size = make_demo(out, texts, systems, voices=voices, device=device, spoken=lambda: progress.advance(bar))
    print_line(f"{out}: {len(systems)} systems, {size:,} bytes")


@campaign_in.command("import")
def import_sounds(
    name: Name,
    source: Annotated[Path, typer.Option("--from", help="Folder SYSTEM/ITEM.wav, or a .csv or .json manifest.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Add sounds to a draft (scripts, systems, or both), with the same checks as `new`."""
    from studio.mos.stimuli.building import extend_campaign

    with opened(database, data) as listening, progress_bar() as progress:
        bar = progress.add_task("reading and levelling", total=None)
        count, notes = extend_campaign(listening, name, source, on_sound=lambda: progress.advance(bar))
    print_notes(notes)
    print_line(f"{name}: {count} sounds added, still a draft")


@campaign_in.command("remove")
def remove(
    name: Name,
    item: Annotated[str | None, typer.Option(help="Script; with --system, only its sound by that system.")] = None,
    system: Annotated[str | None, typer.Option(help="A system.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Remove a script, a system, or one sound from a draft."""
    from studio.mos.stimuli.building import remove_sounds

    with opened(database, data) as listening:
        gone = remove_sounds(listening, name, item, system)
    print_line(
        f"{name}: {gone.sounds} sounds removed, " + (f"{gone.left} left" if gone.left else "none is left: deleted")
    )


@campaign_in.command("delete")
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Delete a closed campaign with its raters and answers."""
    from studio.mos.analysis.results import overview
    from studio.mos.sessions.campaigns import find_campaign
    from studio.mos.stimuli.building import delete_campaign

    with opened(database, data) as listening:
        with listening.store.read() as session:
            there = overview(session, find_campaign(session, name))
        lost = f"{there['raters']} raters and {there['answers']} answers"
        if not yes:
            typer.confirm(f"Delete {name} ({there['state']}) with {lost}? Export it first", abort=True)
        delete_campaign(listening, name)
    print_line(f"{name} is deleted, with {lost}")


@campaign_in.command("tag")
def tag_scripts(
    name: Name,
    tags: Annotated[Path, typer.Argument(help="CSV with item,tags; separate tags by semicolons.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Tag scripts, for tables by tag; possible at any time, since raters see no tags."""
    from studio.mos.sessions.campaigns import find_campaign, tag_items
    from studio.mos.stimuli.manifest_files import read_tag_file

    wanted = read_tag_file(tags)
    with opened(database, data) as listening:
        changed = listening.store.write_now(lambda session: tag_items(session, find_campaign(session, name), wanted))
    print_line(f"{name}: {changed} scripts tagged again, of {len(wanted)} listed")


@campaign_in.command("merge")
def merge(
    other: Annotated[str, typer.Argument(help="The other studio's studio.sqlite, or its database address.")],
    name: Annotated[str | None, typer.Option(help="Only this campaign.")] = None,
    other_data: Annotated[
        Path | None, typer.Option("--from-data", help="The other data folder; by default the folder of the file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would change.")] = False,
    accept_removals: Annotated[
        bool,
        typer.Option(
            "--accept-removals", help="Also erase raters here that were erased there; otherwise they are only listed."
        ),
    ] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Merge another database's campaigns, raters, answers and clips into this one; repeatable."""
    from studio.mos.import_export.merge import merge_from

    clips = None if other_data is None else other_data / "clips"
    with opened(database, data) as listening:
        merged = merge_from(listening, other, clips, only=name, dry=dry_run, accept_removals=accept_removals)
    if as_json:
        print_json([one.to_dict() for one in merged])
        return
    for one in merged:
        how = "joins the same campaign here" if one.joined else "is new"
        counts = ", ".join(f"{getattr(one, what)} {what}" for what in ("stimuli", "raters", "trials", "answers"))
        gone = f", {one.forgotten} forgotten" if one.forgotten else ""
        print_line(f"{one.here}: {how}; {'would bring' if dry_run else 'brought'} {counts}{gone}")
        for note in (*one.notes, *_removals_of(one, dry_run)):
            print_line(f"  note: {note}", err=True, colour="yellow")
    if not merged:
        print_line("the other database has no campaign")


def _removals_of(merged: "MergeReport", dry_run: bool) -> list[str]:
    """Report raters who were erased there and exist here."""
    how = ("would go from" if dry_run else "went from") if merged.is_accepted else "stays"
    gone = merged.removals.items()
    notes = [f"{name} was forgotten there, and {how} here (answers: {answers})" for name, answers in gone]
    if notes and not merged.is_accepted:
        notes.append("--accept-removals forgets them here, too; their answers cannot be brought back")
    return notes


@campaign_in.command("settings")
def settings(
    name: Name,
    config: Annotated[Path | None, typer.Option(help="TOML file whose settings override the draft's.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="FILE.toml; standard output by default.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a campaign's settings as TOML; --config changes those of a draft first."""
    from studio.mos.campaign.config import campaign_config, override_settings, to_toml
    from studio.mos.sessions.campaigns import find_campaign
    from studio.mos.stimuli.editing import change_settings

    with opened(database, data) as listening:
        with listening.store.read() as session:
            effective = campaign_config(find_campaign(session, name))
        if config is not None:
            effective = override_settings(effective, config)
            change_settings(listening, name, effective)
            print_notes(advised(listening, name))
    if out is None:
        print_data(to_toml(effective))
        return
    with bad_file(f"{out} cannot be written", "give another place with -o"):
        out.write_text(to_toml(effective), encoding="utf-8")
    print_line(str(out))


@campaign_in.command("ready")
def ready(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """List what a draft needs before it can be opened; exit status 1 if there is anything."""
    from studio.mos.analysis.planning import advice
    from studio.mos.sessions.campaigns import opening_problems

    with read_campaign(name, database, data) as (_, session, campaign):
        problems = opening_problems(session, campaign) if campaign.state == "draft" else []
        notes = advice(session, campaign)
    for error in problems:
        print_line(str(error))
    print_notes(notes)
    if problems:
        raise typer.Exit(1)
    print_line(f"{name} is {'ready to open' if campaign.state == 'draft' else campaign.state}")


@campaign_in.command("speak")
def speak(
    name: Name, database: Database = "", data: Data = DEFAULT_DATA, voices: Voices = VOICES, device: Device = "auto"
) -> None:
    """Speak the texts of a draft that are not spoken yet; a stopped run resumes."""
    from studio.commands.stimuli import speaker
    from studio.mos.stimuli.building import extend_campaign, require_draft
    from studio.mos.stimuli.editing import missing_speech
    from studio.mos.stimuli.speech import speak_all

    with opened(database, data) as listening, progress_bar() as progress:
        with listening.store.read() as session:
            tasks = missing_speech(session, require_draft(session, name))
        if not tasks:
            raise BadOption("there is nothing to speak", "every voice of this draft has said every text")
        count = sum(len(one.texts) for one in tasks)
        bar = progress.add_task("speaking", total=count)
        manifest = speak_all(tasks, data / "spoken" / name, speaker(voices, device), lambda: progress.advance(bar))
        notes = extend_campaign(listening, name, manifest)[1]
    print_notes(notes)
    print_line(f"{name}: {count} sound{'s' * (count != 1)} added, still a draft")
