"""Figures of pairs: CMOS, and the share of correct answers of ABX."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from studio.ui.figures.look import ROW_PX, plain, styled, whiskers


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
    return _draw([n for n, _ in rows], [p["cmos"]["two_way"] for _, p in rows], 1.0, (-reach, reach), 0.0)


def identified(results: Mapping[str, Any]) -> go.Figure | None:
    """Percent correct of every pair with intervals by rater and script; chance is 50; None without answers."""
    pairs = results["tables"].get("identity", {}).get("pairs", [])
    if not pairs:
        return None
    names = [f"{plain(p['a'], 16)} : {plain(p['b'], 16)}" for p in pairs]
    return _draw(names, [p["share"]["two_way"] for p in pairs], 100.0, (0, 102), 50.0)


def _draw(
    names: list[str], estimates: list[Mapping[str, Any]], scale: float, ends: tuple[float, float], middle: float
) -> go.Figure:
    rows = [
        {k: None if i[of] is None else scale * i[of] for k, of in (("value", "mean"), ("low", "low"), ("high", "high"))}
        for i in estimates
    ]
    points = whiskers(names, rows, 2).update(y=names)  # already escaped, and may be longer than one name
    figure = styled(go.Figure(points), 60 + ROW_PX * len(rows))
    figure.add_vline(x=middle, line={"color": "#76818c", "width": 1})
    figure.update_xaxes(range=list(ends))
    figure.update_yaxes(autorange="reversed")
    return figure
