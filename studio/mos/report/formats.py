"""Results as LaTeX and Markdown tables."""

import re
from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import ReportTable, answer_count
from studio.mos.report.models import predicted_tables, second_opinion_tables
from studio.mos.report.page import html as html
from studio.mos.report.tables import detail_tables, paper_tables, stopping_rule_text

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


def latex(results: Mapping[str, Any]) -> str:
    """Tables of the papers, ordinal models and predictions as LaTeX floats without packages."""
    head = [f"% {_one_line(results['name'])}: {results['raters']} raters, {results['answers']} answers"]
    tables = [*paper_tables(results), *second_opinion_tables(results), *predicted_tables(results)]
    return "\n\n".join([*head, *(_latex_table(t) for t in tables)]) + "\n"


def markdown(results: Mapping[str, Any]) -> str:
    """All tables as Markdown."""
    where = (
        f"{results['raters']} raters, {results['finished']} finished; answers {answer_count(results)}; "
        f"{results['left_out']} raters excluded by the gates."
    )
    parts = [f"# {markdown_text(results['title'])}", where]
    parts += [markdown_text(rule)] if (rule := stopping_rule_text(results)) else []
    tables = [*paper_tables(results), *second_opinion_tables(results)]
    parts += [_markdown_table(t) for t in [*tables, *detail_tables(results), *predicted_tables(results)]]
    return "\n\n".join(parts) + "\n"


def latex_text(text: str) -> str:
    """Text escaped for LaTeX."""
    return "".join(_LATEX.get(c, c) for c in text)


def markdown_text(text: str) -> str:
    """Text escaped for Markdown and the HTML generated from it."""
    plain = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", plain)


def _latex_table(table: ReportTable) -> str:
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


def _markdown_table(table: ReportTable) -> str:
    rows = [table.columns, ["---", *(["---:"] * (len(table.columns) - 1))], *table.rows]
    shown = [[c if k == 1 else markdown_text(c) for c in row] for k, row in enumerate(rows)]
    lines = [f"| {' | '.join(row)} |" for row in shown]
    return "\n".join(
        [f"## {markdown_text(table.caption)}", "", *lines, *(f"\n{markdown_text(note)}" for note in table.notes)]
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
