"""Report tables as plain text cells, and their LaTeX and Markdown forms, which escape the cells."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from studio.mos.stats.clusters import unequal_note
from studio.mos.stats.interval import small_sample_note

PM = "\N{PLUS-MINUS SIGN}"
NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# The box of a table: on narrow screens it scrolls, by the keyboard as well.
WIDE = '<div class="wide" tabindex="0" role="group" aria-label="Table, scrolls sideways">'


@dataclass(frozen=True)
class ReportTable:
    """Caption, column names, rows, and notes on how to read the numbers."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list[str])


def half_width(interval: Mapping[str, Any]) -> float | None:
    """Half-width of an interval as JSON."""
    low, high = interval["low"], interval["high"]
    return None if low is None or high is None else (high - low) / 2


def scaled(interval: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Mean and ends of an interval times a factor; an end without a value stays None."""
    return {key: None if interval[key] is None else factor * interval[key] for key in ("mean", "low", "high")}


def decimals_for(question: Mapping[str, Any]) -> int:
    """Decimals to print on a question's scale."""
    return 2 if question["high"] - question["low"] <= 10 else 1


def number(value: float | None, digits: int) -> str:
    """Number with a minus sign (not a hyphen), or a dash for None."""
    return NONE if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def plus_minus(mean: float | None, half: float | None, digits: int) -> str:
    """``3.8 +- 0.1``; without a half-width only the mean."""
    mean_text = number(mean, digits)
    return mean_text if half is None else f"{mean_text} {PM} {half:.{digits}f}"


def with_interval(interval: Mapping[str, Any], digits: int) -> str:
    """``3.8 +- 0.1``, or ``4.9 [4.6, 5.0]`` for an asymmetric interval near the end of the scale."""
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    if low is None or high is None or abs((high - mean) - (mean - low)) < 1e-9:
        return plus_minus(mean, half_width(interval), digits)
    return f"{number(mean, digits)} {interval_text(low, high, digits)}"


def median_and_quartiles(quartiles: Mapping[str, Any] | None, digits: int) -> str:
    """``70 [62, 81]``, or a dash."""
    return (
        NONE
        if quartiles is None
        else f"{number(quartiles['median'], digits)} {interval_text(quartiles['low'], quartiles['high'], digits)}"
    )


def interval_text(low: float | None, high: float | None, digits: int) -> str:
    """``[low, high]``, or a dash."""
    return NONE if low is None or high is None else f"[{number(low, digits)}, {number(high, digits)}]"


def answer_count(counts: Mapping[str, Any]) -> str:
    """Counted answers of the required number (none in an arena), and the number given if some do not count.

    ``12 of 1,440``, or ``10 of 40 (12 given)``.
    """
    counted, received = counts["counted"], counts["answers"]
    text = f"{counted:,} of {counts['wanted']:,}" if counts["wanted"] else f"{counted:,}"
    return text if counted == received else f"{text} ({received:,} given)"


def percent(share: float | None) -> str:
    """Share in percent, or a dash."""
    return NONE if share is None else f"{100 * share:.1f}%"


def confidence(share: float | None) -> str:
    """Probability in whole percent, never rounded to 0% or 100%."""
    if share is None:
        return NONE
    return "< 1%" if share < 0.01 else "> 99%" if share > 0.99 else f"{100 * share:.0f}%"


def percent_interval(share: Mapping[str, Any]) -> str:
    """Interval of a share in percent."""
    low, high = share["low"], share["high"]
    return NONE if low is None or high is None else f"[{100 * low:.1f}%, {100 * high:.1f}%]"


def p_value(p: float | None) -> str:
    """p value as printed in papers."""
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


TWO_WAY = (
    "95% interval clustered by rater and script, t by effective numbers of both: a plain interval treats all "
    "answers as independent and is far too narrow for crossed raters and scripts. Near an end of the scale Wilson's "
    "form is used, and both bounds are printed."
)


def small_sample_notes(intervals: Iterable[Mapping[str, Any]]) -> list[str]:
    """Warnings for intervals of few raters or scripts, or with over a fifth of the answers by or on one."""
    listed = list(intervals)
    raters = min((i["raters"] for i in listed if i["raters"] is not None), default=None)
    items = min((i["items"] for i in listed if i["items"] is not None), default=None)
    unequal = (unequal_note(i["raters"], i.get("rater_share"), i["items"], i.get("item_share")) for i in listed)
    notes = [small_sample_note(raters, items), next((note for note in unequal if note is not None), None)]
    return [f"{note}." for note in notes if note is not None]


def rated_questions(results: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Questions on single stimuli, each with its tables."""
    tables = results["tables"].get("questions", {})
    return [(q, tables[q["id"]]) for q in results["questions"] if q["id"] in tables]


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{EN DASH}": "--",
    "\N{MINUS SIGN}": "$-$",
    "\n": " ",
    "\r": " ",
}


def latex_text(text: str) -> str:
    """Text escaped for LaTeX."""
    return "".join(_LATEX.get(c, c) for c in text)


def markdown_text(text: str) -> str:
    """Text escaped for Markdown and the HTML generated from it."""
    plain = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", plain)


def latex_table(table: ReportTable) -> str:
    body = [" & ".join(latex_text(c) for c in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(table.caption)}. {latex_text(' '.join(table.notes))}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(table.columns) - 1)}}}",
            r"\hline",
            " & ".join(latex_text(c) for c in table.columns) + r" \\",
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def markdown_table(table: ReportTable) -> str:
    rows = [table.columns, ["---", *(["---:"] * (len(table.columns) - 1))], *table.rows]
    cells = [[c if k == 1 else markdown_text(c) for c in row] for k, row in enumerate(rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(
        [f"## {markdown_text(table.caption)}", "", *lines, *(f"\n{markdown_text(note)}" for note in table.notes)]
    )


def one_line(text: str) -> str:
    return " ".join(text.split())
