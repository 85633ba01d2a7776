"""``studio campaign`` elo, simulate and plan: statistics without a database, except for a pilot; and predict."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from studio.bench.options import Threads
from studio.commands.campaign.answers import Campaign, Column, Preset, Tag, file_options
from studio.commands.common import Data, Database, Json, Name, opened, progress_bar, read_campaign
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA
from studio.core.terminal import print_json, print_line

if TYPE_CHECKING:
    from studio.mos.analysis.planning import Pilot
    from studio.mos.stats.margin_plan import MarginAsk, MarginPlan
    from studio.mos.stats.planner import PlannedTest, RaterPlan, RatingPopulation

campaign_figures = typer.Typer()


@campaign_figures.command("elo")
def elo(
    votes: Annotated[
        Path,
        typer.Argument(
            help="CSV or JSON with a, b, outcome (a, b, tie, both_bad), and rater and item (the script) where known; "
            "or an export; or another program's votes."
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="gamma (converged), mle, davidson (ties apart), posterior (Gibbs) or dsm (30 sweeps, Gamma quantiles)."
        ),
    ] = "gamma",
    centre: Annotated[float, typer.Option(help="The Elo of strength 1.")] = 2000.0,
    a0: Annotated[float, typer.Option(help="Shape of the Gamma prior.")] = 0.1,
    b0: Annotated[float, typer.Option(help="Rate of the Gamma prior.")] = 0.1,
    by_rater: Annotated[
        bool, typer.Option("--by-rater", help="Intervals by rater alone: for these scripts only.")
    ] = False,
    preset: Preset = "",
    column: Column = None,
    campaign: Campaign = "",
    tag: Tag = "",
    seed: Annotated[int, typer.Option(help="Seed of the posterior's draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Rank systems by votes, with differences; intervals by rater and script if both are known, or --by-rater.

    From an export, exactly the rows of the analysis are used; excluded rows are counted.
    """
    from studio.mos.import_export.answer_files import read_votes
    from studio.mos.stats.elo import EloMethod, elo_report

    if method not in get_args(EloMethod):
        raise BadOption(f"no method is called {method!r}", f"choose {', '.join(get_args(EloMethod))}")
    if by_rater and method in ("dsm", "posterior"):
        raise BadOption(f"the intervals of {method} take votes as independent", "leave out --by-rater, or use gamma")
    read, left_out = read_votes(votes, file_options(preset, column, campaign=campaign, tag=tag))
    if by_rater and read.rater is None:
        raise BadOption("the votes have no raters", "leave out --by-rater, or give a column rater")
    clusters = "by_rater" if by_rater else "two_way"
    report = elo_report(read, cast("EloMethod", method), centre, a0, b0, seed, clusters)
    if as_json:
        print_json({**report, "left_out": left_out})
        return
    _show_elo(report)
    for why, count in left_out.items():
        print_line(f"{count} rows left out: {why}", err=True)


def _show_elo(report: dict[str, Any]) -> None:
    from studio.mos.report.cells import p_value
    from studio.mos.report.pairs import elo_difference, elo_interval, elo_score, ranked

    for system, row in ranked(report):
        print_line(f"{system:30} {elo_score(row):>8}  {elo_interval(row)}")
    print_line("\ndifferences, p corrected for all pairs (Holm)")
    for d in report["differences"]:
        difference, interval = elo_difference(d)
        print_line(f"{d['a'] + ' - ' + d['b']:40} {difference:>6}  {interval:16} {p_value(d['p_holm'])}")
    raters, scripts = (report[what] or "unknown" for what in ("raters", "items"))
    print_line(f"{report['votes']} votes, {raters} raters, {scripts} scripts, interval: {report['interval']}", err=True)
    for note in filter(None, (report["reason"], *report["notes"])):
        print_line(note, err=True, colour="yellow")


@campaign_figures.command("simulate")
def simulate(
    runs: Annotated[int, typer.Option(min=10, help="Campaigns of each kind.")] = 400,
    scripts: Annotated[list[int] | None, typer.Option(min=2, help="Scripts of pair tests. Repeatable.")] = None,
    seed: Annotated[int, typer.Option()] = 0,
    as_json: Json = False,
) -> None:
    """Simulate campaigns: coverage of each interval; pairs on few and on many scripts."""
    from dataclasses import asdict
    from functools import partial

    from studio.mos.stats.simulate import IntervalCoverage, elo_coverage, mos_coverage, preference_coverage

    studies: dict[str, Callable[..., list[IntervalCoverage]]] = {"MOS": mos_coverage}
    for count in scripts or (10, 100):
        studies[f"preference, {count} scripts"] = partial(preference_coverage, scripts=count)
        studies[f"Elo, {count} scripts"] = partial(elo_coverage, scripts=count)
    rows: list[dict[str, Any]] = []
    with progress_bar() as progress:
        for test, run in studies.items():
            bar = progress.add_task(test, total=runs)
            coverages = run(
                runs=runs, seed=seed, progress=lambda done, _, bar=bar: progress.update(bar, completed=done)
            )
            rows += [{"test": test, **asdict(c), "mean": c.mean, "worst": c.worst} for c in coverages]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_line(
            f"{row['test']:24} {row['method']:16} {row['over']:8} mean {row['mean']:.3f}  worst {row['worst']:.3f}"
        )


