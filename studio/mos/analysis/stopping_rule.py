"""Stopping rule of a campaign and its evaluation on tables of results. Pure functions.

A half-width carries no information about which system is ahead, so it is used as it is. "Every pair is decided" is a
test at every look: p values are corrected for all pairs (Holm 1979), and the nominal level follows from error spending
over the looks (``sequential.nominal_levels``), which keeps the overall error.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from studio.mos.campaign.config import StopRule
from studio.mos.stats.sequential import nominal_levels

ALPHA = 0.05
PM = "\N{PLUS-MINUS SIGN}"
Tables = Mapping[str, Any]


def widths(tables: Tables) -> list[tuple[str, float | None]]:
    """Half-width of the default 95% interval of every system (of every pair in paired tests)."""
    return [(name, _half(interval)) for name, interval in estimates(tables)]


def p_values(tables: Tables) -> list[tuple[str, float | None]]:
    """p value of every pair of systems, corrected for all pairs of its table; None if not estimable."""
    result: list[tuple[str, float | None]] = []
    for question, table in tables.get("questions", {}).items():
        result += [(_pair(d, question), d["p_holm"]) for d in table.get("differences", [])]
    for question, table in tables.get("comparisons", {}).items():
        result += [(_pair(d, question), d["p_holm"]) for d in table.get("pairs", [])]
    result += [(_pair(d), d["p_holm"]) for d in tables.get("identity", {}).get("pairs", [])]
    return result + [(_pair(d), d["p_holm"]) for d in tables.get("choices", {}).get("pairs", {}).get("two_way", [])]


def estimates(tables: Tables) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mean, CMOS and share of the tables by name, with the default interval."""
    for question, table in tables.get("questions", {}).items():
        for name, interval in table.get("systems", {}).get("two_way", {}).items():
            yield f"{name}, {question}", interval
    for question, table in tables.get("comparisons", {}).items():
        for pair in table.get("pairs", []):
            yield _pair(pair, question), pair["cmos"]["two_way"]
    for pair in tables.get("choices", {}).get("pairs", {}).get("two_way", []):
        yield _pair(pair), pair["share"]
    for pair in tables.get("identity", {}).get("pairs", []):
        yield _pair(pair), pair["share"]["two_way"]


def level_at(rule: StopRule, raters: int) -> float:
    """Nominal level at the look at this number of raters."""
    return nominal_levels(rule.looks, ALPHA, rule.spending)[rule.looks.index(raters)]


def evaluate_rule(rule: StopRule, tables: Tables, raters: int) -> tuple[bool, str]:
    """Whether the rule is met at the look at this number of raters, and a sentence with the reason."""
    reasons: list[str] = []
    if rule.half_width is not None:
        rows = widths(tables)
        half, name = max(((np.inf if half is None else half, name) for name, half in rows), default=(np.inf, "nothing"))
        shown = f"widest {PM}{half:.3g} ({name})" if np.isfinite(half) else f"no interval yet of {name}"
        reasons.append(f"every 95% interval at most {PM}{rule.half_width:g}: {shown}")
        if half <= rule.half_width:
            return True, reasons[-1]
    if rule.decided:
        pairs, alpha = p_values(tables), level_at(rule, raters)
        undecided = [name for name, p in pairs if p is None or p > alpha]
        shown = f"{len(pairs) - len(undecided)} of {len(pairs)}" + (f", not {undecided[0]}" if undecided else "")
        reasons.append(
            f"every pair decided at p {alpha:.2g} (look at {raters} of {rule.looks[-1]}, Holm over pairs): {shown}"
        )
        if pairs and not undecided:
            return True, reasons[-1]
    return False, "; ".join(reasons)


def _half(interval: Mapping[str, Any]) -> float | None:
    low, high = interval["low"], interval["high"]
    return None if low is None or high is None or high <= low else (high - low) / 2


def _pair(pair: Mapping[str, Any], question: str = "") -> str:
    return f"{pair['a']} against {pair['b']}" + (f", {question}" if question else "")
