"""``studio campaign`` settings, ready and speak: the Edit page's actions on a draft."""

from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Device, Voices
from studio.commands.common import Data, Database, Name, advised, opened, progress_bar
from studio.core.errors import BadFile, BadOption
from studio.core.folders import DEFAULT_DATA, VOICES

campaign_draft = typer.Typer()


@campaign_draft.command("settings")
def settings(
    name: Name,
    config: Annotated[Path | None, typer.Option(help="TOML file whose settings override the draft's.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="FILE.toml; standard output by default.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a campaign's settings as TOML; --config changes those of a draft first."""
    import json

    from studio.mos.campaign.config import from_json
    from studio.mos.campaign.templates import override_settings, to_toml
    from studio.mos.sessions.campaigns import find_campaign
    from studio.mos.stimuli.editing import change_settings

    with opened(database, data) as listening:
        with listening.store.read() as session:
            found = from_json(json.loads(find_campaign(session, name).config))
        if config is not None:
            found = override_settings(found, config)
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
    """List what a draft needs before it can be opened; exit status 1 if there is anything."""
    from studio.mos.analysis.advice import advice
    from studio.mos.sessions.campaigns import find_campaign, opening_problems

    with opened(database, data) as listening, listening.store.read() as session:
        campaign = find_campaign(session, name)
        found = opening_problems(session, campaign) if campaign.state == "draft" else []
        notes = advice(session, campaign)
    for error in found:
        typer.echo(str(error))
    for error in notes:
        typer.secho(f"note: {error}", err=True, fg="yellow")
    if found:
        raise typer.Exit(1)
    typer.echo(f"{name} is {'ready to open' if campaign.state == 'draft' else campaign.state}")


@campaign_draft.command("speak")
def speak(
    name: Name, database: Database = "", data: Data = DEFAULT_DATA, voices: Voices = VOICES, device: Device = "auto"
) -> None:
    """Speak the texts of a draft that are not spoken yet; a stopped run resumes."""
    from studio.commands.stimuli import speaker
    from studio.mos.stimuli.building import require_draft
    from studio.mos.stimuli.editing import add_spoken, missing_speech
    from studio.mos.stimuli.synthesis import speak_all

    with opened(database, data) as listening, progress_bar() as progress:
        with listening.store.read() as session:
            sayings = missing_speech(session, require_draft(session, name))
        if not sayings:
            raise BadOption("there is nothing to speak", "every voice of this draft has said every text")
        count = sum(len(one.texts) for one in sayings)
        bar = progress.add_task("speaking", total=count)
        manifest = speak_all(sayings, data / "spoken" / name, speaker(voices, device), lambda: progress.advance(bar))
        notes = add_spoken(listening, name, manifest)
    for line in notes:
        typer.secho(f"note: {line}", err=True, fg="yellow")
    typer.echo(f"{name}: {count} sound{'s' * (count != 1)} more, a draft")
