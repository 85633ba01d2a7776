"""Tables and charts of preference and scores against latency in live tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.mos.report.cells import (
    NONE,
    ReportTable,
    interval_text,
    number,
    p_value,
    percent,
    percent_interval,
    small_sample_notes,
    with_interval,
)
from studio.mos.report.charts import ScatterPoint, scatter_chart
from studio.mos.report.choices import elo_interval, elo_score, ranked

FASTER_SHARE = "Share of the votes for the faster voice, by the difference in latency"
_MS = "latency, ms"
_LATENCY = "Latency: from the last word that a voice needed to its first sound."
_SOONER_MS = "difference in latency, ms"
_CONFOUNDING = (
    "Latency and voice are confounded: the slope within voices uses only differences from one typing to the next."
)


def latency_results(results: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Latency results; None if the test is not live or has no answers."""
    latency = results["tables"].get("latency", {"n": 0})
    return latency if latency["n"] else None


def elo_by_latency(results: Mapping[str, Any]) -> list[ScatterPoint]:
    """Elo of each voice at its median latency; voices without a finite strength are omitted."""
    latency = latency_results(results)
    if latency is None or not results["tables"]["choices"]["n"]:
        return []
    rows = [(name, row) for name, row in ranked(results["tables"]["choices"]["elo"]["gamma"]) if not row["state"]]
    return [
        ScatterPoint(latency["systems"][name]["median_ms"], row["elo"], row["lo"], row["hi"], name)
        for name, row in rows
        if name in latency["systems"] and row["elo"] is not None
    ]


def mean_by_latency(results: Mapping[str, Any], question: str) -> list[ScatterPoint]:
    """Mean score of each voice at its median latency."""
    latency, table = latency_results(results), results["tables"].get("questions", {}).get(question, {"n": 0})
    if latency is None or not table["n"]:
        return []
    means = table["systems"]["two_way"]
    return [
        ScatterPoint(of["median_ms"], means[name]["mean"], means[name]["low"], means[name]["high"], name)
        for name, of in latency["systems"].items()
        if name in means
    ]


def bins_by_latency(bins: Sequence[Mapping[str, Any]], scale: float = 1.0) -> list[ScatterPoint]:
    """Means of answers of similar latency."""
    spots: list[ScatterPoint] = []
    for of in bins:
        low, high = (None if of["mean"][end] is None else scale * of["mean"][end] for end in ("low", "high"))
        spots.append(ScatterPoint(of["middle_ms"], scale * of["mean"]["mean"], low, high))
    return spots


def latency_figures(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Charts with captions: voices by latency, then answers by latency."""
    latency, figures = latency_results(results), list[tuple[str, str]]()
    if latency is None:
        return figures
    if spots := elo_by_latency(results):
        figures.append(
            (scatter_chart(spots, _MS, "Elo by latency"), f"Elo of each voice at its median latency, 95%. {_LATENCY}")
        )
    if latency["preference"]["n"]:
        spots = bins_by_latency(latency["preference"]["bins"], 100.0)
        figures.append(
            (scatter_chart(spots, _SOONER_MS, "preference by latency", 50.0), f"{FASTER_SHARE}, percent, 95%.")
        )
    for name, table in latency["questions"].items():
        for spots, what in (
            (mean_by_latency(results, name), "of each voice at its median latency"),
            (bins_by_latency(table["bins"]) if table["n"] else [], "of answers of similar latency"),
        ):
            if spots:
                figures.append((scatter_chart(spots, _MS, f"{name} by latency"), f"{name}: mean {what}, 95%."))
    return figures


def latency_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Latency, Elo and scores of each voice, then answers by latency with the slope per 100 ms."""
    latency = latency_results(results)
    if latency is None:
        return []
    tables, preference = [_voices(results, latency)], latency["preference"]
    if preference["n"]:
        rows = [[*_range(b), percent(b["mean"]["mean"]), *_share(b["mean"])] for b in preference["bins"]]
        columns = ["Faster by, ms", "median", "votes for the faster", "95% interval", "votes"]
        notes = [
            _slope_note(preference, "Elo", latency["per_ms"], 0),
            _CONFOUNDING,
            *small_sample_notes(b["mean"] for b in preference["bins"]),
        ]
        tables.append(ReportTable("Preference by latency", columns, rows, notes))
    for name, table in latency["questions"].items():
        if table["n"]:
            rows = [[*_range(b), with_interval(b["mean"], 2), str(b["mean"]["n"])] for b in table["bins"]]
            notes = [
                _slope_note(table, "steps", latency["per_ms"], 2),
                _CONFOUNDING,
                *small_sample_notes(b["mean"] for b in table["bins"]),
            ]
            tables.append(ReportTable(f"{name} by latency", ["Latency, ms", "median", "mean", "ratings"], rows, notes))
    return tables


def _voices(results: Mapping[str, Any], latency: Mapping[str, Any]) -> ReportTable:
    elo = dict(ranked(results["tables"]["choices"]["elo"]["gamma"])) if results["tables"]["choices"]["n"] else {}
    rated = {name: t for name, t in results["tables"].get("questions", {}).items() if t["n"]}
    rows: list[list[str]] = []
    for name, of in latency["systems"].items():
        row = elo.get(name)
        means = [t["systems"]["two_way"].get(name) for t in rated.values()]
        rows.append(
            [
                name,
                f"{number(of['median_ms'], 0)} {interval_text(of['low_ms'], of['high_ms'], 0)}",
                NONE if row is None else f"{elo_score(row)} {elo_interval(row)}",
                *(NONE if mean is None else with_interval(mean, 2) for mean in means),
            ]
        )
    columns = ["System", "latency, ms: median [quartiles]", "Elo, 95% interval", *rated]
    return ReportTable("Voices by latency", columns, rows, ["Latency of the takes in rated trials."])


def _range(of: Mapping[str, Any]) -> list[str]:
    return [f"{number(of['low_ms'], 0)} to {number(of['high_ms'], 0)}", number(of["middle_ms"], 0)]


def _share(mean: Mapping[str, Any]) -> list[str]:
    return [percent_interval(mean), str(mean["n"])]


def _slope_note(table: Mapping[str, Any], unit: str, per_ms: float, digits: int) -> str:
    slopes: list[str] = []
    for key, what in (("slope", "over all answers"), ("slope_same_voices", "within voices")):
        slopes.append(f"{what} {_slope(table[key], unit, digits)}")
    what = "faster" if unit == "Elo" else "of latency"
    return f"Per {per_ms:g} ms {what}: {'; '.join(slopes)}."


def _slope(slope: Mapping[str, Any] | None, unit: str, digits: int) -> str:
    if slope is None:
        return "unknown"
    if slope["always"] is None:
        ends = interval_text(slope["low"], slope["high"], digits)
        return f"{number(slope['value'], digits)} {unit} {ends}, p {p_value(slope['p'])}"
    end, bound = ("above", slope["low"]) if slope["always"] == "sooner" else ("below", slope["high"])
    if bound is None:
        return "no finite slope, because voice and latency together explain every vote"
    winner = "faster" if slope["always"] == "sooner" else "slower"
    won = f"no finite slope, because the {winner} voice won every vote"
    return f"{won}: {end} {number(bound, digits)} {unit}, p {p_value(slope['p'])}"
