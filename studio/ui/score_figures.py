"""The common style of figures, and figures of scores, of pairs (CMOS, ABX) and of raters by stage.

The page's style recolours lines and text for light and dark.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studio.mos.report.cells import rated_questions, scaled
from studio.mos.report.charts import binned
from studio.mos.report.design import STAGE_LABELS

_TITLE_PX, _AXIS_PX, _BARS_PX = 34, 36, 150
_GAP_PX = 58.0  # between two panels, for tick labels and title
_LINE_PX = 17  # of a title
_ACROSS = 18  # characters of a title above one of two panels on a phone
_MANY_BINS = 8
_HEAD = 1.12  # headroom above the tallest bar
ACCENT = "#0b6bcb"
ROW_PX = 30
_LONGEST = 22
_FONT = {
    "family": "Segoe UI, Inter, Roboto, Helvetica Neue, Arial, Liberation Sans, sans-serif",
    "size": 13,
    "color": "#5a6672",
}


def intervals(results: Mapping[str, Any]) -> go.Figure | None:
    """Means and 95% intervals by rater and script, a panel for each question; None without scores."""
    rated = _questions_with_scores(results)
    if not rated:
        return None
    names = [_rated_systems(results, table) for _, table in rated]
    titles = [wrapped(q["prompt"] or q["id"]) for q, _ in rated]
    title_px = _TITLE_PX + _LINE_PX * max(title.count("<br>") for title in titles)
    panel_px = [_AXIS_PX + title_px + ROW_PX * len(n) for n in names]
    figure = make_subplots(
        rows=len(rated),
        cols=1,
        subplot_titles=titles,
        row_heights=[ROW_PX * len(n) for n in names],
        vertical_spacing=min(0.5, (_AXIS_PX + title_px) / sum(panel_px)) if len(rated) > 1 else 0,
    )
    for k, ((question, table), systems) in enumerate(zip(rated, names, strict=True), start=1):
        estimates = table["systems"]["two_way"]
        figure.add_trace(whiskers(systems, [estimates[n] for n in systems], 2), row=k, col=1)
        edge = 0.03 * (question["high"] - question["low"])
        figure.update_xaxes(range=[question["low"] - edge, question["high"] + edge], row=k, col=1)
        figure.update_yaxes(autorange="reversed", row=k, col=1)
    figure.update_annotations(font_size=14)
    return styled(figure, sum(panel_px) + 16, margin={"t": title_px})


def histograms(results: Mapping[str, Any]) -> go.Figure | None:
    """Histograms of the scores, a panel for each system and question; None without scores."""
    rated = _questions_with_scores(results)
    if not rated:
        return None
    panels = [(q, t, name) for q, t in rated for name in _rated_systems(results, t)]
    cols = 2 if len(panels) > 2 else 1
    rows = -(-len(panels) // cols)
    line_px = _LINE_PX * (len(rated) > 1)  # of the question, below the system's name
    figure = make_subplots(
        rows=rows,
        cols=cols,
        subplot_titles=[
            plain(name, _ACROSS) + (f"<br>{plain(q['id'], _ACROSS)}" if line_px else "") for q, _, name in panels
        ],
        vertical_spacing=(_GAP_PX + line_px) / ((_BARS_PX + line_px) * rows - _AXIS_PX) if rows > 1 else 0,
        horizontal_spacing=0.1,
    )
    most = 0
    for k, (question, table, name) in enumerate(panels):
        row, column = divmod(k, cols)
        bins = binned(table["histogram"][name], question["low"])
        most = max(most, *(n for _, n in bins))
        bars = go.Bar(x=[b for b, _ in bins], y=[n for _, n in bins], marker={"color": ACCENT})
        figure.add_trace(bars.update(hovertemplate="%{x}: %{y}<extra></extra>"), row=row + 1, col=column + 1)
        if len(bins) > _MANY_BINS:  # every other label, its lower bound only: they fit upright on a phone
            labels = [label for label, _ in bins[::2]]
            begins = [label.split("-")[0] for label in labels]
            figure.update_xaxes(tickvals=labels, ticktext=begins, tickfont_size=11, row=row + 1, col=column + 1)
    figure.update_xaxes(type="category", showgrid=False, tickangle=0)
    figure.update_yaxes(range=[0, _HEAD * (most or 1)], **_count_ticks(most, 4))  # one axis, to compare panels
    figure.update_annotations(font_size=13)
    height_px = (_BARS_PX + line_px) * rows + _TITLE_PX
    return styled(figure, height_px, margin={"t": _TITLE_PX + line_px}, bargap=0.15)


def _questions_with_scores(results: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return [(q, t) for q, t in rated_questions(results) if t["n"]]


def _rated_systems(results: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    return [s["name"] for s in results["systems"] if s["name"] in table["histogram"]]


def compared(results: Mapping[str, Any]) -> go.Figure | None:
    """CMOS of every pair and question with 95% intervals, positive where the first is better; or None."""
    questions = {q["id"]: q for q in results["questions"]}
    tables = {name: t for name, t in results["tables"].get("comparisons", {}).items() if t["n"]}
    rows = [
        (f"{plain(p['a'], 16)} : {plain(p['b'], 16)}" + (f", {plain(name, 12)}" if len(tables) > 1 else ""), p)
        for name, table in tables.items()
        for p in table["pairs"]
    ]
    if not rows:
        return None
    reach = 1.05 * max(questions[name]["high"] for name in tables)
    return _pair_rows([n for n, _ in rows], [p["cmos"]["two_way"] for _, p in rows], 1.0, (-reach, reach), 0.0)


def identified(results: Mapping[str, Any]) -> go.Figure | None:
    """Percent correct of every pair with intervals by rater and script; chance is 50; None without answers."""
    pairs = results["tables"].get("identity", {}).get("pairs", [])
    if not pairs:
        return None
    names = [f"{plain(p['a'], 16)} : {plain(p['b'], 16)}" for p in pairs]
    return _pair_rows(names, [p["share"]["two_way"] for p in pairs], 100.0, (0, 102), 50.0)


def margins(results: Mapping[str, Any]) -> go.Figure | None:
    """Differences with 90% intervals as multiples of their margin, between dashed lines at -1 and 1; or None."""
    tests = results["margins"]["tests"]
    rows = [
        (f"{plain(p['a'], 16)} - {plain(p['b'], 16)}" + (f", {plain(t['name'], 12)}" if len(tests) > 1 else ""), t, p)
        for t in tests
        for p in t["pairs"]
    ]
    if not rows:
        return None
    inside = [scaled(p["interval"], 1 / t["margin"]) for _, t, p in rows]
    reach = 1.1 * max([1.0, *(abs(value) for row in inside for value in row.values() if value is not None)])
    figure = _pair_rows([name for name, *_ in rows], inside, 1.0, (-reach, reach), 0.0)
    for edge in (-1.0, 1.0):
        figure.add_vline(x=edge, line={"color": "#b45309", "width": 2, "dash": "dash"})
    names = {f"{t['margin']:g}" for t in tests}
    figure.update_xaxes(title={"text": f"multiples of the margin ({', '.join(sorted(names))})", "font": {"size": 12}})
    return figure.update_layout(height=80 + ROW_PX * len(rows), margin={"b": 52})


def _pair_rows(
    names: list[str], estimates: Sequence[Mapping[str, Any]], scale: float, ends: tuple[float, float], middle: float
) -> go.Figure:
    rows = [scaled(interval, scale) for interval in estimates]
    points = whiskers(names, rows, 2).update(y=names)  # already escaped; may be longer than one name
    figure = styled(go.Figure(points), 60 + ROW_PX * len(rows))
    figure.add_vline(x=middle, line={"color": "#76818c", "width": 1})
    figure.update_xaxes(range=list(ends))
    figure.update_yaxes(autorange="reversed")
    return figure


def funnel(results: Mapping[str, Any]) -> go.Figure | None:
    """Raters by stage, as bars; None without raters."""
    rows = results["funnel"]
    if not results["raters"]:
        return None
    bars = go.Bar(
        x=[r["raters"] for r in rows],
        y=[STAGE_LABELS[r["stage"]] for r in rows],
        orientation="h",
        marker={"color": ACCENT},
        text=[str(r["raters"]) for r in rows],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{x}<extra></extra>",
    )
    figure = styled(go.Figure(bars), 50 + ROW_PX * len(rows), bargap=0.35, margin={"r": 40})
    most = max((r["raters"] for r in rows), default=0)
    figure.update_xaxes(rangemode="tozero", tickformat="d", **_count_ticks(most, 5))
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    return figure


def _count_ticks(most: int, nticks: int) -> dict[str, Any]:
    """Ticks of an axis of counts up to ``most``, at whole numbers only."""
    return {"dtick": 1} if most < nticks else {"nticks": nticks}


def plain(text: str, longest: int = _LONGEST) -> str:
    """A user's text as a label: shortened and escaped, since plotly interprets some HTML."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(text: str, across: int = 34, lines: int = 3) -> str:
    """A user's text as a title, wrapped for a phone."""
    wrapped_lines = wrap(" ".join(text.split()), across) or [""]
    cut = [*wrapped_lines[: lines - 1], " ".join(wrapped_lines[lines - 1 :])]
    return "<br>".join(plain(line, across) for line in cut if line)


