"""Figures of the results page, from the tables they draw."""

import re
from typing import Any

import pytest

from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.tables import choice_tables
from studio.mos.report.charts import IntervalMark, histogram, padded_range_ms, share_chart
from studio.ui.score_figures import funnel, histograms, wrapped
from studio.ui.vote_figures import preferences


@pytest.fixture(scope="module")
def choices() -> dict[str, Any]:
    """Heron beats teal in three of four votes of twelve raters on eight scripts, with some ties."""
    outcomes = ("a", "a", "a", "b", "a", "tie", "a", "b")
    return choice_tables(
        [
            CountedAnswer(f"r{r}", f"i{i}", ("heron", "teal"), {}, {"preference": outcomes[(r + i) % 8]})
            for r in range(12)
            for i in range(8)
        ],
        seed=1,
    )


def test_preference_shows_interval_p_and_the_half_line(choices: dict[str, Any]) -> None:
    figure = preferences({"tables": {"choices": choices}})
    assert figure is not None
    [pair] = choices["pairs"]["two_way"]
    points = next(t for t in figure.data if t.name == "share, 95%")
    low, high = pair["share"]["low"], pair["share"]["high"]
    assert points.x == pytest.approx([100 * pair["share"]["mean"]])
    assert points.x[0] + points.error_x.array[0] == pytest.approx(100 * high)
    assert points.x[0] - points.error_x.arrayminus[0] == pytest.approx(100 * low)
    named, legend = figure.layout.annotations
    assert (
        named.text == "heron : teal, p < 0.001" and "the first" in legend.text and "share of the first" in legend.text
    )
    [half] = figure.layout.shapes
    assert (half.x0, half.x1, half.line.dash) == (50, 50, "dash")


def test_bars_use_the_full_width(choices: dict[str, Any]) -> None:
    """Names beside the bars and plotly's legend once took half of 1280 pixels."""
    figure = preferences({"tables": {"choices": choices}})
    assert figure is not None
    assert figure.layout.yaxis.showticklabels is False and figure.layout.showlegend is False
    assert figure.layout.xaxis.tickangle == 0
    bar, points = figure.data[0], figure.data[-1]
    assert points.y[0] > bar.y[0] + bar.width / 2, "the share is below its bar, not on its colours"


def test_prompt_is_wrapped_and_a_single_point_has_an_axis() -> None:
    prompt = "How good is the sound quality of each version, compared with the reference that you have heard?"
    lines = wrapped(prompt).split("<br>")
    assert " ".join(lines) == prompt and max(map(len, lines)) <= 34
    assert wrapped("<b>" + "x" * 200).startswith("&lt;b&gt;x") and len(wrapped("word " * 60).split("<br>")) == 3
    low, high = padded_range_ms([393.1])
    assert (low, high) == (pytest.approx(343.1), pytest.approx(443.1))  # the axis went from 393 to 393.2
    assert padded_range_ms([0.0, 10.0])[0] == 0.0


def test_report_draws_the_same() -> None:
    mark = IntervalMark("heron", 0.7, 0.6, 0.8, "70.0% [60.0%, 80.0%], p 0.010")
    drawn = share_chart([("heron", "teal", (7, 0, 0, 3), mark)], "preference")
    for svg in drawn.split("</svg>")[:2]:
        assert svg.count('class="whisker"') == 3 and svg.count('class="point"') == 1
        assert mark.value_text in svg and 'class="half"' in svg


def test_histograms_leave_room_for_titles() -> None:
    """Four systems by two questions at any panel height: room for the title and the axis above it."""
    table = {"n": 10, "histogram": {name: [1, 2, 3, 4, 0] for name in "abcd"}}
    asked = [{"id": q, "prompt": q, "low": 1, "high": 5} for q in ("natural", "coherent")]
    results = {
        "systems": [{"name": name} for name in "abcd"],
        "questions": asked,
        "tables": {"questions": {q["id"]: table for q in asked}},
    }
    figure = histograms(results)
    assert figure is not None
    inside_px = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    tops = sorted({round(axis.domain[1], 6) for axis in figure.select_yaxes()})
    bottoms = sorted({round(axis.domain[0], 6) for axis in figure.select_yaxes()})
    gaps_px = [inside_px * (above - top) for top, above in zip(tops, bottoms[1:], strict=False)]
    assert len(gaps_px) == 3 and min(gaps_px) >= 54, "numbers of the axis above, and a title"
    panels_px = [inside_px * (top - bottom) for top, bottom in zip(tops, bottoms, strict=True)]
    assert min(panels_px) >= 70
    for axis in figure.select_yaxes():
        assert axis.range is not None and axis.range[1] >= 1.1 * 4, "bars end below their title"


def test_axes_of_few_answers_have_whole_numbers() -> None:
    table = {"n": 2, "histogram": {"a": [0, 1, 0, 1, 0]}}
    asked = [{"id": "natural", "prompt": "natural", "low": 1, "high": 5}]
    figure = histograms({"systems": [{"name": "a"}], "questions": asked, "tables": {"questions": {"natural": table}}})
    stages = funnel({"raters": 1, "funnel": [{"stage": "consent", "raters": 1}]})
    assert figure is not None and stages is not None
    assert [axis.dtick for axis in (*figure.select_yaxes(), *stages.select_xaxes())] == [1, 1]


def test_histograms_share_one_axis() -> None:
    """Panels with axes of their own showed 2 of 10 answers as high as 9 of 10."""
    table = {"n": 20, "histogram": {"a": [0, 1, 2, 9, 0], "b": [2, 2, 2, 2, 2]}}
    asked = [{"id": "natural", "prompt": "natural", "low": 1, "high": 5}]
    figure = histograms(
        {"systems": [{"name": n} for n in "ab"], "questions": asked, "tables": {"questions": {"natural": table}}}
    )
    assert figure is not None
    [ends] = {axis.range for axis in figure.select_yaxes()}
    assert ends[0] == 0 and ends[1] > 9
    alone, beside = (
        re.findall(r'height="([\d.]+)"', histogram([2, 2, 2, 2, 2], 1, "b", tallest)) for tallest in (0, 9)
    )
    assert [float(h) for h in beside] == pytest.approx([2 / 9 * float(h) for h in alone], abs=0.06)