@campaign_figures.command("plan")
def plan(
    half_width: Annotated[
        float | None,
        typer.Argument(help="Half-width of the interval: steps, points of 100, Elo, or a share such as 0.05."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Instead: largest harmless difference, to show that a system is no worse.")
    ] = None,
    equivalent: Annotated[
        bool, typer.Option("--equivalent", help="With --margin: show that neither is worse.")
    ] = False,
    difference: Annotated[float, typer.Option(help="With --margin: the true difference from the baseline.")] = 0.0,
    power: Annotated[float, typer.Option(help="With --margin: share of the tests that show it.")] = 0.8,
    claims: Annotated[int, typer.Option(help="With --margin: systems that are compared with the baseline.")] = 1,
    test: Annotated[
        str | None, typer.Option(help="mos, mushra, cmos, preference or elo; by default the pilot's, or mos.")
    ] = None,
    items: Annotated[int, typer.Option(min=2, help="Scripts.")] = 30,
    share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of the scripts that each rater hears of every system.")
    ] = 1.0,
    systems: Annotated[int | None, typer.Option(min=1, help="Systems; by default 4, for pairs 2, for Elo 5.")] = None,
    spread: Annotated[float, typer.Option(min=0.0, help="Elo difference between the best and worst system.")] = 300.0,
    pairs: Annotated[int, typer.Option(min=1, help="Elo: pairs per rater.")] = 20,
    pilot: Annotated[
        str | None, typer.Option(help="Campaign that gives the systems and the variances of raters and scripts.")
    ] = None,
    question: Annotated[str, typer.Option(help="Question of the pilot; required if it has several.")] = "",
    runs: Annotated[
        int | None, typer.Option(min=10, help="Simulated tests per number of raters: 200, with --margin 2000.")
    ] = None,
    seed: Annotated[int, typer.Option()] = 0,
    database: Database = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Number of raters for which all intervals reach a half-width in 80% of simulated tests, or a margin a power.

    The listed widths are 80% quantiles, smoothed to be monotone in the number of raters.
    """
    from dataclasses import asdict

    from studio.mos.stats.margin_plan import RUNS, MarginAsk, MarginPlan, PowerNotReached
    from studio.mos.stats.pilot import SMALL_PILOT
    from studio.mos.stats.planner import (
        HALF_RANGE,
        PlannedTest,
        RatingPopulation,
        VotePopulation,
        WidthNotReached,
        default_population,
        raters_for_elo,
        raters_for_means,
    )

    if test is not None and test not in get_args(PlannedTest):
        raise BadOption(f"there is no plan for {test!r}", f"choose {', '.join(get_args(PlannedTest))}")
    wanted = cast("PlannedTest | None", test)
    known = None if pilot is None else _pilot(pilot, wanted, question, database, data)
    if (half_width is None) == (margin is None):
        raise BadOption("a plan has one aim", "give a half-width, or --margin")
    wanted = known.test if known is not None else wanted or "mos"
    ask = None
    if margin is not None:
        claim = "equivalent" if equivalent else "not_worse"
        ask = MarginAsk(wanted, margin, claim, difference, power, claims, items, share)
    who: RatingPopulation | VotePopulation
    if known is not None:
        who, reach = known.cautious, known.reach
    elif wanted == "elo":
        count, reach = systems or 5, None
        who = VotePopulation(systems=tuple(spread * (k / max(1, count - 1) - 0.5) for k in range(count)))
    else:
        count = 2 if ask is not None else systems or (4 if wanted in ("mos", "mushra") else 2)
        who, reach = default_population(wanted, count), HALF_RANGE[wanted]

    def planned(who: RatingPopulation | VotePopulation) -> "RaterPlan | MarginPlan":
        if ask is not None:
            assert isinstance(who, RatingPopulation), "votes for Elo are not planned by a margin"
            return _plan_margin(ask, who, runs or RUNS, seed)
        assert half_width is not None, "checked"
        if isinstance(who, RatingPopulation):
            return raters_for_means(half_width, who, items, share, runs or 200, seed, half_range=reach)
        return raters_for_elo(half_width, who, pairs, items, runs or 200, seed)

    as_shown = None if known is None else planned(known.who)
    try:
        found = planned(who)
    except (WidthNotReached, PowerNotReached) as error:
        if known is None or as_shown is None:
            raise
        raise type(error)(
            f"with the variances of pilot {pilot} at their upper bounds {error.what}; with its own "
            f"estimates {as_shown.raters} raters would be enough",
            f"{error.do}, or run a larger pilot: it had {known.raters} raters and {known.scripts} scripts",
        ) from error
    if as_json:
        about = None if known is None else {"name": pilot, **asdict(known)}
        before = None if as_shown is None else as_shown.raters
        asked = {"test": wanted} if ask is None else asdict(ask)
        print_json({**asked, **asdict(found), "population": asdict(who), "pilot": about, "raters_as_shown": before})
        return
    if isinstance(found, MarginPlan):
        assert ask is not None, "it has a margin"
        _show_margin_plan(found, ask)
    else:
        if known is not None:
            question_text = f", question {known.question}" if known.question else ""
            print_line(f"{wanted}, from pilot {pilot}{question_text}: {known.raters} raters, {known.scripts} scripts")
        _show_plan(found, _all(wanted, len(who.systems)), reach)
    if known is None or as_shown is None:
        print_line(
            "the variances are usual ones; --pilot uses those of one of your campaigns", err=True, colour="yellow"
        )
        return
    print_line(f"variances at their upper 80% bounds; with the pilot's own, {as_shown.raters} raters would be enough")
    if min(known.raters, known.scripts) < SMALL_PILOT:
        print_line(_SMALL_PILOT if ask is None else _SMALL_MARGIN_PILOT, err=True, colour="yellow")


_SMALL_PILOT = (
    "a small pilot: about half of such pilots underestimate the variances, and then the number of raters planned with "
    "them is too small; take the number with the upper bounds, or run a larger pilot"
)
_SMALL_MARGIN_PILOT = "a small pilot: take the number with the upper bounds, or run a larger one"


def _plan_margin(ask: "MarginAsk", who: "RatingPopulation", runs: int, seed: int) -> "MarginPlan":
    from studio.mos.stats.margin_plan import raters_for_margin

    with progress_bar() as progress:
        bar = progress.add_task("simulating tests", total=None)

        def show(raters: int, power: float) -> None:
            progress.update(bar, description=f"{raters} raters: power {power:.2f}")

        return raters_for_margin(ask, who, runs, seed, show)


def _show_margin_plan(margin_plan: "MarginPlan", ask: "MarginAsk") -> None:
    for raters, power in margin_plan.curve:
        print_line(f"{raters:5} raters  power {power:.2f}")
    claim = "no worse by more than" if ask.claim == "not_worse" else "equivalent within"
    pairs = "" if ask.claims == 1 else f" for each of {ask.claims} pairs"
    print_line(
        f"{margin_plan.raters} raters show '{claim} {ask.margin:g}'{pairs} with a power of {margin_plan.power:.2f} if "
        f"the true difference is {ask.true_difference:g}"
    )


def _show_plan(rater_plan: "RaterPlan", everything: str, reach: float | None) -> None:
    for raters, width in rater_plan.curve:
        print_line(f"{raters:5} raters  +- {width:.3f}{' (the whole scale)' if width == reach else ''}")
    print_line(
        f"{rater_plan.raters} raters give +- {rater_plan.half_width:.3f} or less for {everything} in "
        f"{rater_plan.sure:.0%} of tests"
    )


def _all(test: str, count: int) -> str:
    what = "pair" if test in ("cmos", "preference") else "system"
    return f"the {what}" if count == 1 else f"all {count} {what}s"


def _pilot(name: str, test: "PlannedTest | None", question: str, database: str, data: Path) -> "Pilot":
    from studio.mos.analysis.planning import campaign_pilot

    with read_campaign(name, database, data) as (_, session, row):
        return campaign_pilot(session, row, test, question)


@campaign_figures.command("predict")
def predict(name: Name, threads: Threads = 1, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Predict the MOS of a campaign's sounds with DistillMOS; shown beside ratings, never used for ranking.

    Scores are stored by content, so a stopped run resumes.
    """
    from rich.progress import MofNCompleteColumn, Progress

    from studio.measure.report import console
    from studio.mos.analysis.clips import predict_clips, unpredicted
    from studio.predict.distillmos import DistillMos

    with opened(database, data) as listening, DistillMos(threads) as predictor:
        with listening.store.read() as session:
            wanted = unpredicted(session, name, predictor.about["sha256"])
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        with Progress(*columns, console=console(stderr=True), transient=True) as progress:
            bar = progress.add_task("predicting", total=len(wanted))
            predict_clips(listening.store, listening.clips, wanted, predictor, lambda: progress.advance(bar))
    by = f"{predictor.about['name']} {predictor.about['version']}"
    print_line(f"{name}: {len(wanted)} sounds predicted by {by}" if wanted else f"{name}: {by} has judged every sound")