def styled(figure: go.Figure, height_px: int, **layout: Any) -> go.Figure:
    """A figure with the common style: transparent, without legend and dragging, with narrow margins."""
    figure.update_layout(
        template="none",
        height=height_px,
        margin={"l": 8, "r": 28, "t": 12, "b": 36} | layout.pop("margin", {}),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font=_FONT,
        showlegend=False,
        dragmode=False,
        **layout,
    )
    figure.update_xaxes(automargin=True, fixedrange=True, zeroline=False, gridcolor="#dfe1de")
    figure.update_yaxes(automargin=True, fixedrange=True, zeroline=False, gridcolor="#dfe1de")
    return figure


def inward_positions(values: Sequence[float | None]) -> list[str]:
    """The text position of each point, so that no text crosses the edge of the figure."""
    known = [v for v in values if v is not None] or [0.0]
    middle = (min(known) + max(known)) / 2
    return ["middle left" if v is not None and v > middle else "middle right" for v in values]


def whiskers(names: list[str], rows: Sequence[Mapping[str, Any]], digits: int) -> go.Scatter:
    """Points with intervals, a row for each name; rows have mean, low and high (or None)."""
    low = [None if r["low"] is None else r["mean"] - r["low"] for r in rows]
    high = [None if r["high"] is None else r["high"] - r["mean"] for r in rows]
    return go.Scatter(
        x=[r["mean"] for r in rows],
        y=[plain(n) for n in names],
        mode="markers",
        marker={"size": 10, "color": ACCENT},
        error_x={"type": "data", "array": high, "arrayminus": low, "color": ACCENT, "thickness": 2, "width": 5},
        customdata=[[r["low"], r["high"]] for r in rows],
        hovertemplate=f"%{{y}}: %{{x:.{digits}f}} (%{{customdata[0]:.{digits}f}} to %{{customdata[1]:.{digits}f}})"
        "<extra></extra>",
    )
