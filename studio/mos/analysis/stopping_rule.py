"""The stopping rule: what it asks for, and whether tables of results meet it. Pure functions.

A width says nothing about who is ahead, so it is looked at as it is. "Every pair is decided" is a test at every look:
its p values are corrected for all pairs (Holm 1979), and how small they have to be follows from how the error is spent
over the looks (``sequential.levels``), so that a test may be watched and finds no differences that are not there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from studio.mos.campaign.config import StopRule
from studio.mos.stats.sequential import levels

ALPHA = 0.05
PM = "\N{PLUS-MINUS SIGN}"
Tables = Mapping[str, Any]


def widths(tables: Tables) -> list[tuple[str, float | None]]:
    """The half width of the default 95% interval of every system (of every pair where pairs are judged)."""
    return [(name, _half(interval)) for name, interval in estimates(tables)]


def p_values(tables: Tables) -> list[tuple[str, float | None]]:
    """Of every pair of systems, corrected for all pairs of its table; None where the data cannot say."""
    found: list[tuple[str, float | None]] = []
    for question, table in tables.get("questions", {}).items():
        found += [(_pair(d, question), d["p_holm"]) for d in table.get("differences", [])]
    for question, table in tables.get("comparisons", {}).items():
        found += [(_pair(d, question), d["p_holm"]) for d in table.get("pairs", [])]
    found += [(_pair(d), d["p_holm"]) for d in tables.get("identity", {}).get("pairs", [])]
    return found + [(_pair(d), d["p_holm"]) for d in tables.get("choices", {}).get("pairs", {}).get("two_way", [])]


def estimates(tables: Tables) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mean, CMOS and share of the tables by its name, with the default interval."""
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
    """The p value at or under which a pair is decided at the look at so many raters."""
    return levels(rule.looks, ALPHA, rule.spending)[rule.looks.index(raters)]


def met(rule: StopRule, tables: Tables, raters: int) -> tuple[bool, str]:
    """Whether the rule is met at the look at so many raters, and the sentence that says why or why not."""
    said: list[str] = []
    if rule.half_width is not None:
        rows = widths(tables)
        half, name = max(((np.inf if half is None else half, name) for name, half in rows), default=(np.inf, "nothing"))
        shown = f"widest {PM}{half:.3g} ({name})" if np.isfinite(half) else f"no interval yet of {name}"
        said.append(f"every 95% interval at most {PM}{rule.half_width:g}: {shown}")
        if half <= rule.half_width:
            return True, said[-1]
    if rule.decided:
        pairs, alpha = p_values(tables), level_at(rule, raters)
        still = [name for name, p in pairs if p is None or p > alpha]
        shown = f"{len(pairs) - len(still)} of {len(pairs)}" + (f", not {still[0]}" if still else "")
        said.append(
            f"every pair decided at p {alpha:.2g} (look at {raters} of {rule.looks[-1]}, Holm over pairs): {shown}"
        )
        if pairs and not still:
            return True, said[-1]
    return False, "; ".join(said)


def _half(interval: Mapping[str, Any]) -> float | None:
    low, high = interval["low"], interval["high"]
    return None if low is None or high is None or high <= low else (high - low) / 2


def _pair(pair: Mapping[str, Any], question: str = "") -> str:
    return f"{pair['a']} against {pair['b']}" + (f", {question}" if question else "")
