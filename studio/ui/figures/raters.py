"""The figure of raters: how many reached each stage."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from studio.mos.report.raters import STAGE_LABELS
from studio.ui.figures.look import ACCENT, ROW_PX, styled


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
    figure.update_xaxes(rangemode="tozero", tickformat="d", nticks=5)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure
