"""``studio campaign``: listening tests from the command line, the only place where the engine and the tests meet."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.commands.campaign.draft import campaign_draft
from studio.commands.campaign.figures import campaign_figures
from studio.commands.campaign.predict import campaign_predict
from studio.commands.campaign.taking_in import campaign_in
from studio.commands.common import (
    Base,
    Data,
    Database,
    Device,
    Json,
    Name,
    Voices,
    advised,
    opened,
    progress_bar,
)
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA, is_default_data
from studio.core.shipped import TRAPS, VOICES

if TYPE_CHECKING:
    from studio.mos.campaign.config import CampaignConfig
    from studio.mos.campaign.draft import Manifest

campaign = typer.Typer(no_args_is_help=True, help="Listening tests: make, open, follow and analyse them.")
campaign.add_typer(campaign_in)
campaign.add_typer(campaign_draft)
campaign.add_typer(campaign_figures)
campaign.add_typer(campaign_predict)


@campaign.command("templates")
def list_templates() -> None:
    """The tests of the papers, ready to run."""
    from studio.mos.campaign.templates import template, template_names

    for name in template_names():
        config = template(name)
        typer.echo(f"{name:18} {config.kind:12} {config.texts.title}")


@campaign.command("new")
def new(
    name: Name,
    template: Annotated[str, typer.Option(help="What is asked and how; `studio campaign templates` lists them.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder SYSTEM/ITEM.wav, or a .csv or .json manifest.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="Texts to be spoken, one a line.")] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(help="A system that speaks them, 'clara?m=3,n=1'; 'teacher:clara' taught it."),
    ] = None,
    reference: Annotated[str, typer.Option(help="Which of the systems is the reference.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML with settings that replace the template's.")] = None,
    ends: Annotated[
        float | None, typer.Option(help="Rate the first and the last so many seconds of each script apart; 30 in 002.")
    ] = None,
    traps: Annotated[
        int, typer.Option(min=0, max=5, help="So many ready traps a sitting, 'please choose two', on scales of 1 to 5.")
    ] = 0,
    seed: Annotated[int | None, typer.Option(help="Of the design; drawn and stored unless given.")] = None,
    start: Annotated[bool, typer.Option("--open/--draft", help="Open it for raters at once.")] = True,
    base: Base = "http://127.0.0.1:7860",
    database: Database = "",
    data: Data = DEFAULT_DATA,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Make a campaign from sounds, or from texts that the studio's voices speak; prints the raters' link."""
    from studio.mos.campaign.names import check_name
    from studio.mos.campaign.templates import with_settings
    from studio.mos.making.building import build
    from studio.mos.making.manifest import read_manifest
    from studio.mos.rating.campaigns import set_state

    check_name(name)
    settings = with_settings(template, config)
    if (source is None) == (texts is None):
        raise BadOption("a campaign is made from sounds or from texts", "give --from, or --texts with --systems")
    if texts is not None:
        source = _spoken(name, texts, systems or [], reference, data, voices, device)
    assert source is not None, "one of the two was given"
    manifest = read_manifest(source)
    if traps:
        settings, manifest = _trapped(settings, manifest, traps)
    with opened(database, data) as listening, progress_bar() as progress:
        bar = progress.add_task("reading and levelling", total=(3 if ends is None else 6) * len(manifest.files))
        told = build(
            listening,
            name,
            settings,
            manifest,
            seed=seed,
            excerpt_s=ends,
            then=lambda session: set_state(session, name, "open") if start else None,
            heard=lambda: progress.advance(bar),
        )
        links = listening.links(name)
        told += advised(listening, name)
    for line in told:
        typer.secho(f"note: {line}", err=True, fg="yellow")
    typer.echo(f"{name}: {_counted(manifest)}, {'open' if start else 'a draft'}")
    for role, path in links.items():
        typer.echo(f"{role:8} {base.rstrip('/')}{path}")
    is_elsewhere = not is_default_data(data)
    if database or is_elsewhere:  # the app looks where it is told, and nowhere else
        given = {"--database": bool(database), "--data": is_elsewhere}
        same = " and ".join(option for option, is_given in given.items() if is_given)
        typer.secho(f"note: `studio app` serves it when it is given the same {same}", err=True, fg="yellow")


