"""Preferences and scores of live tests against the latency that raters had: tables, and drawings of the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.mos.report.cells import (
    NONE,
    Table,
    between,
    between_percent,
    few_raters,
    number,
    p_value,
    percent,
    with_interval,
)
from studio.mos.report.charts import Spot, scatter
from studio.mos.report.choices import elo_interval, elo_score, ranked

SOONER = "Share of the votes for the voice that was sooner, by how much sooner it was"
_MS = "latency, ms"
_LATENCY = "Latency: from the words that a voice needed to its first sound."
_SOONER_MS = "by how much the voice was sooner, ms"
_TOGETHER = (
    "Latency and voice go together: the slope among the same voices is of what differed from one typing to the next."
)


def found_latency(results: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The tables of latency; None in tests that are not live, and without answers."""
    found = results["tables"].get("latency", {"n": 0})
    return found if found["n"] else None


def elo_by_latency(results: Mapping[str, Any]) -> list[Spot]:
    """Elo of each voice at its median latency; voices without a finite strength are left out."""
    found = found_latency(results)
    if found is None or not results["tables"]["choices"]["n"]:
        return []
    rows = [(name, row) for name, row in ranked(results["tables"]["choices"]["elo"]["gamma"]) if not row["state"]]
    return [
        Spot(found["systems"][name]["median_ms"], row["elo"], row["lo"], row["hi"], name)
        for name, row in rows
        if name in found["systems"] and row["elo"] is not None
    ]


def mean_by_latency(results: Mapping[str, Any], question: str) -> list[Spot]:
    """Mean score of each voice at its median latency."""
    found, table = found_latency(results), results["tables"].get("questions", {}).get(question, {"n": 0})
    if found is None or not table["n"]:
        return []
    means = table["systems"]["two_way"]
    return [
        Spot(of["median_ms"], means[name]["mean"], means[name]["low"], means[name]["high"], name)
        for name, of in found["systems"].items()
        if name in means
    ]


def bins_by_latency(bins: Sequence[Mapping[str, Any]], scale: float = 1.0) -> list[Spot]:
    """What answers of about the same latency say."""
    spots: list[Spot] = []
    for of in bins:
        low, high = (None if of["mean"][end] is None else scale * of["mean"][end] for end in ("low", "high"))
        spots.append(Spot(of["middle_ms"], scale * of["mean"]["mean"], low, high))
    return spots


def latency_figures(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Drawings and their captions: voices by latency, then single answers."""
    found, drawn = found_latency(results), list[tuple[str, str]]()
    if found is None:
        return drawn
    if spots := elo_by_latency(results):
        drawn.append(
            (scatter(spots, _MS, "Elo by latency"), f"Elo of each voice at its median latency, 95%. {_LATENCY}")
        )
    if found["preference"]["n"]:
        spots = bins_by_latency(found["preference"]["bins"], 100.0)
        drawn.append((scatter(spots, _SOONER_MS, "preference by latency", 50.0), f"{SOONER}, percent, 95%."))
    for name, table in found["questions"].items():
        for spots, what in (
            (mean_by_latency(results, name), "of each voice at its median latency"),
            (bins_by_latency(table["bins"]) if table["n"] else [], "of answers of about the same latency"),
        ):
            if spots:
                drawn.append((scatter(spots, _MS, f"{name} by latency"), f"{name}: mean {what}, 95%."))
    return drawn


def latency_tables(results: Mapping[str, Any]) -> list[Table]:
    """Each voice's latency with its Elo and scores, then answers by latency, with what 100 ms are worth."""
    found = found_latency(results)
    if found is None:
        return []
    tables, preference = [_voices(results, found)], found["preference"]
    if preference["n"]:
        rows = [[*_range(b), percent(b["mean"]["mean"]), *_share(b["mean"])] for b in preference["bins"]]
        columns = ["Sooner by, ms", "median", "votes for the sooner", "95% interval", "votes"]
        notes = [
            _worth(preference, "Elo", found["per_ms"], 0),
            _TOGETHER,
            *few_raters(b["mean"] for b in preference["bins"]),
        ]
        tables.append(Table("Preference by latency", columns, rows, notes))
    for name, table in found["questions"].items():
        if table["n"]:
            rows = [[*_range(b), with_interval(b["mean"], 2), str(b["mean"]["n"])] for b in table["bins"]]
            notes = [
                _worth(table, "steps", found["per_ms"], 2),
                _TOGETHER,
                *few_raters(b["mean"] for b in table["bins"]),
            ]
            tables.append(Table(f"{name} by latency", ["Latency, ms", "median", "mean", "ratings"], rows, notes))
    return tables


def _voices(results: Mapping[str, Any], found: Mapping[str, Any]) -> Table:
    elo = dict(ranked(results["tables"]["choices"]["elo"]["gamma"])) if results["tables"]["choices"]["n"] else {}
    asked = {name: t for name, t in results["tables"].get("questions", {}).items() if t["n"]}
    rows: list[list[str]] = []
    for name, of in found["systems"].items():
        row = elo.get(name)
        means = [t["systems"]["two_way"].get(name) for t in asked.values()]
        rows.append(
            [
                name,
                f"{number(of['median_ms'], 0)} {between(of['low_ms'], of['high_ms'], 0)}",
                NONE if row is None else f"{elo_score(row)} {elo_interval(row)}",
                *(NONE if mean is None else with_interval(mean, 2) for mean in means),
            ]
        )
    columns = ["System", "latency, ms: median [quartiles]", "Elo, 95% interval", *asked]
    return Table("Voices by latency", columns, rows, ["Latency of the takes that were voted on."])


def _range(of: Mapping[str, Any]) -> list[str]:
    return [f"{number(of['low_ms'], 0)} to {number(of['high_ms'], 0)}", number(of["middle_ms"], 0)]


def _share(mean: Mapping[str, Any]) -> list[str]:
    return [between_percent(mean), str(mean["n"])]


def _worth(table: Mapping[str, Any], unit: str, per_ms: float, digits: int) -> str:
    said: list[str] = []
    for key, what in (("slope", "over all answers"), ("slope_same_voices", "among the same voices")):
        said.append(f"{what} {_slope(table[key], unit, digits)}")
    sooner = "sooner" if unit == "Elo" else "of latency"
    return f"Per {per_ms:g} ms {sooner}: {'; '.join(said)}."


def _slope(slope: Mapping[str, Any] | None, unit: str, digits: int) -> str:
    if slope is None:
        return "not known"
    if slope["always"] is None:
        ends = between(slope["low"], slope["high"], digits)
        return f"{number(slope['value'], digits)} {unit} {ends}, p {p_value(slope['p'])}"
    end, bound = ("above", slope["low"]) if slope["always"] == "sooner" else ("below", slope["high"])
    if bound is None:
        return "no finite slope, for voice and latency together account for every vote"
    won = f"no finite slope, for the {slope['always']} voice won every vote"
    return f"{won}: {end} {number(bound, digits)} {unit}, p {p_value(slope['p'])}"
