"""``studio campaign``: listening tests from the command line."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Voices
from studio.commands.campaign.answers import campaign_answers
from studio.commands.campaign.editing import campaign_in
from studio.commands.campaign.figures import campaign_figures
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
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA, TRAPS, VOICES, is_default_data
from studio.core.terminal import print_json, print_line

if TYPE_CHECKING:
    from studio.mos.campaign.config import CampaignConfig
    from studio.mos.campaign.manifest import StimulusManifest

campaign = typer.Typer(no_args_is_help=True, help="Create, open, monitor and analyse listening tests.")
campaign.add_typer(campaign_in)
campaign.add_typer(campaign_answers)
campaign.add_typer(campaign_figures)


@campaign.command("templates")
def list_templates() -> None:
    """List the templates: the papers' listening tests."""
    from studio.mos.campaign.config import load_template, template_names

    for name in template_names():
        config = load_template(name)
        print_line(f"{name:18} {config.kind:12} {config.texts.title}")


@campaign.command("new")
def new(
    name: Name,
    template: Annotated[str, typer.Option(help="Template; `studio campaign templates` lists them.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder with SYSTEM/ITEM.wav, or a .csv or .json manifest.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="Texts to speak, one a line.")] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(help="System that speaks them: 'clara?m=3,n=1', or 'teacher:clara' for the teacher. Repeatable."),
    ] = None,
    reference: Annotated[str, typer.Option(help="The system that is the reference.")] = "",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings that override the template.")] = None,
    ends: Annotated[
        float | None, typer.Option(help="Rate the first and last SECONDS of each script separately; 30 in paper 002.")
    ] = None,
    traps: Annotated[
        int, typer.Option(min=0, max=5, help="Shipped traps ('please choose two') per session, on scales of 1 to 5.")
    ] = 0,
    incomplete: Annotated[bool, typer.Option("--incomplete", help="Systems may lack scripts.")] = False,
    levels: Annotated[
        str | None,
        typer.Option(help="Level of the sounds: integrated (BS.1770), active (P.56) or keep; else the template's."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the design; random by default, and stored.")] = None,
    start: Annotated[bool, typer.Option("--open/--draft", help="Open it for raters immediately.")] = True,
    base: Base = "http://127.0.0.1:7860",
    database: Database = "",
    data: Data = DEFAULT_DATA,
    voices: Voices = VOICES,
    device: Device = "auto",
) -> None:
    """Create a campaign from sounds, or from texts spoken by the studio's voices; prints the raters' link."""
    from studio.mos.campaign.config import from_json, to_json, with_settings
    from studio.mos.campaign.names import check_name
    from studio.mos.sessions.campaigns import set_state
    from studio.mos.stimuli.building import build_campaign
    from studio.mos.stimuli.manifest_files import read_manifest

    check_name(name)
    settings = with_settings(template, config)
    if incomplete or levels is not None:
        more = {"incomplete": incomplete or settings.incomplete, "levels": levels or settings.levels}
        settings = from_json({**to_json(settings), **more})
    if (source is None) == (texts is None):
        raise BadOption("a campaign needs sounds or texts", "give --from, or --texts with --systems")
    if texts is not None:
        source = _spoken(name, texts, systems or [], reference, data, voices, device)
    assert source is not None, "only one of --texts and --systems was given"
    manifest = read_manifest(source, incomplete=settings.incomplete)
    if traps:
        settings, manifest = _trapped(settings, manifest, traps)
    with opened(database, data) as listening, progress_bar() as progress:
        bar = progress.add_task("reading and normalising", total=(3 if ends is None else 6) * len(manifest.files))
        notes = build_campaign(
            listening,
            name,
            settings,
            manifest,
            seed=seed,
            excerpt_s=ends,
            then=lambda session: set_state(session, name, "open") if start else None,
            on_sound=lambda: progress.advance(bar),
        )
        links = listening.links(name)
        notes += advised(listening, name)
    print_notes(notes)
    print_line(f"{name}: {_counted(manifest)}, {'open' if start else 'a draft'}")
    for role, path in links.items():
        print_line(f"{role:8} {base.rstrip('/')}{path}")
    is_elsewhere = not is_default_data(data)
    if database or is_elsewhere:  # not where the app looks by default
        is_set = {"--database": bool(database), "--data": is_elsewhere}
        same = " and ".join(option for option, is_given in is_set.items() if is_given)
        print_line(f"note: `studio app` serves it with the same {same}", err=True, colour="yellow")


def _trapped(
    settings: "CampaignConfig", manifest: "StimulusManifest", count: int
) -> "tuple[CampaignConfig, StimulusManifest]":
    from dataclasses import replace

    from studio.mos.stimuli.manifest_files import with_traps

    if settings.kind not in ("acr", "p835") or any((q.low, q.high) != (1, 5) for q in settings.questions):
        raise BadOption(
            "the shipped traps need a scale from 1 to 5", "put your own traps into trap/, and set gates.traps"
        )
    return replace(settings, gates=replace(settings.gates, traps=count)), with_traps(manifest, TRAPS)


def _spoken(name: str, texts: Path, systems: list[str], reference: str, data: Path, voices: Path, device: str) -> Path:
    from studio.commands.stimuli import speak_all
    from studio.mos.campaign.names import read_texts

    if not systems:
        raise BadOption("--systems is missing", "give --systems, 'clara?m=3,n=1' for instance")
    if reference and reference not in systems:
        raise BadOption(f"the reference {reference!r} is not one of --systems", "add it to --systems")
    lines = read_texts(texts)
    with progress_bar() as progress:
        bar = progress.add_task("speaking", total=len(systems) * len(lines))
        return speak_all(
            systems,
            lines,
            data / "spoken" / name,
            voices=voices,
            device=device,
            references=[reference] if reference else [],
            spoken=lambda: progress.advance(bar),
        )


@campaign.command("list")
def list_campaigns(database: Database = "", data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List campaigns with their progress."""
    from sqlmodel import select

    from studio.mos.analysis.results import overview
    from studio.mos.report.cells import answer_count
    from studio.mos.store.tables import Campaign

    with opened(database, data) as listening, listening.store.read() as session:
        rows = [overview(session, c) for c in session.exec(select(Campaign))]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_line(
            f"{row['name']:30} {row['kind']:11} {row['state']:7} raters {row['raters']} ({row['finished']} finished), "
            f"answers {answer_count(row)}"
        )
    if not rows:
        print_line("no campaigns: see `studio campaign new --help`")


@campaign.command("links")
def links(name: Name, base: Base = "http://127.0.0.1:7860", database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Print the raters' link, and a preview link whose answers do not count."""
    with opened(database, data) as listening:
        for role, path in listening.links(name).items():
            print_line(f"{role:8} {base.rstrip('/')}{path}")


@campaign.command("open")
def open_campaign(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Open a campaign for raters."""
    _set(name, "open", database, data)


@campaign.command("close")
def close_campaign(name: Name, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Close a campaign to new raters; current raters may finish."""
    _set(name, "closed", database, data)


def _set(name: str, state: str, database: str, data: Path) -> None:
    from studio.mos.sessions.campaigns import set_state

    with opened(database, data) as listening:
        listening.store.write_now(lambda session: set_state(session, name, state))
        notes = advised(listening, name)
    print_notes(notes)
    print_line(f"{name} is {state}")


@campaign.command("export")
def export(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.csv, FILE.json or FILE.parquet.")],
    raters: Annotated[
        bool, typer.Option("--raters", help="Export raters, one per row: screening answers, device, comment, gates.")
    ] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Export all answers, one row per score or choice, with pseudonyms; JSON includes the data dictionary."""
    from studio.mos.import_export.export import write_export
    from studio.mos.import_export.rater_export import write_raters

    with read_campaign(name, database, data) as (_, session, row):
        count = (write_raters if raters else write_export)(session, row, out)
    print_line(f"{out}: {count} rows")


@campaign.command("traces")
def traces(
    name: Name,
    out: Annotated[Path, typer.Option(help="Folder, created if missing.")],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Export traces: SYSTEM/ITEM of synthesised stimuli, SCREEN-a and SCREEN-b of live typing."""
    from studio.mos.import_export.export import write_traces

    with read_campaign(name, database, data) as (listening, session, row):
        count = write_traces(session, row, listening.clips, out)
    print_line(f"{out}: {count} traces")


@campaign.command("settle")
def settle_raters(
    name: Name,
    panel: Annotated[Path | None, typer.Option(help="Also write a file for the panel's bulk approval.")] = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Apply the gates to every rater: acceptance for payment, inclusion in the analysis."""
    from studio.mos.analysis.panel_file import panel_csv
    from studio.mos.analysis.quality import store_decisions
    from studio.mos.sessions.campaigns import find_campaign

    with opened(database, data) as listening:
        decided = listening.store.write_now(lambda session: store_decisions(session, find_campaign(session, name)))
        if panel:
            with listening.store.read() as session:
                panel.write_text(panel_csv(session, find_campaign(session, name)), encoding="utf-8")
    for decision in ("accept", "use"):
        counts = {v: sum(getattr(one, decision) == v for one in decided) for v in ("ok", "fail", "unknown")}
        print_line(f"{decision:7} " + ", ".join(f"{v} {n}" for v, n in counts.items()))


@campaign.command("delete-rater")
def delete_rater(
    name: Name,
    who: Annotated[
        str, typer.Argument(help="Pseudonym, panel id (PROLIFIC_PID for instance), or the rater's withdrawal code.")
    ],
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Erase a rater and all their answers; only the number of erased answers is stored."""
    from studio.mos.sessions.erasure import erase_rater

    with opened(database, data) as listening:
        done = erase_rater(listening.store, listening.clips, listening.access, name, who)
    print_line(f"{' and '.join(done.pseudonyms)}: forgotten, {done.answers} answers with them")
    if not done.is_gone_from_files:
        print_line("note: another process reads the database; its log keeps a copy for now", err=True, colour="yellow")


@campaign.command("token")
def new_token(database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Create a new owner's token; the old one becomes invalid."""
    with opened(database, data, prints_token=False) as listening:
        print_line(listening.access.new_owner_token())


def _counted(manifest: "StimulusManifest") -> str:
    """``2 systems, 12 scripts, 3 traps``: traps, anchors and practice items are counted separately."""
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
