"""Several systems or voices in one table and one plot: first sound, and how many live typists each serves."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from studio.bench.settings import LatencySetting, LoadSetting
from studio.core.errors import BadOption, needs
from studio.measure.report import RESULTS, print_table

MOST = 8
AnySetting = TypeVar("AnySetting", LatencySetting, LoadSetting)


def compare_systems(setting: AnySetting, measure: Callable[[AnySetting], dict[str, Any]]) -> dict[str, Any]:
    """The figures of each system by its name, one after the other. Raises BadOption, and what ``measure`` raises."""
    names = setting.system
    if len(set(names)) != len(names) or len(names) > MOST:
        raise BadOption("the systems to compare are not allowed", f"name 2 to {MOST}, each once")
    alone = {name: replace(setting, system=(name,), quiet=True) for name in names}
    out: dict[str, Any] = {"systems": {name: measure(one) for name, one in alone.items()}}
    return out


def show_compared(out: Mapping[str, Any]) -> None:
    systems: Mapping[str, Mapping[str, Any]] = out["systems"]
    if all("t2_t0_ms" in one for one in systems.values()):
        columns = ("system", "t2 - t0", "p95", "t5 - t0", "p95", "typed: t2 - t0", "p95", "rtf")
        rows = [
            [name, *_points(one["t2_t0_ms"]), *_points(one["t5_t0_ms"]), *_typed(one), one["rtf"]]
            for name, one in systems.items()
        ]
        print_table("First sound of each system, ms", columns, rows, "t2: first sample; t5: first audible one")
        return
    columns = ("system", "typists without a stall", "newcomer's wait, idle", "p95")
    rows = [[name, one["typists_without_stall"], *_wait(one)] for name, one in systems.items()]
    print_table("Live typists that each system serves", columns, rows, "waits in ms")


def _points(of: Mapping[str, float]) -> list[str]:
    return [f"{of[point]:.0f}" for point in ("p50", "p95")]


def _typed(one: Mapping[str, Any]) -> list[str | None]:
    return [*_points(one["typed"]["t2_t0_ms"])] if "typed" in one else [None, None]


def _wait(one: Mapping[str, Any]) -> list[str | None]:
    waits = one["newcomers"].get("idle", {}).get("first_pcm_ms")
    return [*_points(waits)] if waits else [None, None]


def plot_compared(out: Mapping[str, Any], name: str, folder: Path = RESULTS) -> list[Path]:
    """A bar for each system: its p50, with a line to its p95; or its number of typists. Raises NeedsPackage."""
    with needs("plots need matplotlib", "bench"):
        from matplotlib.figure import Figure
    systems: Mapping[str, Mapping[str, Any]] = out["systems"]
    names = [*systems]
    figure = Figure(figsize=(7.0, 1.2 + 0.5 * len(names)), layout="constrained")
    axes = figure.subplots()
    if all("t2_t0_ms" in one for one in systems.values()):
        medians = [one["t5_t0_ms"]["p50"] for one in systems.values()]
        above = [one["t5_t0_ms"]["p95"] - one["t5_t0_ms"]["p50"] for one in systems.values()]
        axes.barh(names, medians, xerr=[[0.0] * len(names), above], color="#3b6ea5")
        axes.set(xlabel="first audible sound after the text, ms (line: p95)")
    else:
        axes.barh(names, [one["typists_without_stall"] for one in systems.values()], color="#3b6ea5")
        axes.set(xlabel="live typists without a stall")
    axes.invert_yaxis()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{datetime.datetime.now(datetime.UTC).date().isoformat()}.svg"
    figure.savefig(path, metadata={"Date": None})
    return [path]
