"""Figures of votes (shares of each pair, the Elo ladder, pairwise confidence) and of answers against latency."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studio.core.plurals import counted
from studio.mos.report.cells import confidence, p_value, scaled
from studio.mos.report.charts import ScatterPoint, padded_range_ms
from studio.mos.report.models import bins_by_latency, elo_by_latency, latency_results, mean_by_latency
from studio.mos.report.pairs import elo_interval, ranked
from studio.ui.score_figures import ACCENT, ROW_PX, inward_positions, plain, styled, whiskers, wrapped

_PARTS = (
    ("wins_a", "the first", ACCENT),
    ("ties", "no difference", "#a9b1b9"),
    ("both_bad", "both bad", "#76818c"),
    ("wins_b", "the second", "#c2650a"),
)
_BAR, _BELOW, _PAIR_PX = (0.36, 0.32, 58)  # bar height and offset of the share in rows; pixels per pair
_MAX_PAIRS = 45  # of ten systems; for more, the matrix is the figure
_PANEL_PX = 260
_LATENCY = "latency, ms"


def preferences(results: Mapping[str, Any]) -> go.Figure | None:
    """Votes of each pair as stacked bars, with the share of the first, its interval and p-value.

    None without votes or with more than ``_MAX_PAIRS`` pairs. A tie is half a win for each.
    """
    choices = results["tables"].get("choices", {"n": 0})
    if not choices["n"] or len(choices["pairs"]["two_way"]) > _MAX_PAIRS:
        return None
    pairs = choices["pairs"]["two_way"]
    rows = list(range(len(pairs)))
    names = [f"{plain(p['a'])} : {plain(p['b'])}, p {p_value(p['p_holm'])}" for p in pairs]
    parts = [part for part in _PARTS if part[0] in ("wins_a", "wins_b") or any(p[part[0]] for p in pairs)]
    bars = [
        go.Bar(
            x=[100 * p[part] / p["share"]["n"] for p in pairs],
            y=rows,
            width=_BAR,
            orientation="h",
            name=what,
            marker={"color": colour},
            customdata=[[name, counted(p[part], "vote")] for name, p in zip(names, pairs, strict=True)],
            hovertemplate="%{customdata[0]}, " + what + ": %{x:.1f}% (%{customdata[1]})<extra></extra>",
        )
        for part, what, colour in parts
    ]
    points = whiskers(names, [scaled(p["share"], 100) for p in pairs], 1)
    points.update(marker={"size": 9, "symbol": "diamond"}, name="share, 95%")
    points.update(y=[row + _BELOW for row in rows], text=names)
    points.update(hovertemplate=str(points.hovertemplate).replace("%{y}", "%{text}"))
    figure = styled(go.Figure([*bars, points]), 112 + _PAIR_PX * len(pairs), barmode="stack", margin={"l": 14, "t": 60})
    at_left = {"xref": "paper", "x": 0, "xanchor": "left", "align": "left", "showarrow": False}
    for row, name in zip(rows, names, strict=True):  # above the bar, so that the bar has the whole width of a phone
        line = {"color": "#76818c", "width": 1, "dash": "dash"}
        figure.add_shape(type="line", x0=50, x1=50, y0=row - _BAR / 2, y1=row + _BELOW + 0.12, line=line)
        figure.add_annotation(text=name, y=row - _BAR / 2, yanchor="bottom", borderpad=0, **at_left)
    figure.add_annotation(text=_legend(parts), yref="paper", y=1, yshift=56, yanchor="top", font_size=12, **at_left)
    figure.update_xaxes(range=[0, 100], ticksuffix="%", dtick=25, tickangle=0)
    figure.update_yaxes(range=[len(pairs) - 0.4, -0.6], showticklabels=False, showgrid=False)
    return figure


def _legend(parts: Sequence[tuple[str, str, str]]) -> str:
    """The legend on two lines; plotly's own takes a third of a phone's width."""
    bars = "  ".join(f'<span style="color:{colour}">\N{BLACK SQUARE}</span> {what}' for _, what, colour in parts)
    return f"{bars}<br>\N{BLACK DIAMOND} share of the first, 95%"


def ladder(results: Mapping[str, Any]) -> go.Figure | None:
    """Elo with 95% intervals, the best on top; None without votes.

    A system without a finite strength is drawn at its bound, labelled, as an arrow.
    """
    choices = results["tables"].get("choices", {"n": 0})
    if not choices["n"]:
        return None
    rows = [(name, row) for name, row in ranked(choices["elo"]["gamma"]) if row["elo"] is not None]
    bound = {"undefeated": "lo", "winless": "hi"}
    marks = [{"mean": r[bound.get(r["state"], "elo")], "low": r["lo"], "high": r["hi"]} for _, r in rows]
    arrow = {"undefeated": "triangle-right", "winless": "triangle-left"}
    points = whiskers([n for n, _ in rows], marks, 0)
    points.update(marker_symbol=[arrow.get(r["state"], "circle") for _, r in rows])
    points.update(text=[elo_interval(r) for _, r in rows], hovertemplate="%{y}: %{x:.0f}, %{text}<extra></extra>")
    points.update(
        mode="markers+text", texttemplate=["\N{EN SPACE}%{text}\N{EN SPACE}" if r["state"] else " " for _, r in rows]
    )
    points.update(textposition=inward_positions([m["mean"] for m in marks]), cliponaxis=False)
    figure = styled(go.Figure(points), 60 + ROW_PX * len(rows))
    figure.update_yaxes(autorange="reversed")
    return figure


def better(results: Mapping[str, Any]) -> go.Figure | None:
    """P(row better than column), systems in ladder order; None without votes."""
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
        text=[["" if p is None else confidence(p) for p in row] for row in cells],
        texttemplate="%{text}" if few else None,
        hovertemplate="%{y} is better than %{x}: %{z:.1%}<extra></extra>",
        hoverongaps=False,
    )
    figure = styled(go.Figure(heat), 90 + max(24, 44 - len(order)) * len(order))
    figure.update_xaxes(side="top", showgrid=False, tickangle=0 if len(order) <= 4 else -60)
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    return figure


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
