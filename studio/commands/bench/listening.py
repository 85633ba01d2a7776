"""``studio bench``: listening tests and annotations: load, kills, and whether intervals hold the truth."""

from typing import Annotated

import typer

from studio.commands.common import Json, Save, show

listening_bench = typer.Typer()


@listening_bench.command("mos-load")
def mos_load(
    raters: Annotated[int, typer.Option(min=1, help="People who begin within a second.")] = 300,
    trials: Annotated[int, typer.Option(min=1, help="Screens of each.")] = 12,
    think: Annotated[tuple[float, float], typer.Option(help="Seconds between hearing and answering.")] = (2.0, 8.0),
    bare: Annotated[bool, typer.Option("--bare", help="The routes alone, without engine and page.")] = False,
    seed: Annotated[int, typer.Option(help="Of the times and the answers.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Raters over HTTP, all at once: how long each call takes; fails when an answer is lost or doubled."""
    from studio.bench.mos.load import LoadSetting, bench_mos_load

    setting = LoadSetting(raters=raters, trials=trials, think_s=think, bare=bare, seed=seed, quiet=as_json)
    found = bench_mos_load(setting)
    show("mos-load", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@listening_bench.command("annotation-kill")
def annotation_kill(
    kills: Annotated[int, typer.Option(min=1, help="Random moments of kill -9.")] = 50,
    annotators: Annotated[int, typer.Option(min=1, max=32, help="Who mark all the while, each for themselves.")] = 2,
    plant: Annotated[str, typer.Option(help="A fault that must be found: acknowledge-before-write.")] = "",
    seed: int = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """kill -9 while annotators mark; fails when an acknowledged edit is gone, or one sent again is there twice."""
    from studio.bench.annotation_kill import AnnotationKillSetting, bench_annotation_kill
    from studio.core.errors import BadOption

    if plant and save:
        raise BadOption("a run with a planted fault is no result", "leave out --save")
    setting = AnnotationKillSetting(kills=kills, annotators=annotators, plant=plant, seed=seed, quiet=as_json)
    found = bench_annotation_kill(setting)
    show("annotation-kill", found, as_json, save)
    if found["failures"]:
        raise typer.Exit(1)


@listening_bench.command("mos-kill")
def mos_kill(
    kills: Annotated[int, typer.Option(min=0, help="Random moments of kill -9; 0 leaves this part out.")] = 200,
    raters: Annotated[int, typer.Option(min=1, help="People who answer all the while.")] = 24,
    traced: Annotated[float, typer.Option(min=0.0, help="Seconds under strace; 0 leaves this part out.")] = 10.0,
    plant: Annotated[str, typer.Option(help="acknowledge-before-commit or synchronous-off: the run must fail.")] = "",
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """kill -9 while raters answer; fails when an acknowledged answer is gone, or was acknowledged before a sync."""
    from studio.bench.mos.kill import KillSetting, bench_mos_kill
    from studio.core.errors import BadOption

    if plant and save:
        raise BadOption("a run with a planted fault is no result", "leave out --save")
    setting = KillSetting(kills=kills, raters=raters, traced_s=traced, plant=plant, seed=seed, quiet=as_json)
    found = bench_mos_kill(setting)
    show("mos-kill", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@listening_bench.command("mos-coverage")
def mos_coverage(
    runs: Annotated[int, typer.Option(min=1, help="Simulated tests of each cell.")] = 400,
    tests: Annotated[list[str] | None, typer.Option("--test", help="preference, elo, mos; all unless given.")] = None,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often the intervals of listening tests hold the truth: few raters, few scripts, scores near the ceiling."""
    from studio.bench.mos.coverage import CoverageSetting, bench_mos_coverage
    from studio.core.errors import BadOption

    wanted = tuple(tests or CoverageSetting.tests)
    if unknown := set(wanted) - set(CoverageSetting.tests):
        raise BadOption(f"there is no test {min(unknown)!r}", f"choose {', '.join(CoverageSetting.tests)}")
    setting = CoverageSetting(runs=runs, seed=seed, tests=wanted, quiet=as_json)
    show("mos-coverage", bench_mos_coverage(setting), as_json, save)


@listening_bench.command("mos-ordinal")
def mos_ordinal(
    runs: Annotated[int, typer.Option(min=1, help="Simulated tests of each cell.")] = 400,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often the ordinal model's expected scores hold the truth: few raters, few scripts, high scores."""
    from studio.bench.mos.coverage import CoverageSetting, bench_mos_coverage

    setting = CoverageSetting(runs=runs, seed=seed, tests=("ordinal",), quiet=as_json)
    show("mos-ordinal", bench_mos_coverage(setting), as_json, save)


@listening_bench.command("mos-looks")
def mos_looks(
    runs: Annotated[int, typer.Option(min=1, help="Tests of two systems that are alike, of each kind.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often a test that is looked at five times stops for a difference that is not there."""
    from studio.bench.mos.looks import LooksSetting, bench_mos_looks

    show("mos-looks", bench_mos_looks(LooksSetting(runs=runs, seed=seed, quiet=as_json)), as_json, save)


@listening_bench.command("mos-plan")
def mos_plan(
    runs: Annotated[int, typer.Option(min=1, help="Tests tried with the planned number.")] = 400,
    small_pilots: Annotated[
        int, typer.Option(min=0, help="Pilots as small as labs have them; 0 leaves them out.")
    ] = 40,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether the planner's number of raters is enough in another population of the same variances."""
    from studio.bench.mos.plan import PlanSetting, bench_mos_plan

    setting = PlanSetting(runs=runs, small_pilots=small_pilots, seed=seed, quiet=as_json)
    show("mos-plan", bench_mos_plan(setting), as_json, save)
