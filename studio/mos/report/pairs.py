"""Tables of paired tests: CMOS, ABX, and MUSHRA with its post-screening."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
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
    passed = f"; {unharmed} scripts whose mid anchor was not impaired are not counted" if unharmed else ""
    out = f"{screen['dropped']} of {screen['raters']} raters are excluded"
    return f"{out}, {low}{high}, on more than {share} of their pages (BS.1534-3){known}{passed}"


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
