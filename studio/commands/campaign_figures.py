"""``studio campaign`` elo, simulate and plan: the statistics alone, without a database."""

import json
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from studio.commands.common import Json
from studio.core.errors import BadOption

campaign_figures = typer.Typer()


@campaign_figures.command("elo")
def elo(
    votes: Annotated[
        Path,
        typer.Argument(
            help="CSV with a, b (or an export's system_a, system_b), outcome (a, b, tie, both_bad), perhaps rater."
        ),
    ],
    method: Annotated[str, typer.Option(help="mle, gamma (converged) or dsm (30 sweeps, Gamma quantiles).")] = "gamma",
    centre: Annotated[float, typer.Option(help="The Elo of strength 1.")] = 2000.0,
    a0: Annotated[float, typer.Option(help="Shape of the Gamma prior.")] = 0.1,
    b0: Annotated[float, typer.Option(help="Rate of the Gamma prior.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    as_json: Json = False,
) -> None:
    """Rank anybody's votes."""
    from studio.mos.stats.columns import votes_from_csv
    from studio.mos.stats.elo import Method, elo_report

    if method not in get_args(Method):
        raise BadOption(f"no method is called {method!r}", f"choose {', '.join(get_args(Method))}")
    found = elo_report(votes_from_csv(votes), cast("Method", method), centre, a0, b0, seed)
    if as_json:
        typer.echo(json.dumps(found))
        return
    ranked = sorted(found["systems"].items(), key=lambda kv: -(kv[1]["elo"] or 0))
    for system, row in ranked:
        shown = [("-" if row[k] is None else f"{row[k]:8.1f}") for k in ("elo", "lo", "hi")]
        typer.echo(f"{system:30} {shown[0]}  [{shown[1]}, {shown[2]}]")
    typer.echo(
        f"{found['votes']} votes, {found['raters'] or 'unknown'} raters, interval: {found['interval']}", err=True
    )
    for said in filter(None, (found["reason"], found["note"])):
        typer.secho(said, err=True, fg="yellow")


@campaign_figures.command("simulate")
def simulate(
    runs: Annotated[int, typer.Option(min=10, help="Campaigns of each kind.")] = 400,
    seed: Annotated[int, typer.Option()] = 0,
    as_json: Json = False,
) -> None:
    """Whole campaigns with synthetic raters: how often each interval holds the truth."""
    from dataclasses import asdict

    from rich.progress import Progress

    from studio.mos.stats.simulate import elo_coverage, mos_coverage

    with Progress(transient=True) as progress:
        bars = [progress.add_task(what, total=runs) for what in ("MOS", "Elo")]
        mos = mos_coverage(runs=runs, seed=seed, progress=lambda done, _: progress.update(bars[0], completed=done))
        elos = elo_coverage(runs=runs, seed=seed, progress=lambda done, _: progress.update(bars[1], completed=done))
    rows = [
        {"test": test, **asdict(c), "mean": c.mean, "worst": c.worst}
        for test, cs in (("MOS", mos), ("Elo", elos))
        for c in cs
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(
            f"{row['test']:4} {row['method']:18} {row['over']:12} mean {row['mean']:.3f}  worst {row['worst']:.3f}"
        )


@campaign_figures.command("plan")
def plan(
    half_width: Annotated[float, typer.Argument(help="Half width of the interval that is wanted: points, or Elo.")],
    test: Annotated[str, typer.Option(help="mos, or elo for preferences.")] = "mos",
    items: Annotated[int, typer.Option(min=2, help="Scripts.")] = 30,
    share: Annotated[float, typer.Option(min=0.01, max=1.0, help="MOS: share of the scripts each rater hears.")] = 1.0,
    systems: Annotated[int, typer.Option(min=2, help="Elo: systems, spread evenly.")] = 5,
    spread: Annotated[float, typer.Option(min=0.0, help="Elo: between the best and the worst system.")] = 300.0,
    pairs: Annotated[int, typer.Option(min=1, help="Elo: pairs that each rater judges.")] = 20,
    seed: Annotated[int, typer.Option()] = 0,
    as_json: Json = False,
) -> None:
    """How many raters an interval of that width needs, of a MOS or of Elo scores, by simulation.

    The widths listed are medians, evened out where their noise would let them rise with more raters.
    """
    from dataclasses import asdict

    from studio.mos.stats.planner import raters_for_elo, raters_needed
    from studio.mos.stats.population import Voters

    if test == "mos":
        found = raters_needed(half_width, items=items, share=share, seed=seed)
    elif test == "elo":
        who = Voters(systems=tuple(spread * (k / (systems - 1) - 0.5) for k in range(systems)))
        found = raters_for_elo(half_width, who, pairs=pairs, scripts=items, seed=seed)
    else:
        raise BadOption(f"there is no plan for {test!r}", "choose mos or elo")
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    for raters, width in found.curve:
        typer.echo(f"{raters:5} raters  +- {width:.3f}")
    typer.echo(f"{found.raters} raters give +- {found.half_width:.3f}")
