"""What every table of a report is made of: cells as plain text, so that each format escapes in its own way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from studio.mos.stats.interval import few

PM = "\N{PLUS-MINUS SIGN}"
NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Table:
    """A table: a caption, the names of its columns, its rows, and what a reader has to know about the numbers."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list[str])


def half_width(interval: Mapping[str, Any]) -> float | None:
    """Half of high - low of an interval as JSON."""
    low, high = interval["low"], interval["high"]
    return None if low is None or high is None else (high - low) / 2


def digits_of(question: Mapping[str, Any]) -> int:
    """Decimals worth printing on a question's scale."""
    return 2 if question["high"] - question["low"] <= 10 else 1


def number(value: float | None, digits: int) -> str:
    """A number with a real minus sign, or a dash where there is none."""
    return NONE if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def plus_minus(mean: float | None, half: float | None, digits: int) -> str:
    """``3.8 +- 0.1``; without a half width the mean alone."""
    shown = number(mean, digits)
    return shown if half is None else f"{shown} {PM} {half:.{digits}f}"


def with_interval(interval: Mapping[str, Any], digits: int) -> str:
    """``3.8 +- 0.1``, or ``4.9 [4.6, 5.0]`` where the two ends are not as far from the mean: near the scale's end."""
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    if low is None or high is None or abs((high - mean) - (mean - low)) < 1e-9:
        return plus_minus(mean, half_width(interval), digits)
    return f"{number(mean, digits)} {between(low, high, digits)}"


def median_and_quartiles(found: Mapping[str, Any] | None, digits: int) -> str:
    """``70 [62, 81]``, or a dash."""
    return (
        NONE if found is None else f"{number(found['median'], digits)} {between(found['low'], found['high'], digits)}"
    )


def between(low: float | None, high: float | None, digits: int) -> str:
    """``[low, high]``, or a dash."""
    return NONE if low is None or high is None else f"[{number(low, digits)}, {number(high, digits)}]"


def answers_said(counts: Mapping[str, Any]) -> str:
    """How many answers there are, of how many that are wanted: ``12 of 40``; an arena wants no number."""
    return f"{counts['answers']} of {counts['wanted']}" if counts["wanted"] else str(counts["answers"])


def percent(share: float | None) -> str:
    """A share in percent, or a dash."""
    return NONE if share is None else f"{100 * share:.1f}%"


def confidence(share: float | None) -> str:
    """A probability in whole percent, which is never certain: not 0% or 100% by rounding."""
    if share is None:
        return NONE
    return "< 1%" if share < 0.01 else "> 99%" if share > 0.99 else f"{100 * share:.0f}%"


def between_percent(share: Mapping[str, Any]) -> str:
    """A share's interval in percent."""
    low, high = share["low"], share["high"]
    return NONE if low is None or high is None else f"[{100 * low:.1f}%, {100 * high:.1f}%]"


def p_value(p: float | None) -> str:
    """A p value as papers print it."""
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


TWO_WAY = (
    "95% interval clustered by rater and script, t with min(G) - 1 degrees of freedom: a plain interval takes every "
    "answer as independent and is far too narrow when raters and scripts cross. Near an end of the scale it takes "
    "Wilson's form, and both ends are printed."
)


def few_raters(intervals: Iterable[Mapping[str, Any]]) -> list[str]:
    """What has to be said beside intervals of few raters or scripts; nothing where there are enough of both."""
    counts = [(i["raters"], i["items"]) for i in intervals]
    raters = min((r for r, _ in counts if r is not None), default=None)
    items = min((n for _, n in counts if n is not None), default=None)
    said = few(raters, items)
    return [] if said is None else [f"{said}."]
