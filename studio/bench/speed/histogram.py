"""Batch sizes of each module."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.load import EngineLoad
from studio.measure.report import print_table


def batches(after: EngineLoad, before: EngineLoad | None = None) -> list[dict[str, Any]]:
    """Runs and mean time by batch size for each module, between two snapshots of the load."""
    past = {(one.voice, one.name): one for one in before.modules} if before else {}
    found = []
    for one in after.modules:
        old = past.get((one.voice, one.name))
        runs = {size: count - (old.runs.get(size, 0) if old else 0) for size, count in sorted(one.runs.items())}
        ms = {size: one.ms[size] - (old.ms.get(size, 0.0) if old else 0.0) for size in runs}
        kept = {size: count for size, count in runs.items() if count}
        rows, total = sum(size * count for size, count in kept.items()), sum(kept.values())
        found.append(
            {
                "module": one.name,
                "runs": total,
                "mean_rows": rows / max(1, total),
                "ms_per_run": sum(ms.values()) / max(1, total),
                "histogram": {str(size): {"runs": n, "ms": ms[size] / n} for size, n in kept.items()},
            }
        )
    return found


def show_batches(modules: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the histogram."""
    rows = [
        [
            one["module"],
            one["runs"],
            f"{one['mean_rows']:.1f}",
            f"{one['ms_per_run']:.2f}",
            "  ".join(f"{size}: {it['runs']}" for size, it in one["histogram"].items()),
        ]
        for one in modules
    ]
    print_table(title, ("module", "runs", "rows", "ms a run", "runs by rows"), rows)
