"""Tables and charts in addition to means: latency in live tests, the ordinal mixed model, predicted MOS."""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    ReportTable,
    decimals_for,
    interval_text,
    number,
    p_value,
    percent,
    percent_interval,
    rated_questions,
    scaled,
    small_sample_notes,
    with_interval,
)
from studio.mos.report.charts import ScatterPoint, scatter_chart
from studio.mos.report.pairs import elo_interval, elo_score, ranked

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
    means = [scaled(of["mean"], scale) for of in bins]
    return [ScatterPoint(of["middle_ms"], m["mean"], m["low"], m["high"]) for of, m in zip(bins, means, strict=True)]


def latency_figures(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Charts with captions: voices by latency, then answers by latency."""
    latency, figures = latency_results(results), list[tuple[str, str]]()
    if latency is None:
        return figures
    if spots := elo_by_latency(results):
        caption = f"Elo of each voice at its median latency, 95%. {_LATENCY}"
        figures.append((scatter_chart(spots, _MS, "Elo by latency"), caption))
    if latency["preference"]["n"]:
        spots = bins_by_latency(latency["preference"]["bins"], 100.0)
        chart = scatter_chart(spots, _SOONER_MS, "preference by latency", 50.0)
        figures.append((chart, f"{FASTER_SHARE}, percent, 95%."))
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

    def table(name: str, columns: list[str], table: Mapping[str, Any], rows: list[list[str]], unit: str) -> ReportTable:
        slopes = _slope_note(table, unit, latency["per_ms"], 0 if unit == "Elo" else 2)
        notes = [slopes, _CONFOUNDING, *small_sample_notes(b["mean"] for b in table["bins"])]
        return ReportTable(f"{name} by latency", columns, rows, notes)

    tables, preference = [_voices(results, latency)], latency["preference"]
    if preference["n"]:
        columns = ["Faster by, ms", "median", "votes for the faster", "95% interval", "votes"]
        means = [(_range(b), b["mean"]) for b in preference["bins"]]
        rows = [[*ms, percent(m["mean"]), percent_interval(m), str(m["n"])] for ms, m in means]
        tables.append(table("Preference", columns, preference, rows, "Elo"))
    for name, scores in latency["questions"].items():
        if scores["n"]:
            rows = [[*_range(b), with_interval(b["mean"], 2), str(b["mean"]["n"])] for b in scores["bins"]]
            tables.append(table(name, ["Latency, ms", "median", "mean", "ratings"], scores, rows, "steps"))
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


def _slope_note(table: Mapping[str, Any], unit: str, per_ms: float, digits: int) -> str:
    over_all, within = (_slope(table[key], unit, digits) for key in ("slope", "slope_same_voices"))
    what = "faster" if unit == "Elo" else "of latency"
    return f"Per {per_ms:g} ms {what}: over all answers {over_all}; within voices {within}."


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


MODEL = (
    "Cumulative logit mixed model: scores are ordered categories; raters, scripts, rater x system (taste) and script x "
    "system (favour) are random effects. The expected score is that of other raters on other scripts; t intervals by "
    "the smaller number of raters and scripts."
)
_SCATTER = {"rater": "raters", "script": "scripts", "taste": "tastes", "favour": "favours of scripts"}
_MOST_ODDS = 1000.0


def second_opinion_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Expected scores by the ordinal model for each question with few levels, and differences between systems."""
    tables: list[ReportTable] = []
    for question, table in rated_questions(results):
        model = results["second_opinion"].get(question["id"])
        if model is not None:
            tables.append(_expected(question, table, model))
            if not model["reason"] and not any(MODEL in table.notes for table in tables):
                tables[-1].notes.insert(0, MODEL)
            tables += [] if model["reason"] else [_differences(question["id"], model)]
    return [table for table in tables if table.rows]


def _expected(question: Mapping[str, Any], table: Mapping[str, Any], model: Mapping[str, Any]) -> ReportTable:
    digits, means = decimals_for(question), table["systems"]["two_way"]
    caption = f"{question['id']}: a second opinion, by an ordinal mixed model"
    columns = ["System", "mean", "expected score", "location (logits)"]
    if model["reason"]:
        rows = [[name, with_interval(mean, digits), NONE, NONE] for name, mean in means.items()]
        return ReportTable(caption, columns, rows, [f"No model: {model['reason']}."])
    rows = [
        [
            name,
            with_interval(mean, digits),
            f"{number(model['systems'][name]['mean'], digits)} {_ends(model['systems'][name], digits)}",
            f"{number(model['locations'][name]['mean'], 2)} {_ends(model['locations'][name], 2)}",
        ]
        for name, mean in means.items()
    ]
    scatter = ", ".join(f"{_SCATTER[term]} {sd:.2f}" for term, sd in model["sd"].items())
    steps = ", ".join(
        f"{low:g}|{high:g} {number(at, 2)}"
        for low, high, at in zip(model["levels"][:-1], model["levels"][1:], model["thresholds"], strict=True)
    )
    notes = [f"In logits: standard deviation of {scatter}, of single answers 1.81; thresholds {steps}."]
    return ReportTable(caption, columns, rows, [*notes, *small_sample_notes(model["systems"].values())])


def _differences(question: str, model: Mapping[str, Any]) -> ReportTable:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], 2),
            _ends(d["interval"], 2),
            _odds(d["interval"]["mean"]),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in model["differences"]
    ]
    note = (
        "Odds ratio of a score above any threshold, first system against second; p corrected for all pairs (Holm 1979)."
    )
    columns = ["Pair", "difference (logits)", "95% interval", "odds ratio", "p", "p, Holm"]
    return ReportTable(f"{question}: differences by the ordinal model", columns, rows, [note])


def _ends(interval: Mapping[str, Any], digits: int) -> str:
    return interval_text(interval["low"], interval["high"], digits)


def _odds(logits: float) -> str:
    odds = exp(min(logits, 50.0))
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    if odds < 1 / _MOST_ODDS:
        return f"< {1 / _MOST_ODDS:g}"
    return f"{odds:.0f}" if odds >= 10 else f"{odds:.1f}" if odds >= 1 else f"{odds:.2g}"


def predicted_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """One row per system in the order of the campaign, regardless of scores; no table without predictions."""
    predicted = results["predicted"]
    if predicted is None:
        return []
    rated = [(q, t["systems"]["two_way"]) for q, t in rated_questions(results) if t["n"]]
    rows = [
        [
            name,
            number(one["mean"], 2),
            interval_text(one["low"], one["high"], 2),
            str(one["n"]),
            *(_by_people(question, means.get(name)) for question, means in rated),
        ]
        for name in (s["name"] for s in results["systems"])
        if (one := predicted["systems"].get(name))
    ]
    columns = ["System", "predicted MOS", "95% interval", "scripts", *(f"people: {q['id']}" for q, _ in rated)]
    notes = [
        f"Predicted by {predicted['predictor']} {predicted['version']} (weights {predicted['weights'][:12]}) for the "
        "rated clips. Predictions enter no mean, order or test of these results, and no system is ranked by them. 95% "
        "interval: bootstrap over scripts."
    ]
    return [ReportTable(f"Predicted by {predicted['predictor']}, not by people", columns, rows, notes)]


def _by_people(question: Mapping[str, Any], mean: Mapping[str, Any] | None) -> str:
    if mean is None:
        return number(None, 2)
    return with_interval(mean, decimals_for(question))
