"""Figures of scores: means with their intervals, and how often each score was given."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studio.mos.report.charts import binned
from studio.mos.report.tables import asked as all_asked
from studio.ui.figures.look import ACCENT, ROW_PX, dressed, plain, whiskers

_TITLE_PX, _AXIS_PX, _BARS_PX = 34, 36, 150
_GAP_PX = 58.0  # between two panels: the numbers below the one, the title above the other
_HEAD = 1.12  # of the tallest bar: it ends below its title


def intervals(results: Mapping[str, Any]) -> go.Figure | None:
    """Means and 95% intervals by rater and script, a panel for each question; None without scores."""
    asked = _asked(results)
    if not asked:
        return None
    names = [_rated(results, table) for _, table in asked]
    panel_px = [_AXIS_PX + _TITLE_PX + ROW_PX * len(n) for n in names]
    figure = make_subplots(
        rows=len(asked),
        cols=1,
        subplot_titles=[plain(q["prompt"] or q["id"], 60) for q, _ in asked],
        row_heights=[ROW_PX * len(n) for n in names],
        vertical_spacing=min(0.5, (_AXIS_PX + _TITLE_PX) / sum(panel_px)) if len(asked) > 1 else 0,
    )
    for k, ((question, table), systems) in enumerate(zip(asked, names, strict=True), start=1):
        found = table["systems"]["two_way"]
        rows = [{"value": found[n]["mean"], "low": found[n]["low"], "high": found[n]["high"]} for n in systems]
        figure.add_trace(whiskers(systems, rows, 2), row=k, col=1)
        edge = 0.03 * (question["high"] - question["low"])
        figure.update_xaxes(range=[question["low"] - edge, question["high"] + edge], row=k, col=1)
        figure.update_yaxes(autorange="reversed", row=k, col=1)
    figure.update_annotations(font_size=14)
    return dressed(figure, sum(panel_px) + 16, margin={"t": _TITLE_PX})


def histograms(results: Mapping[str, Any]) -> go.Figure | None:
    """How often each score was given, a panel for each system and question; None without scores."""
    asked = _asked(results)
    if not asked:
        return None
    panels = [(q, t, name) for q, t in asked for name in _rated(results, t)]
    cols = 2 if len(panels) > 2 else 1
    rows = -(-len(panels) // cols)
    figure = make_subplots(
        rows=rows,
        cols=cols,
        subplot_titles=[plain(f"{name}, {q['id']}" if len(asked) > 1 else name, 30) for q, _, name in panels],
        vertical_spacing=_GAP_PX / (_BARS_PX * rows - _AXIS_PX) if rows > 1 else 0,
        horizontal_spacing=0.1,
    )
    for k, (question, table, name) in enumerate(panels):
        row, column = divmod(k, cols)
        bins = binned(table["histogram"][name], question["low"])
        bars = go.Bar(x=[b for b, _ in bins], y=[n for _, n in bins], marker={"color": ACCENT})
        figure.add_trace(bars.update(hovertemplate="%{x}: %{y}<extra></extra>"), row=row + 1, col=column + 1)
    figure.update_xaxes(type="category", showgrid=False)
    for k, (_, table, name) in enumerate(panels):
        most = max((n for _, n in binned(table["histogram"][name], 0)), default=0) or 1
        figure.update_yaxes(range=[0, _HEAD * most], row=k // cols + 1, col=k % cols + 1)
    figure.update_yaxes(nticks=4)
    figure.update_annotations(font_size=13)
    return dressed(figure, _BARS_PX * rows + _TITLE_PX, margin={"t": _TITLE_PX}, bargap=0.15)


def _asked(results: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return [(q, t) for q, t in all_asked(results) if t["n"]]


def _rated(results: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    return [s["name"] for s in results["systems"] if s["name"] in table["histogram"]]
