"""Tables of choices between two sounds: preferences, the Elo ladder, and what stands beside both."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    TWO_WAY,
    Table,
    between,
    between_percent,
    few_raters,
    number,
    p_value,
    percent,
)

_MANY_PAIRS = 45  # of ten systems; of more, differences stand among the further tables


def ranked(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The systems of an Elo report, the best first; those without a score last."""
    systems: Mapping[str, Mapping[str, Any]] = report["systems"]
    return sorted(systems.items(), key=lambda kv: (kv[1]["elo"] is None, -(kv[1]["elo"] or 0.0), kv[0]))


def elo_score(row: Mapping[str, Any]) -> str:
    """A system's score; a dash where votes give it none and the prior alone does."""
    return NONE if row["state"] else number(row["elo"], 0)


def elo_interval(row: Mapping[str, Any]) -> str:
    """A system's interval, or its state and the bound that it has instead."""
    bound = {"undefeated": ("above", row["lo"]), "winless": ("below", row["hi"])}.get(row["state"])
    if bound is not None and bound[1] is not None:
        return f"{row['state']}, {bound[0]} {number(bound[1], 0)}"
    return _STATES.get(row["state"]) or between(row["lo"], row["hi"], 0)


def elo_difference(row: Mapping[str, Any]) -> tuple[str, str]:
    """A difference and its interval; a dash and the bound where an undefeated or a winless system has no difference."""
    one_sided = row["lo"] is not None and row["hi"] is None
    interval = f"above {number(row['lo'], 0)}" if one_sided else between(row["lo"], row["hi"], 0)
    return NONE if interval == NONE or one_sided else number(row["difference"], 0), interval


_STATES = {"between": "place known, distance not", "apart": "never compared"}


def choice_tables(choices: Mapping[str, Any]) -> list[Table]:
    """What papers print: preferences (001), Elo (002) and differences of Elo."""
    few = len(choices["elo"]["gamma"]["differences"]) <= _MANY_PAIRS
    return [_preferences(choices), _ladder(choices), *([_differences(choices)] if few else [])]


def more_choice_tables(choices: Mapping[str, Any]) -> list[Table]:
    """What stands beside: other intervals and other models."""
    few = len(choices["elo"]["gamma"]["differences"]) <= _MANY_PAIRS
    return [*([] if few else [_differences(choices)]), _shares(choices), _models(choices)]


def _preferences(choices: Mapping[str, Any]) -> Table:
    """Paper 001's preference: how often each of two was chosen."""
    rows: list[list[str]] = []
    pairs = choices["pairs"]["two_way"]
    for pair in pairs:
        votes, share = pair["share"]["n"], pair["share"]
        counts = [pair["wins_a"], pair["ties"], pair["both_bad"], pair["wins_b"]]
        shown = f"{percent(share['mean'])} {between_percent(share)}"
        shares = [percent(c / votes) for c in counts]
        rows.append([pair["a"], pair["b"], *shares, shown, p_value(pair["p"]), p_value(pair["p_holm"]), str(votes)])
    columns = ["A", "B", "A preferred", "no difference", "both bad", "B preferred", "share of A, 95% interval"]
    note = (
        "The share counts a tie, and 'both bad', as half a win each. p against one half; Holm: corrected for all pairs."
    )
    notes = [note, TWO_WAY, *few_raters(p["share"] for p in pairs)]
    return Table("Preference", [*columns, "p", "p, Holm", "votes"], rows, notes)


def _ladder(choices: Mapping[str, Any]) -> Table:
    gamma, dsm = (choices["elo"][m] for m in ("gamma", "dsm"))
    rows: list[list[str]] = []
    for name, row in ranked(gamma):
        beside = dsm["systems"][name]
        compatible = f"{number(beside['elo'], 0)} {between(beside['lo'], beside['hi'], 0)}"
        rows.append([name, elo_score(row), elo_interval(row), compatible])
    constants = choices["constants"]
    undecided = ", ".join(f"{what} {percent(gamma['undecided'][k])}" for k, what in _UNDECIDED)
    notes = [
        f"Bradley-Terry with a prior Gamma(a0 = {constants['a0']:g}, rate b0 = {constants['b0']:g}) on each strength, "
        f"c = {constants['c']:g}, converged; {gamma['interval']}. Only differences within this test can be compared.",
        f"{dsm['interval']} after 30 sweeps from 1, as paper 002 prints it; too narrow for strong systems.",
        f"Of the votes: {undecided}.",
        *(f"{note}." for note in gamma["notes"]),
    ]
    notes += [f"No intervals: {gamma['reason']}."] if gamma["reason"] else []
    return Table("Elo", ["System", "Elo", "95% interval", "DSM-compatible"], rows, notes)


_UNDECIDED = (("tie", "ties"), ("both_bad", "'both bad'"))


def _differences(choices: Mapping[str, Any]) -> Table:
    gamma = choices["elo"]["gamma"]
    rows: list[list[str]] = []
    for d in gamma["differences"]:
        rows.append([f"{d['a']} {MINUS} {d['b']}", *elo_difference(d), p_value(d["p"]), p_value(d["p_holm"])])
    note = "What a rater or a script does to both systems cancels; p corrected for all pairs (Holm 1979)."
    return Table("Elo: differences", ["Pair", "difference", "95% interval", "p", "p, Holm"], rows, [note])


def _shares(choices: Mapping[str, Any]) -> Table:
    by = [choices["pairs"][method] for method in ("two_way", "by_rater", "exact", "wilson")]
    rows = [
        [f"{found[0]['a']} against {found[0]['b']}", *(between_percent(p["share"]) for p in found)]
        for found in zip(*by, strict=True)
    ]
    note = (
        "By rater: for these scripts only. Exact (Clopper & Pearson) and Wilson take votes as independent, which votes "
        "of one rater, and on one script, are not."
    )
    columns = ["Pair", "by rater and script", "by rater", "exact", "Wilson"]
    return Table("Preference: intervals side by side", columns, rows, [note])


def _models(choices: Mapping[str, Any]) -> Table:
    elo = choices["elo"]
    beside = ("by_rater", "mle", "davidson", "posterior")
    rows: list[list[str]] = []
    for name, _ in ranked(elo["gamma"]):
        found = [elo[method]["systems"][name] for method in beside]
        by_rater, *others = [elo_interval(row) for row in found]
        shown = [f"{elo_score(row)} {interval}" for row, interval in zip(found[1:], others, strict=True)]
        rows.append([name, by_rater, *shown])
    notes = [
        "By rater: for these scripts only. Davidson (1970): a tie is an answer of its own, not half a win each. "
        "Posterior: under the prior, by Gibbs sampling, votes as independent.",
    ]
    notes += [f"{label}: {elo[m]['reason']}." for m, label in _LABELS.items() if elo[m]["reason"]]
    columns = ["System", "by rater", "maximum likelihood", "Davidson", "posterior"]
    return Table("Elo: other intervals and models", columns, rows, notes)


_LABELS = {"by_rater": "By rater", "mle": "Maximum likelihood", "davidson": "Davidson"}
