"""Tables of tests that compare a sound with another on the same screen: CMOS, ABX, and MUSHRA's hidden reference."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
    NONE,
    PM,
    TWO_WAY,
    Table,
    between,
    between_percent,
    digits_of,
    few_raters,
    median_and_quartiles,
    number,
    p_value,
    percent,
    with_interval,
)


def comparison_tables(comparisons: Mapping[str, Any]) -> list[Table]:
    """CMOS of every pair, a table for each question that has answers."""
    return [_comparison(name, table) for name, table in comparisons.items() if table["n"]]


def pair_intervals(question: str, table: Mapping[str, Any]) -> Table:
    """The intervals of every pair side by side, and how often each score was given."""
    scores = sorted({int(s) for p in table["pairs"] for s in p["scores"]}, reverse=True)
    rows = [
        [
            f"{p['a']} against {p['b']}",
            *(between(p["cmos"][m]["low"], p["cmos"][m]["high"], 2) for m in ("two_way", "by_rater", "plain")),
            *(str({int(k): n for k, n in p["scores"].items()}.get(s, 0)) for s in scores),
        ]
        for p in table["pairs"]
    ]
    columns = ["Pair", "by rater and script", "by rater", "plain", *(number(s, 0) for s in scores)]
    note = (
        "Plain, as papers print it, takes every answer as independent and may leave the scale. Then how often each "
        "score was given, signs corrected."
    )
    return Table(f"{question}: intervals side by side", columns, rows, [note])


def identity_tables(identity: Mapping[str, Any]) -> list[Table]:
    """How often X was found, by pair, and in all where there are several; none without answers."""
    if not identity["n"]:
        return []
    rows = [_identity(f"{p['a']} against {p['b']}", p) for p in identity["pairs"]]
    if len(rows) > 1:
        rows.append([*_identity("all pairs", identity["all"])[:-1], NONE])
    columns = ["Pair", "X found", "answers", "share", "95% interval", "by rater", "exact", "p", "p, Holm"]
    note = "p: exact binomial, one-sided, against guessing; like the exact interval it takes answers as independent."
    few = few_raters(p["share"]["two_way"] for p in identity["pairs"])
    return [Table("ABX: share of X found", columns, rows, [note, TWO_WAY, *few])]


def screened_table(results: Mapping[str, Any]) -> Table:
    """MUSHRA: means after the post-screening and those of everybody."""
    question, screen = results["questions"][0], results["tables"]["post_screen"]
    table = results["tables"]["questions"][question["id"]]
    after, quartiles = table.get("systems", {}).get("two_way", {}), table.get("quartiles", {})
    digits = digits_of(question)
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
    note = f"Post-screening: {post_screening(screen)}; the last two columns are of everybody."
    columns = [
        "System",
        f"mean {PM} 95% interval",
        "ratings",
        "median [quartiles]",
        "everybody",
        "ratings of everybody",
    ]
    caption = f"MUSHRA: {question['id']} ({question['low']}-{question['high']})"
    return Table(caption, columns, rows, [note, TWO_WAY, *few_raters(after.values())])


def post_screening(screen: Mapping[str, Any]) -> str:
    """Who is left out by the post-screening, and why, in words."""
    limit, share = f"{screen['limit']:g}", percent(screen["share"])
    low = f"{screen['by_reference']} who put the hidden reference below {limit}"
    anchor, unharmed = screen["mid_anchor"], screen["unharmed"]
    high = f" and {screen['by_anchor']} who put the mid anchor ({anchor}) above it" if anchor else ""
    known = "" if anchor else "; which anchor is the mid one is not known"
    passed = f"; {unharmed} scripts whose mid anchor hardly anybody found impaired are not counted" if unharmed else ""
    out = f"{screen['dropped']} of {screen['raters']} raters are left out"
    return f"{out}, {low}{high}, on more than {share} of their pages (BS.1534-3){known}{passed}"


def _comparison(question: str, table: Mapping[str, Any]) -> Table:
    rows: list[list[str]] = []
    for p in table["pairs"]:
        found, n = p["cmos"]["two_way"], p["cmos"]["two_way"]["n"]
        shares = [percent(p[what] / n) for what in ("better", "same", "worse")]
        cmos = with_interval(found, 2)
        rows.append([p["a"], p["b"], cmos, *shares, p_value(p["p"]), p_value(p["p_holm"]), str(n)])
    columns = ["A", "B", f"CMOS {PM} 95% interval", "A better", "alike", "A worse", "p", "p, Holm", "answers"]
    order = table["order"]
    notes = [
        "Above nought A is better; signs are corrected for the order of play. p against nought; Holm: corrected for "
        "all pairs.",
        f"Second sound against first, as given: {with_interval(order, 2)}.",
        TWO_WAY,
        *few_raters(p["cmos"]["two_way"] for p in table["pairs"]),
    ]
    return Table(f"Comparison MOS: {question}", columns, rows, notes)


def _identity(name: str, found: Mapping[str, Any]) -> list[str]:
    share = found["share"]
    return [
        name,
        str(found["right"]),
        str(found["n"]),
        percent(share["two_way"]["mean"]),
        *(between_percent(share[method]) for method in ("two_way", "by_rater", "exact")),
        p_value(found["p"]),
        p_value(found["p_holm"]),
    ]


def _mean(interval: Mapping[str, Any] | None, digits: int) -> list[str]:
    if interval is None:
        return [NONE, "0"]
    return [with_interval(interval, digits), str(interval["n"])]
