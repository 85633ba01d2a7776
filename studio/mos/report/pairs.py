"""Tables of paired tests: preferences, Elo, CMOS, ABX; and MUSHRA with its post-screening."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    PM,
    TWO_WAY,
    ReportTable,
    decimals_for,
    interval_text,
    median_and_quartiles,
    number,
    p_value,
    percent,
    percent_interval,
    small_sample_notes,
    with_interval,
)

_MANY_PAIRS = 45  # ten systems; with more, differences move to the further tables


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
        share_text = f"{percent(share['mean'])} {percent_interval(share)}"
        shares = [percent(c / votes) for c in counts]
        rows.append(
            [pair["a"], pair["b"], *shares, share_text, p_value(pair["p"]), p_value(pair["p_holm"]), str(votes)]
        )
    columns = ["A", "B", "A preferred", "no difference", "both bad", "B preferred", "share of A, 95% interval"]
    note = "The share counts ties and 'both bad' as half a win each. p against one half; Holm: corrected for all pairs."
    notes = [note, TWO_WAY, *small_sample_notes(p["share"] for p in pairs)]
    return ReportTable("Preference", [*columns, "p", "p, Holm", "votes"], rows, notes)


def _ladder(choices: Mapping[str, Any]) -> ReportTable:
    gamma, dsm = (choices["elo"][m] for m in ("gamma", "dsm"))
    rows: list[list[str]] = []
    for name, row in ranked(gamma):
        dsm_row = dsm["systems"][name]
        compatible = f"{number(dsm_row['elo'], 0)} {interval_text(dsm_row['lo'], dsm_row['hi'], 0)}"
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
    methods = ("by_rater", "mle", "davidson", "posterior")
    rows: list[list[str]] = []
    for name, _ in ranked(elo["gamma"]):
        rows_of = [elo[method]["systems"][name] for method in methods]
        by_rater, *intervals = [elo_interval(row) for row in rows_of]
        scores = [f"{elo_score(row)} {interval}" for row, interval in zip(rows_of[1:], intervals, strict=True)]
        rows.append([name, by_rater, *scores])
    notes = [
        "By rater: for these scripts only. Davidson (1970): a tie is a separate outcome, not half a win each. "
        "Posterior: under the prior, by Gibbs sampling, votes as independent."
    ]
    notes += [f"{label}: {elo[m]['reason']}." for m, label in _LABELS.items() if elo[m]["reason"]]
    columns = ["System", "by rater", "maximum likelihood", "Davidson", "posterior"]
    return ReportTable("Elo: other intervals and models", columns, rows, notes)


_LABELS = {"by_rater": "By rater", "mle": "Maximum likelihood", "davidson": "Davidson"}


def comparison_tables(comparisons: Mapping[str, Any]) -> list[ReportTable]:
    """CMOS of every pair, one table per question with answers."""
    return [_comparison(name, table) for name, table in comparisons.items() if table["n"]]


def pair_intervals(question: str, table: Mapping[str, Any]) -> ReportTable:
    """All intervals of every pair, and counts of each score."""
    scores = sorted({int(s) for p in table["pairs"] for s in p["scores"]}, reverse=True)
    rows = [
        [
            f"{p['a']} against {p['b']}",
            *(interval_text(p["cmos"][m]["low"], p["cmos"][m]["high"], 2) for m in ("two_way", "by_rater", "plain")),
            *(str({int(k): n for k, n in p["scores"].items()}.get(s, 0)) for s in scores),
        ]
        for p in table["pairs"]
    ]
    columns = ["Pair", "by rater and script", "by rater", "plain", *(number(s, 0) for s in scores)]
    note = (
        "Plain, as printed in papers, treats all answers as independent and may leave the scale. Then counts of each "
        "sign-corrected score."
    )
    return ReportTable(f"{question}: intervals side by side", columns, rows, [note])


def identity_tables(identity: Mapping[str, Any]) -> list[ReportTable]:
    """ABX results by pair, and pooled if there are several pairs; no table without answers."""
    if not identity["n"]:
        return []
    rows = [_identity(f"{p['a']} against {p['b']}", p) for p in identity["pairs"]]
    if len(rows) > 1:
        rows.append([*_identity("all pairs", identity["all"])[:-1], NONE])
    columns = ["Pair", "correct", "answers", "share", "95% interval", "by rater", "exact", "p", "p, Holm"]
    note = "p: exact binomial, one-sided, against guessing; like the exact interval it treats answers as independent."
    few = small_sample_notes(p["share"]["two_way"] for p in identity["pairs"])
    return [ReportTable("ABX: share of correct answers", columns, rows, [note, TWO_WAY, *few])]


def screened_table(results: Mapping[str, Any]) -> ReportTable:
    """MUSHRA means after post-screening and of all raters."""
    question, screen = results["questions"][0], results["tables"]["post_screen"]
    table = results["tables"]["questions"][question["id"]]
    after, quartiles = table.get("systems", {}).get("two_way", {}), table.get("quartiles", {})
    digits = decimals_for(question)
    rows = [
        [
            f"{s['name']} (hidden)" if s["name"] == screen["reference"] else s["name"],
            *_mean(after.get(s["name"]), digits),
            median_and_quartiles(quartiles.get(s["name"]), digits),
            *_mean(screen["everybody"].get(s["name"]), digits),
        ]
        for s in results["systems"]
        if s["name"] in screen["everybody"]
    ]
    note = f"Post-screening: {post_screening(screen)}; the last two columns are of all raters."
    columns = [
        "System",
        f"mean {PM} 95% interval",
        "ratings",
        "median [quartiles]",
        "all raters",
        "ratings of all raters",
    ]
    caption = f"MUSHRA: {question['id']} ({question['low']}-{question['high']})"
    return ReportTable(caption, columns, rows, [note, TWO_WAY, *small_sample_notes(after.values())])


def post_screening(screen: Mapping[str, Any]) -> str:
    """Raters excluded by the post-screening and the reason, as text."""
    limit, share = f"{screen['limit']:g}", percent(screen["share"])
    low = f"{screen['by_reference']} who scored the hidden reference below {limit}"
    anchor, unharmed = screen["mid_anchor"], screen["unharmed"]
    high = f" and {screen['by_anchor']} who scored the mid anchor ({anchor}) above it" if anchor else ""
    known = "" if anchor else "; the mid anchor is unknown"
    passed = (
        f"; the mid anchor of {', '.join(unharmed)} judges no rater, because more than "
        f"{percent(screen['unharmed_share'])} of the raters scored it above {limit}; its scores stay in the table"
        if unharmed
        else ""
    )
    out = f"{screen['dropped']} of {screen['raters']} raters are excluded"
    return f"{out}, {low}{high}, on more than {share} of their pages (BS.1534-3){known}{passed}"


def excluded_table(screen: Mapping[str, Any]) -> ReportTable:
    """Raters that the post-screening excludes; no rows if there are none."""
    rows = [
        [one["rater"], _REASONS[one["reason"]], percent(one["low_share"]), percent(one["high_share"])]
        for one in screen["excluded"]
    ]
    limit = f"{screen['limit']:g}"
    columns = ["Rater", "reason", f"hidden references below {limit}", f"mid anchors above {limit}"]
    note = f"Shares of the rater's pages; more than {percent(screen['share'])} excludes (BS.1534-3)."
    return ReportTable("MUSHRA: raters excluded by the post-screening", columns, rows, [note])


_REASONS = {"reference": "hidden reference", "anchor": "mid anchor", "both": "hidden reference and mid anchor"}


def _comparison(question: str, table: Mapping[str, Any]) -> ReportTable:
    rows: list[list[str]] = []
    for p in table["pairs"]:
        interval, n = p["cmos"]["two_way"], p["cmos"]["two_way"]["n"]
        shares = [percent(p[what] / n) for what in ("better", "same", "worse")]
        cmos = with_interval(interval, 2)
        rows.append([p["a"], p["b"], cmos, *shares, p_value(p["p"]), p_value(p["p_holm"]), str(n)])
    columns = ["A", "B", f"CMOS {PM} 95% interval", "A better", "alike", "A worse", "p", "p, Holm", "answers"]
    order = table["order"]
    notes = [
        "Above zero A is better; signs are corrected for the order. p against zero; Holm: corrected for all pairs.",
        f"Order effect, second stimulus against first: {with_interval(order, 2)}.",
        TWO_WAY,
        *small_sample_notes(p["cmos"]["two_way"] for p in table["pairs"]),
    ]
    return ReportTable(f"Comparison MOS: {question}", columns, rows, notes)


def _identity(name: str, result: Mapping[str, Any]) -> list[str]:
    share = result["share"]
    return [
        name,
        str(result["right"]),
        str(result["n"]),
        percent(share["two_way"]["mean"]),
        *(percent_interval(share[method]) for method in ("two_way", "by_rater", "exact")),
        p_value(result["p"]),
        p_value(result["p_holm"]),
    ]


def _mean(interval: Mapping[str, Any] | None, digits: int) -> list[str]:
    if interval is None:
        return [NONE, "0"]
    return [with_interval(interval, digits), str(interval["n"])]
