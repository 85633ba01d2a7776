"""Figures of live tests against latency: Elo, scores and votes."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studio.mos.report.charts import ScatterPoint, padded_range_ms
from studio.mos.report.models import bins_by_latency, elo_by_latency, latency_results, mean_by_latency
from studio.ui.figures.look import ACCENT, inward_positions, plain, styled, wrapped

_PANEL_PX = 260
_LATENCY = "latency, ms"


def voices(results: Mapping[str, Any]) -> go.Figure | None:
    """Elo and the mean of every question by the voice's median latency; None for a test that is not live."""
    panels = [("Elo", elo_by_latency(results))]
    panels += [(q["prompt"] or q["id"], mean_by_latency(results, q["id"])) for q in results["questions"]]
    return _draw([(title, spots, _LATENCY, None) for title, spots in panels if spots])


def answers(results: Mapping[str, Any]) -> go.Figure | None:
    """Votes for the faster voice by the difference, and scores by latency; None for a test that is not live."""
    latency = latency_results(results)
    if latency is None:
        return None
    panels: list[tuple[str, list[ScatterPoint], str, float | None]] = []
    if latency["preference"]["n"]:
        spots = bins_by_latency(latency["preference"]["bins"], 100.0)
        panels.append(("Votes for the sooner voice, percent", spots, "sooner by, ms", 50.0))
    prompts = {q["id"]: q["prompt"] or q["id"] for q in results["questions"]}
    for name, table in latency["questions"].items():
        if table["n"]:
            panels.append((prompts[name], bins_by_latency(table["bins"]), _LATENCY, None))
    return _draw(panels)


def _draw(panels: Sequence[tuple[str, list[ScatterPoint], str, float | None]]) -> go.Figure | None:
    if not panels:
        return None
    figure = make_subplots(
        rows=len(panels),
        cols=1,
        subplot_titles=[wrapped(title, lines=2) for title, *_ in panels],
        vertical_spacing=min(0.5, 110 / (_PANEL_PX * len(panels))) if len(panels) > 1 else 0,
    )
    for row, (_, spots, under, even) in enumerate(panels, start=1):
        figure.add_trace(_points(spots), row=row, col=1)
        figure.update_xaxes(range=padded_range_ms([s.x for s in spots]), row=row, col=1)
        figure.update_xaxes(title={"text": under, "standoff": 4, "font": {"size": 13}}, row=row, col=1)
        if even is not None:
            line = {"color": "#76818c", "width": 1}
            figure.add_hline(y=even, line=line, row=row, col=1)  # pyright: ignore[reportArgumentType] (numbers are allowed)
    figure.update_annotations(font_size=14)
    return styled(figure, _PANEL_PX * len(panels) + 40, margin={"t": 52, "b": 50})


def _points(spots: Sequence[ScatterPoint]) -> go.Scatter:
    reach = [(None, None) if s.low is None or s.high is None else (s.high - s.y, s.y - s.low) for s in spots]
    return go.Scatter(
        x=[s.x for s in spots],
        y=[s.y for s in spots],
        mode="markers+text" if any(s.label for s in spots) else "markers",
        text=[plain(s.label, 18) for s in spots],
        texttemplate="\N{EN SPACE}%{text}\N{EN SPACE}",
        textposition=inward_positions([s.x for s in spots]),
        marker={"size": 10, "color": ACCENT},
        error_y={
            "type": "data",
            "array": [up for up, _ in reach],
            "arrayminus": [down for _, down in reach],
            "color": ACCENT,
            "thickness": 2,
            "width": 5,
        },
        customdata=[[s.low, s.high] for s in spots],
        hovertemplate="%{text} %{x:.0f} ms: %{y:.2f} (%{customdata[0]:.2f} to %{customdata[1]:.2f})<extra></extra>",
        cliponaxis=False,
    )
