"""SVG plots of ``studio bench load``."""

import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from studio.core.errors import NeedsPackage
from studio.measure.report import RESULTS


def plot_load(found: Mapping[str, Any], name: str = "load", folder: Path = RESULTS) -> list[Path]:
    """Plot latency over rate, and batch sizes. Raises NeedsPackage."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NeedsPackage("plots need matplotlib", "pip install 'streaming-tts-studio[bench]'") from error
    stamp = datetime.datetime.now(datetime.UTC).date().isoformat()
    title = f"{found['voice']} ({found['weights']} weights) on {found['device']}"
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Any, what: str) -> None:
        path = folder / f"{name}-{what}-{stamp}.svg"
        figure.savefig(path, metadata={"Date": None})
        written.append(path)

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    tried = [one["typists"] for one in found["tries"]]
    axes.bar([str(count) for count in tried], [one["stalls"] for one in found["tries"]], color="#3b6ea5")
    fit = found["typists_without_stall"]
    axes.set(xlabel="live typists", ylabel="stalls", title=f"{title}: {fit} fit at {found['wpm']:g} wpm")
    save(figure, "typists")
    if runs := found.get("queries", {}).get("runs"):
        figure = Figure(figsize=(7.0, 4.5), layout="constrained")
        axes = figure.subplots()
        for label, style, rates, values in _lines(runs):
            axes.plot(rates, values, style, label=label)
        axes.set(xlabel="queries a second", ylabel="ms", yscale="log", title=title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        save(figure, "queries")
    if modules := found["modules"]:
        figure = Figure(figsize=(7.0, 2.2 * len(modules)), layout="constrained")
        every = figure.subplots(len(modules), 1, squeeze=False)
        for axes, one in zip(every[:, 0], modules, strict=True):
            sizes = [int(size) for size in one["histogram"]]
            axes.bar(sizes, [it["runs"] for it in one["histogram"].values()], color="#3b6ea5")
            axes.set(ylabel="runs", title=f"{one['module']}: {one['mean_rows']:.1f} rows a run")
        every[-1, 0].set_xlabel("rows")
        save(figure, "batches")
    return written


def _lines(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Name, style, rates and ms of a line for each kind of text, arrival process and latency."""
    for arrivals, dash in (("fixed", "-"), ("poisson", "--")):
        for kind in dict.fromkeys(run["kind"] for run in runs):
            mine = [run for run in runs if (run["kind"], run["arrivals"]) == (kind, arrivals)]
            for name, mark in (("first_372_ms", "o"), ("last_ms", "s")):
                there = [(run["per_s"], run[name]["mean"]) for run in mine if run[name]["n"]]
                if there:
                    label = f"{name.removesuffix('_ms').replace('_', ' ')}, {kind}, {arrivals}"
                    yield label, mark + dash, [rate for rate, _ in there], [value for _, value in there]
