"""Figures of choices: shares of each pair, the Elo ladder, and who is better than whom."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from studio.mos.report.cells import p_value
from studio.mos.report.choices import elo_interval, ranked
from studio.ui.figures.look import ACCENT, ROW_PX, dressed, plain, towards_the_middle, whiskers

_PARTS = (
    ("wins_a", "the first", ACCENT),
    ("ties", "no difference", "#a9b1b9"),
    ("both_bad", "both bad", "#76818c"),
    ("wins_b", "the second", "#c2650a"),
)

_MOST_PAIRS = 45  # of ten systems; of more, the matrix tells


def preferences(results: Mapping[str, Any]) -> go.Figure | None:
    """How the votes of each pair were shared, as stacked bars, with the share of the first, its interval, and its p.

    None without votes, or with too many pairs to see. A tie is half a win each: that share is set against one half.
    """
    choices = results["tables"].get("choices", {"n": 0})
    if not choices["n"] or len(choices["pairs"]["two_way"]) > _MOST_PAIRS:
        return None
    pairs = choices["pairs"]["two_way"]
    names = [f"{plain(p['a'], 16)} : {plain(p['b'], 16)}<br>p {p_value(p['p_holm'])}" for p in pairs]
    bars = [
        go.Bar(
            x=[100 * p[part] / p["share"]["n"] for p in pairs],
            y=names,
            orientation="h",
            name=what,
            marker={"color": colour},
            customdata=[p[part] for p in pairs],
            hovertemplate="%{y}, " + what + ": %{x:.1f}% (%{customdata} votes)<extra></extra>",
        )
        for part, what, colour in _PARTS
        if part in ("wins_a", "wins_b") or any(p[part] for p in pairs)
    ]
    rows = [{"value": 100 * p["share"]["mean"], "low": _percent(p, "low"), "high": _percent(p, "high")} for p in pairs]
    points = whiskers(names, rows, 1).update(y=names, marker={"size": 9, "color": "#16202b", "symbol": "diamond"})
    points.update(name="share, 95%", error_x={"color": "#16202b", "thickness": 2, "width": 5}, showlegend=True)
    height_px = 120 + (ROW_PX + 14) * len(pairs)
    figure = dressed(go.Figure([*bars, points]), height_px, barmode="stack", bargap=0.35)
    figure.add_vline(50, line={"color": "#16202b", "width": 1, "dash": "dash"})
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    figure.update_layout(margin={"t": 64}, legend_traceorder="normal", legend_xref="container")
    figure.update_xaxes(range=[0, 100], ticksuffix="%", dtick=25)
    figure.update_yaxes(autorange="reversed")
    return figure


def _percent(pair: Mapping[str, Any], end: str) -> float | None:
    return None if pair["share"][end] is None else 100 * pair["share"][end]


def ladder(results: Mapping[str, Any]) -> go.Figure | None:
    """Elo with 95% intervals, the best on top; None without votes.

    A system without a finite strength stands at its bound, named, with an arrow to the side where it may go on.
    """
    choices = results["tables"].get("choices", {"n": 0})
    if not choices["n"]:
        return None
    rows = [(name, row) for name, row in ranked(choices["elo"]["gamma"]) if row["elo"] is not None]
    bound = {"undefeated": "lo", "winless": "hi"}
    marks = [{"value": r[bound.get(r["state"], "elo")], "low": r["lo"], "high": r["hi"]} for _, r in rows]
    arrow = {"undefeated": "triangle-right", "winless": "triangle-left"}
    points = whiskers([n for n, _ in rows], marks, 0)
    points.update(marker_symbol=[arrow.get(r["state"], "circle") for _, r in rows])
    points.update(text=[elo_interval(r) for _, r in rows], hovertemplate="%{y}: %{x:.0f}, %{text}<extra></extra>")
    points.update(
        mode="markers+text", texttemplate=["\N{EN SPACE}%{text}\N{EN SPACE}" if r["state"] else " " for _, r in rows]
    )
    points.update(textposition=towards_the_middle([m["value"] for m in marks]), cliponaxis=False)
    figure = dressed(go.Figure(points), 60 + ROW_PX * len(rows))
    figure.update_yaxes(autorange="reversed")
    return figure


def better(results: Mapping[str, Any]) -> go.Figure | None:
    """P(row's score is above column's), systems in the ladder's order; None without votes."""
    choices = results["tables"].get("choices", {"n": 0})
    if not choices["n"]:
        return None
    elo = choices["elo"]["gamma"]
    order = [choices["names"].index(name) for name, _ in ranked(elo)]
    names = [plain(choices["names"][i], 16) for i in order]
    cells = [[None if i == j else elo["p_better"][i][j] for j in order] for i in order]
    few = len(order) <= 14
    heat = go.Heatmap(
        x=names,
        y=names,
        z=cells,
        zmin=0,
        zmax=1,
        colorscale=[[0, "rgba(11,107,203,0)"], [1, "rgba(11,107,203,0.6)"]],
        showscale=False,
        xgap=2,
        ygap=2,
        text=[["" if p is None else f"{100 * p:.0f}%" for p in row] for row in cells],
        texttemplate="%{text}" if few else None,
        hovertemplate="%{y} is better than %{x}: %{z:.1%}<extra></extra>",
        hoverongaps=False,
    )
    figure = dressed(go.Figure(heat), 90 + max(24, 44 - len(order)) * len(order))
    figure.update_xaxes(side="top", showgrid=False, tickangle=0 if len(order) <= 4 else -60)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure
