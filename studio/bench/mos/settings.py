"""Parameters of ``studio bench mos-*``."""

from typing import Annotated, Any, Literal

import typer

from studio.bench.options import Parameters, Seed
from studio.core.errors import BadOption

Tests = tuple[Literal["mos", "mushra", "cmos", "preference", "elo"], ...]
COVERAGE_TESTS = ("preference", "elo", "mos")


class MosLoadSetting(Parameters):
    """Raters over HTTP, all at once: the duration of each call; fails when an answer is lost or duplicated."""

    raters: Annotated[int, typer.Option(min=1, help="Raters.")] = 300
    spread_s: Annotated[float, typer.Option("--spread", min=0.0, help="Seconds within which all of them start.")] = 1.0
    trials: Annotated[int, typer.Option(min=1, help="Trials of each rater.")] = 12
    think_s: Annotated[
        tuple[float, float], typer.Option("--think", help="Range of seconds between hearing and answering.")
    ] = (2.0, 8.0)
    bare: Annotated[bool, typer.Option("--bare", help="Only the routes, without engine and page.")] = False
    postgresql: Annotated[
        bool, typer.Option("--postgresql", help="Start a PostgreSQL server for the run; SQLite otherwise.")
    ] = False
    replicas: Annotated[int, typer.Option(min=0, max=16, help="Engine processes behind a front; 0 for none.")] = 0
    kills: Annotated[int, typer.Option(min=0, help="Replicas killed with -9, each in turn, while raters answer.")] = 0
    seed: Seed = 0
    items: int = 40
    systems: int = 4
    clip_s: float = 4.0
    timeout_s: float = 900.0  # the run fails after this time

    def __post_init__(self) -> None:
        if self.kills and self.replicas < 2:
            raise BadOption("a killed replica needs another one", "give --replicas 2 or more")
        if self.bare and (self.replicas or self.postgresql):
            raise BadOption("the bare routes have one process and SQLite", "leave --bare out")

    @property
    def result_name(self) -> str:
        """Name in bench/results."""
        return "mos-load" + ("-replicas" if self.replicas else "-postgresql" if self.postgresql else "")


class CoverageSetting(Parameters):
    """Coverage of the intervals of listening tests: few raters, few scripts, scores near the ceiling."""

    runs: Annotated[int, typer.Option(min=1, help="Simulated tests per cell.")] = 400
    tests: Annotated[
        tuple[str, ...], typer.Option("--test", help="preference, elo, mos; all by default. Repeatable.")
    ] = COVERAGE_TESTS
    seed: Seed = 0
    population_size: int = 40_000  # simulated raters whose mean is the true value

    def __post_init__(self) -> None:
        if unknown := {*self.tests} - {*COVERAGE_TESTS, "ordinal", "unequal"}:
            raise BadOption(f"unknown test {min(unknown)!r}", f"choose {', '.join(COVERAGE_TESTS)}")


class OrdinalSetting(CoverageSetting):
    """Coverage of the ordinal model's expected scores: few raters, few scripts, high scores."""

    tests: tuple[str, ...] = ("ordinal",)


class UnequalSetting(CoverageSetting):
    """Coverage where few raters or one script have many of the answers: Zipf votes, an arena at its caps."""

    tests: tuple[str, ...] = ("unequal",)
    population_size: int = 10_000


class FamilySetting(Parameters):
    """Family-wise error of Holm-corrected differences of three equal systems."""

    runs: Annotated[int, typer.Option(min=1, help="Simulated tests per cell.")] = 2000
    seed: Seed = 0
    cells: tuple[Any, ...] = ()  # of ``margins.FamilyCell``; empty for all


class LooksSetting(Parameters):
    """How often a test with five interim looks stops for a difference that does not exist."""

    runs: Annotated[int, typer.Option(min=1, help="Tests of two equal systems, of each kind.")] = 2000
    seed: Seed = 0
    cells: tuple[Any, ...] = ()  # of ``studio.bench.mos.design``; empty for all


class PlanSetting(Parameters):
    """Whether the planned number of raters suffices in another population with the same variances.

    Attributes:
        pilot, small: raters and scripts of the large and of a small pilot.
    """

    runs: Annotated[int, typer.Option(min=1, help="Tests with the planned number of raters.")] = 400
    small_pilots: Annotated[int, typer.Option(min=0, help="Pilots of the size that labs have; 0 for none.")] = 40
    seed: Seed = 0
    tests: Tests = ("mos", "mushra", "cmos", "preference", "elo")
    pilot: tuple[int, int] = (400, 120)
    small: tuple[int, int] = (10, 12)
    plan_runs: int = 200


class MarginSetting(Parameters):
    """Tests with a margin (TOST): errors where the true difference is the margin, and the power of planned tests.

    Attributes:
        pilot: raters and scripts of the pilot that the plans use. It has many scripts: with 120, the draw of the
            scripts changes the planned power by about a twentieth.
    """

    runs: Annotated[int, typer.Option(min=1, help="Simulated tests per cell.")] = 1000
    seed: Seed = 0
    tests: tuple[Literal["mos", "mushra", "cmos", "preference"], ...] = ("mos", "mushra", "cmos", "preference")
    population_size: int = 40_000  # simulated raters whose difference is the true one
    pilot: tuple[int, int] = (400, 480)
    plan_runs: int = 2000
