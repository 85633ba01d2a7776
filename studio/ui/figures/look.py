"""The common look of figures. The page's style recolours lines and text for light and dark."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

ACCENT = "#0b6bcb"
ROW_PX = 30
_LONGEST = 22
_FONT = {
    "family": "Segoe UI, Inter, Roboto, Helvetica Neue, Arial, Liberation Sans, sans-serif",
    "size": 13,
    "color": "#5a6672",
}


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
    """A figure with the common look: transparent, without legend and dragging, with narrow margins."""
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


def whiskers(names: list[str], rows: list[dict[str, Any]], digits: int) -> go.Scatter:
    """Points with intervals, a row for each name; rows have value, low and high (or None)."""
    low = [None if r["low"] is None else r["value"] - r["low"] for r in rows]
    high = [None if r["high"] is None else r["high"] - r["value"] for r in rows]
    return go.Scatter(
        x=[r["value"] for r in rows],
        y=[plain(n) for n in names],
        mode="markers",
        marker={"size": 10, "color": ACCENT},
        error_x={"type": "data", "array": high, "arrayminus": low, "color": ACCENT, "thickness": 2, "width": 5},
        customdata=[[r["low"], r["high"]] for r in rows],
        hovertemplate=f"%{{y}}: %{{x:.{digits}f}} (%{{customdata[0]:.{digits}f}} to %{{customdata[1]:.{digits}f}})"
        "<extra></extra>",
    )