def _trapped(settings: "CampaignConfig", manifest: "Manifest", count: int) -> "tuple[CampaignConfig, Manifest]":
    from dataclasses import replace

    from studio.mos.making.manifest import with_traps

    if settings.kind not in ("acr", "p835") or any((q.low, q.high) != (1, 5) for q in settings.questions):
        raise BadOption(
            "the ready traps ask for a score from 1 to 5", "put traps of your own into trap/, and set gates.traps"
        )
    return replace(settings, gates=replace(settings.gates, traps=count)), with_traps(manifest, TRAPS)


def _spoken(name: str, texts: Path, systems: list[str], reference: str, data: Path, voices: Path, device: str) -> Path:
    from studio.commands.stimuli import speak_all
    from studio.mos.campaign.texts import read_texts

    if not systems:
        raise BadOption("no system was named", "give --systems, 'clara?m=3,n=1' for instance")
    if reference and reference not in systems:
        raise BadOption(f"the reference {reference!r} is not one of --systems", "name it there too")
    said = read_texts(texts)
    with progress_bar() as progress:
        bar = progress.add_task("speaking", total=len(systems) * len(said))
        return speak_all(
            systems,
            said,
            data / "spoken" / name,
            voices=voices,
            device=device,
            references=[reference] if reference else [],
            spoken=lambda: progress.advance(bar),
        )


