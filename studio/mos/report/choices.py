"""Tables of choices between two stimuli: preferences and Elo."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    TWO_WAY,
    ReportTable,
    interval_text,
    number,
    p_value,
    percent,
    percent_interval,
    small_sample_notes,
)

_MANY_PAIRS = 45  # ten systems; with more, differences are among the further tables


def ranked(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Systems of an Elo report, best first; those without a score last."""
    systems: Mapping[str, Mapping[str, Any]] = report["systems"]
    return sorted(systems.items(), key=lambda kv: (kv[1]["elo"] is None, -(kv[1]["elo"] or 0.0), kv[0]))


def elo_score(row: Mapping[str, Any]) -> str:
    """Score of a system; a dash if it follows from the prior alone."""
    return NONE if row["state"] else number(row["elo"], 0)


def elo_interval(row: Mapping[str, Any]) -> str:
    """Interval of a system, or its state and one-sided bound."""
    bound = {"undefeated": ("above", row["lo"]), "winless": ("below", row["hi"])}.get(row["state"])
    if bound is not None and bound[1] is not None:
        return f"{row['state']}, {bound[0]} {number(bound[1], 0)}"
    return _STATE_TEXTS.get(row["state"]) or interval_text(row["lo"], row["hi"], 0)


def elo_difference(row: Mapping[str, Any]) -> tuple[str, str]:
    """Difference and its interval; a dash and a bound for an undefeated or winless system."""
    one_sided = row["lo"] is not None and row["hi"] is None
    interval = f"above {number(row['lo'], 0)}" if one_sided else interval_text(row["lo"], row["hi"], 0)
    return NONE if interval == NONE or one_sided else number(row["difference"], 0), interval


_STATE_TEXTS = {"between": "rank known, distance unknown", "apart": "never compared"}


def choice_tables(choices: Mapping[str, Any]) -> list[ReportTable]:
    """Tables of the papers: preferences (001), Elo (002) and differences of Elo."""
    has_few_pairs = len(choices["elo"]["gamma"]["differences"]) <= _MANY_PAIRS
    return [_preferences(choices), _ladder(choices), *([_differences(choices)] if has_few_pairs else [])]


def more_choice_tables(choices: Mapping[str, Any]) -> list[ReportTable]:
    """Alternative intervals and models."""
    has_few_pairs = len(choices["elo"]["gamma"]["differences"]) <= _MANY_PAIRS
    return [*([] if has_few_pairs else [_differences(choices)]), _shares(choices), _models(choices)]


def _preferences(choices: Mapping[str, Any]) -> ReportTable:
    """Preference table of paper 001."""
    rows: list[list[str]] = []
    pairs = choices["pairs"]["two_way"]
    for pair in pairs:
        votes, share = pair["share"]["n"], pair["share"]
        counts = [pair["wins_a"], pair["ties"], pair["both_bad"], pair["wins_b"]]
        shown = f"{percent(share['mean'])} {percent_interval(share)}"
        shares = [percent(c / votes) for c in counts]
        rows.append([pair["a"], pair["b"], *shares, shown, p_value(pair["p"]), p_value(pair["p_holm"]), str(votes)])
    columns = ["A", "B", "A preferred", "no difference", "both bad", "B preferred", "share of A, 95% interval"]
    note = "The share counts ties and 'both bad' as half a win each. p against one half; Holm: corrected for all pairs."
    notes = [note, TWO_WAY, *small_sample_notes(p["share"] for p in pairs)]
    return ReportTable("Preference", [*columns, "p", "p, Holm", "votes"], rows, notes)


def _ladder(choices: Mapping[str, Any]) -> ReportTable:
    gamma, dsm = (choices["elo"][m] for m in ("gamma", "dsm"))
    rows: list[list[str]] = []
    for name, row in ranked(gamma):
        beside = dsm["systems"][name]
        compatible = f"{number(beside['elo'], 0)} {interval_text(beside['lo'], beside['hi'], 0)}"
        rows.append([name, elo_score(row), elo_interval(row), compatible])
    constants = choices["constants"]
    undecided = ", ".join(f"{what} {percent(gamma['undecided'][k])}" for k, what in _UNDECIDED)
    notes = [
        f"Bradley-Terry with a prior Gamma(a0 = {constants['a0']:g}, rate b0 = {constants['b0']:g}) on each strength, "
        f"c = {constants['c']:g}, converged; {gamma['interval']}. Only differences within this test are comparable.",
        f"{dsm['interval']} after 30 sweeps from 1, as in paper 002; too narrow for strong systems.",
        f"Of the votes: {undecided}.",
        *(f"{note}." for note in gamma["notes"]),
    ]
    notes += [f"No intervals: {gamma['reason']}."] if gamma["reason"] else []
    return ReportTable("Elo", ["System", "Elo", "95% interval", "DSM-compatible"], rows, notes)


_UNDECIDED = (("tie", "ties"), ("both_bad", "'both bad'"))


def _differences(choices: Mapping[str, Any]) -> ReportTable:
    gamma = choices["elo"]["gamma"]
    rows: list[list[str]] = []
    for d in gamma["differences"]:
        rows.append([f"{d['a']} {MINUS} {d['b']}", *elo_difference(d), p_value(d["p"]), p_value(d["p_holm"])])
    note = "Effects of raters and scripts on both systems cancel; p corrected for all pairs (Holm 1979)."
    return ReportTable("Elo: differences", ["Pair", "difference", "95% interval", "p", "p, Holm"], rows, [note])


def _shares(choices: Mapping[str, Any]) -> ReportTable:
    by = [choices["pairs"][method] for method in ("two_way", "by_rater", "exact", "wilson")]
    rows = [
        [f"{intervals[0]['a']} against {intervals[0]['b']}", *(percent_interval(p["share"]) for p in intervals)]
        for intervals in zip(*by, strict=True)
    ]
    note = (
        "By rater: for these scripts only. Exact (Clopper & Pearson) and Wilson treat votes as independent, which "
        "votes of one rater or on one script are not."
    )
    columns = ["Pair", "by rater and script", "by rater", "exact", "Wilson"]
    return ReportTable("Preference: intervals side by side", columns, rows, [note])


def _models(choices: Mapping[str, Any]) -> ReportTable:
    elo = choices["elo"]
    beside = ("by_rater", "mle", "davidson", "posterior")
    rows: list[list[str]] = []
    for name, _ in ranked(elo["gamma"]):
        rows_of = [elo[method]["systems"][name] for method in beside]
        by_rater, *intervals = [elo_interval(row) for row in rows_of]
        shown = [f"{elo_score(row)} {interval}" for row, interval in zip(rows_of[1:], intervals, strict=True)]
        rows.append([name, by_rater, *shown])
    notes = [
        "By rater: for these scripts only. Davidson (1970): a tie is a separate outcome, not half a win each. "
        "Posterior: under the prior, by Gibbs sampling, votes as independent.",
    ]
    notes += [f"{label}: {elo[m]['reason']}." for m, label in _LABELS.items() if elo[m]["reason"]]
    columns = ["System", "by rater", "maximum likelihood", "Davidson", "posterior"]
    return ReportTable("Elo: other intervals and models", columns, rows, notes)


_LABELS = {"by_rater": "By rater", "mle": "Maximum likelihood", "davidson": "Davidson"}
