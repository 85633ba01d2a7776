"""A test that is watched while nothing is there: a short form of `studio bench mos-looks`."""

import pytest

from studio.bench.mos.looks import LooksCell, LooksSetting, bench_mos_looks, show
from studio.measure.report import as_markdown, plain


@pytest.fixture(scope="module")
def found():
    few = (LooksCell(10, 10, 0.4), LooksCell(10, 0, 0.4))
    return bench_mos_looks(LooksSetting(runs=160, cells=few, quiet=True))


def test_on_ten_scripts_it_stops_as_seldom_as_said(found):
    """By rater alone it stopped in four tests of ten; uncorrected, in one of ten."""
    assert found["mean"] <= 0.075
    for row in found["cells"]:
        assert row["stopped"] <= 0.1 and row["by_rater"] > 0.25
        assert row["uncorrected"] >= row["stopped"]


def test_the_figures_can_be_shown_and_kept(found):
    assert plain(found)["cells"] == found["cells"]
    text = as_markdown(show, found)
    assert "MOS, 10 scripts" in text and "preference, 10 votes each" in text