@campaign.command("list")
def list_campaigns(database: Database = "", data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Every campaign and where it stands."""
    from sqlmodel import select

    from studio.mos.analysis.results import overview
    from studio.mos.report.cells import answers_said
    from studio.mos.store.tables.campaigns import Campaign

    with opened(database, data) as listening, listening.store.read() as session:
        rows = [overview(session, c) for c in session.exec(select(Campaign))]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(
            f"{row['name']:30} {row['kind']:11} {row['state']:7} raters {row['raters']} ({row['finished']} finished), "
            f"answers {answers_said(row)}"
        )
    if not rows:
        typer.echo("no campaign yet: `studio campaign new --help`")


@campaign.command("links")
def links(name: Name, base: Base = "http://127.0.0.1:7860", database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """The raters' link, and one for looking at the test without being counted."""
    with opened(database, data) as listening:
        for role, path in listening.links(name).items():
            typer.echo(f"{role:8} {base.rstrip('/')}{path}")


@campaign.command("open")
def open_campaign(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Let raters in."""
    _set(name, "open", database, data)


@campaign.command("close")
def close_campaign(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Let nobody new in; who is at it may finish."""
    _set(name, "closed", database, data)


def _set(name: str, state: str, database: str, data: Path) -> None:
    from studio.mos.rating.campaigns import set_state

    with opened(database, data) as listening:
        listening.store.write_now(lambda session: set_state(session, name, state))
        told = advised(listening, name)
    for line in told:
        typer.secho(f"note: {line}", err=True, fg="yellow")
    typer.echo(f"{name} is {state}")


@campaign.command("export")
def export(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.csv, FILE.json or FILE.parquet.")],
    raters: Annotated[
        bool, typer.Option("--raters", help="Raters, one a row: screening answers, device, comment, gates.")
    ] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Every answer, one row a score or choice, raters by pseudonym; JSON brings the data dictionary along."""
    from studio.mos.exchange.export import write_export
    from studio.mos.exchange.raters import write_raters
    from studio.mos.rating.campaigns import find

    with opened(database, data) as listening, listening.store.read() as session:
        count = (write_raters if raters else write_export)(session, find(session, name), out)
    typer.echo(f"{out}: {count} rows")


@campaign.command("traces")
def traces(
    name: Name,
    out: Annotated[Path, typer.Option(help="A folder, made where it is not there.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write out the traces: SYSTEM/ITEM of what was synthesised, SCREEN-a and SCREEN-b of what raters typed."""
    from studio.mos.exchange.export import write_traces
    from studio.mos.rating.campaigns import find

    with opened(database, data) as listening, listening.store.read() as session:
        count = write_traces(session, find(session, name), listening.clips, out)
    typer.echo(f"{out}: {count} traces")


@campaign.command("report")
def report(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.html, FILE.tex or FILE.md.")],
    everyone: Annotated[bool, typer.Option(help="Also those whom the gates exclude.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """The results with their intervals: one HTML file, or the papers' own tables in LaTeX or Markdown."""
    from studio.mos.analysis.results import results
    from studio.mos.rating.campaigns import find
    from studio.mos.report import formats

    forms = {".html": formats.html, ".tex": formats.latex, ".md": formats.markdown}
    if out.suffix not in forms:
        raise BadOption(f"{out.name} is of no kind that is known", f"end it in {', '.join(forms)}")
    with opened(database, data) as listening, listening.store.read() as session:
        found = results(session, find(session, name), everyone=everyone)
    out.write_text(forms[out.suffix](found), encoding="utf-8")
    typer.echo(str(out))


@campaign.command("settle")
def settle_raters(
    name: Name,
    panel: Annotated[
        Path | None, typer.Option(help="Also write accept or reject for the panel's bulk approval.")
    ] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Judge every rater by the gates: whom to pay, whom to analyse."""
    from studio.mos.analysis.quality import panel_csv, settle
    from studio.mos.rating.campaigns import find

    with opened(database, data) as listening:
        judged = listening.store.write_now(lambda session: settle(session, find(session, name)))
        if panel:
            with listening.store.read() as session:
                panel.write_text(panel_csv(session, find(session, name)), encoding="utf-8")
    for decision in ("accept", "use"):
        counts = {v: sum(getattr(j, decision) == v for j in judged) for v in ("ok", "fail", "unknown")}
        typer.echo(f"{decision:7} " + ", ".join(f"{v} {n}" for v, n in counts.items()))


@campaign.command("delete-rater")
def delete_rater(
    name: Name,
    who: Annotated[str, typer.Argument(help="A pseudonym, a panel's id (PROLIFIC_PID), or the code that they noted.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Forget a rater and everything they answered; how many answers went is kept."""
    from studio.mos.rating.forgetting import forget_rater

    with opened(database, data) as listening:
        done = forget_rater(listening.store, listening.clips, listening.access, name, who)
    typer.echo(f"{' and '.join(done.pseudonyms)}: forgotten, {done.answers} answers with them")
    if not done.is_gone_from_files:
        typer.secho(
            "note: somebody reads the database; its log keeps a copy until it is next emptied", err=True, fg="yellow"
        )


@campaign.command("token")
def new_token(database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Make a new owner's token; the old one is worth nothing from then on."""
    with opened(database, data, is_token_told=False) as listening:
        typer.echo(listening.access.new_owner_token())


def _counted(manifest: "Manifest") -> str:
    """``2 systems, 12 scripts, 3 traps``: traps and the like are no systems' and no scripts of the test."""
    roles = Counter(item.role for item in manifest.items)
    role_of = {item.name: item.role for item in manifest.items}
    systems = {system for item, system in manifest.files if role_of[item] == "test"}
    counts = [
        (len(systems), "system"),
        (roles.pop("test", 0), "script"),
        *((n, role) for role, n in sorted(roles.items())),
    ]
    names = {"gold": "gold", "training": "training clip"}
    return ", ".join(f"{n} {names.get(what, what)}{'s' * (n != 1)}" for n, what in counts)
