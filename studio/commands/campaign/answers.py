"""``studio campaign`` scores, results, report and push: tables for a file of answers or a campaign; publication."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.commands.common import Data, Database, Json, Name, confirm, print_notes, read_campaign
from studio.core.errors import BadOption, bad_file
from studio.core.folders import DEFAULT_DATA
from studio.core.terminal import print_data, print_json, print_line

if TYPE_CHECKING:
    from studio.mos.import_export.answer_files import FileOptions

campaign_answers = typer.Typer()

Preset = Annotated[
    str,
    typer.Option(
        help="Program that wrote the file: studio, webmushra, paired, pymushra, p808, arena, counts, votes, "
        "winners, comparisons or scores; by default recognised by its columns."
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a field, as rater=WorkerId: rater, item, system, score, question, a, b, outcome, wins_a, "
        "wins_b, ties, tags or file; several columns of scores as score=SIG,BAK. Repeatable."
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="Largest harmless difference: tests 'no worse than'. Steps or points of the score, or a share of votes "
        "such as 0.05. By default the campaign's."
    ),
]
Baseline = Annotated[str | None, typer.Option(help="System that the others are tested against; by default all pairs.")]
Campaign = Annotated[str, typer.Option(help="Campaign, if the export has several.")]
Tag = Annotated[str, typer.Option(help="Only answers on scripts of this tag (column tags).")]


def file_options(preset: str, column: list[str] | None, **more: Any) -> "FileOptions":
    """Options of a file of answers. Raises BadOption."""
    from studio.mos.import_export.answer_files import FileOptions, parse_columns

    return FileOptions(preset=preset, columns=parse_columns(column or ()), **more)


@campaign_answers.command("scores")
def scores(
    answers: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSON: rater, item, system, score; or votes; or an export.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write FILE.html, FILE.tex or FILE.md instead of printing.")
    ] = None,
    preset: Preset = "",
    column: Column = None,
    scale: Annotated[str, typer.Option(help="Lowest and highest score, as 1:5; by default the preset's.")] = "",
    reference: Annotated[str, typer.Option(help="The system that is the hidden reference (MUSHRA).")] = "",
    baseline: Annotated[str, typer.Option(help="The system with which comparisons are made.")] = "",
    kind: Annotated[str, typer.Option(help="acr, scale, mushra, dcr, ab or ccr; by default from the columns.")] = "",
    campaign: Campaign = "",
    tag: Tag = "",
    margin: Margin = None,
    everyone: Annotated[bool, typer.Option(help="Include raters excluded by the gates (exports).")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the posterior's draws; by default the export's.")] = None,
    as_json: Json = False,
) -> None:
    """Analyse answers of a file as those of a campaign: every table of results and report."""
    from dataclasses import replace

    from studio.core.garbage import paused_collections
    from studio.mos.campaign.config import margins_of
    from studio.mos.import_export.answer_files import file_results, parse_scale, read_answers
    from studio.mos.kinds.registry import kind_of

    options = file_options(
        preset,
        column,
        campaign=campaign,
        tag=tag,
        kind=kind,
        scale=parse_scale(scale),
        reference=reference,
        baseline=baseline,
        seed=seed,
        everyone=everyone,
    )
    check_report(out)
    with paused_collections():
        read = read_answers(answers, options)
        if margin is not None:
            settings = replace(read.config, margins=margins_of(read.config, margin))
            kind_of(settings.kind).check_margins(settings)
            read = replace(read, config=settings)
        summary = file_results(read)
    show_results(summary, out, as_json=as_json)
    if not as_json:
        print_notes(read.notes)
        for why, count in read.left_out.items():
            print_line(f"{count} rows left out: {why}", err=True)


@campaign_answers.command("results")
def results(
    name: Name,
    everyone: Annotated[bool, typer.Option(help="Include raters excluded by the gates.")] = False,
    margin: Margin = None,
    baseline: Baseline = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Print the results so far: every table of the report as Markdown, or all figures as JSON."""
    show_results(_campaign_results(name, everyone, margin, baseline, database, data), None, as_json=as_json)


@campaign_answers.command("report")
def report(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.html, FILE.tex or FILE.md.")],
    everyone: Annotated[bool, typer.Option(help="Include raters excluded by the gates.")] = False,
    margin: Margin = None,
    baseline: Baseline = None,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a report with intervals: one HTML file, or tables in LaTeX or Markdown."""
    check_report(out)
    show_results(_campaign_results(name, everyone, margin, baseline, database, data), out)


def _campaign_results(
    name: str, everyone: bool, margin: float | None, baseline: str | None, database: str, data: Path
) -> dict[str, Any]:
    from studio.mos.analysis.results import results as campaign_results
    from studio.mos.campaign.config import campaign_config, margins_of

    with read_campaign(name, database, data) as (_, session, row):
        margins = None if margin is None else margins_of(campaign_config(row), margin)
        return campaign_results(session, row, everyone=everyone, margins=margins, baseline=baseline)


_SUFFIXES = (".html", ".tex", ".md")


def check_report(out: Path | None) -> None:
    """Raises BadOption: a report cannot have this file's extension."""
    if out is not None and out.suffix not in _SUFFIXES:
        raise BadOption(f"{out.name} has an unsupported extension", f"end it in {', '.join(_SUFFIXES)}")


def show_results(summary: dict[str, Any], out: Path | None, *, as_json: bool = False) -> None:
    """Write a report, or print the results as JSON or Markdown. Raises BadFile."""
    from studio.mos.report.page import html
    from studio.mos.report.tables import latex, markdown

    if out is not None:
        writers = {".html": html, ".tex": latex, ".md": markdown}
        with bad_file(f"{out} cannot be written", "choose another file"):
            out.write_text(writers[out.suffix](summary), encoding="utf-8")
        print_line(out)
    elif as_json:
        print_json(summary)
    else:
        print_data(markdown(summary))


@campaign_answers.command("push")
def push(
    name: Name,
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Dataset on the hub: owner/name.")],
    licence: Annotated[str, typer.Option(help="Licence of the answers, such as cc-by-4.0.")],
    private: Annotated[bool, typer.Option("--private", help="Only people that you admit on the hub can read it.")] = (
        False
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Publish without a question.")] = False,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Publish a campaign's answers with a data dictionary: pseudonyms, no comments, days instead of times."""
    from studio.hub.push import push_files
    from studio.hub.ratings import LEFT_OUT, publication

    with read_campaign(name, database, data) as (_, session, campaign):
        package = publication(session, campaign, licence)
    print_line(f"Published in {repo}{' (private)' if private else ''}, under {licence}:", err=True)
    for file, content in package.files.items():
        print_line(f"  {file}: {len(content):,} bytes", err=True)
    print_line(f"  {package.rows:,} rows of {package.raters:,} pseudonyms on {', '.join(package.systems)}", err=True)
    for column, why in LEFT_OUT.items():
        print_line(f"Not published: {column} ({why})", err=True)
    print_line("The consent of the raters has to cover this. Copies of it cannot be taken back.", err=True)
    if not confirm("Publish it?", yes, "--yes"):
        raise BadOption("nothing was published", "answer y, or give --yes")
    print_line(push_files(repo, "dataset", package.files, f"Answers of {name}", private=private))
