"""``studio campaign`` settings, ready and speak: what the Edit page does with a draft, from the command line."""

from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import Data, Database, Device, Name, Voices, advised, opened, progress_bar
from studio.core.errors import BadFile, BadOption
from studio.core.folders import DEFAULT_DATA
from studio.core.shipped import VOICES

campaign_draft = typer.Typer()


@campaign_draft.command("settings")
def settings(
    name: Name,
    config: Annotated[
        Path | None, typer.Option(help="TOML whose settings replace those of the draft; what it does not name stays.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="FILE.toml; printed unless given.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """The settings of a campaign as a file for --config; with --config a draft is given others first."""
    import json

    from studio.mos.campaign.config import from_json
    from studio.mos.campaign.settings_file import to_toml
    from studio.mos.campaign.templates import replaced
    from studio.mos.making.editing import change_settings
    from studio.mos.rating.campaigns import find

    with opened(database, data) as listening:
        with listening.store.read() as session:
            found = from_json(json.loads(find(session, name).config))
        if config is not None:
            found = replaced(found, config)
            change_settings(listening, name, found)
            for line in advised(listening, name):
                typer.secho(f"note: {line}", err=True, fg="yellow")
    if out is None:
        typer.echo(to_toml(found), nl=False)
        return
    try:
        out.write_text(to_toml(found), encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{out} cannot be written: {error.strerror}", "give another place with -o") from error
    typer.echo(str(out))


@campaign_draft.command("ready")
def ready(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """What a draft still lacks before it can be opened; exit status 1 while there is something."""
    from studio.mos.analysis.advice import advice
    from studio.mos.rating.campaigns import find, problems

    with opened(database, data) as listening, listening.store.read() as session:
        campaign = find(session, name)
        found = problems(session, campaign) if campaign.state == "draft" else []
        told = advice(session, campaign)
    for error in found:
        typer.echo(str(error))
    for error in told:
        typer.secho(f"note: {error}", err=True, fg="yellow")
    if found:
        raise typer.Exit(1)
    typer.echo(f"{name} is {'ready to open' if campaign.state == 'draft' else campaign.state}")


@campaign_draft.command("speak")
def speak(
    name: Name, database: Database = "", data: Data = DEFAULT_DATA, voices: Voices = VOICES, device: Device = "auto"
) -> None:
    """Speak the texts of a draft that its voices have not said yet; a stopped run goes on."""
    from studio.commands.stimuli import speaker
    from studio.mos.making.building import draft_of
    from studio.mos.making.editing import take_spoken, unspoken
    from studio.mos.making.speaking import speak_all

    with opened(database, data) as listening, progress_bar() as progress:
        with listening.store.read() as session:
            sayings = unspoken(session, draft_of(session, name))
        if not sayings:
            raise BadOption("there is nothing to speak", "every voice of this draft has said every text")
        count = sum(len(one.texts) for one in sayings)
        bar = progress.add_task("speaking", total=count)
        manifest = speak_all(sayings, data / "spoken" / name, speaker(voices, device), lambda: progress.advance(bar))
        told = take_spoken(listening, name, manifest)
    for line in told:
        typer.secho(f"note: {line}", err=True, fg="yellow")
    typer.echo(f"{name}: {count} sound{'s' * (count != 1)} more, a draft")
