"""MUSHRA: who is dropped, and the two kinds of plus or minus."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.means import by_system
from studio.mos.stats.mushra import analyse, post_screen


def sitting(rater, low, items=20, hears=True):
    rows = [(rater, f"i{k:02}", "tts", 60.0 + k) for k in range(items)]
    return rows + [(rater, f"i{k:02}", "ref", 89.9 if k < low else 90.0) for k in range(items) if hears]


def test_more_than_fifteen_percent_drops_and_exactly_that_does_not():
    ratings = ratings_from_rows(sitting("three", 3) + sitting("four", 4) + sitting("deaf", 0, hears=False))
    screen = post_screen(ratings, "ref")
    assert screen.low_share == {"three": 0.15, "four": 0.2, "deaf": None}
    assert screen.dropped == ["four"]
    table = analyse(ratings, "ref")
    assert {(r.system, r.interval.n) for r in table.systems} == {("ref", 20), ("tts", 40)}
    assert len(table.stimuli) == 40
    assert {r.interval.n for r in analyse(ratings).systems} == {40, 60}


def test_two_kinds_of_interval():
    rng = np.random.default_rng(0)
    ratings = ratings_from_rows(
        [(f"r{r}", f"i{i}", s, rng.normal(70, 9)) for r in range(8) for i in range(6) for s in "xy"]
    )
    table = analyse(ratings)
    for row in table.systems:
        score = ratings.score[ratings.system == ratings.systems.index(row.system)]
        assert row.standard_error == pytest.approx(score.std(ddof=1) / np.sqrt(48))
        assert row.interval == by_system(ratings)[row.system]
    for row in table.stimuli:
        assert row.interval.n == 8
        assert row.interval.half_width == pytest.approx(2.364624 * row.standard_error)


def test_mistakes_are_named():
    ratings = ratings_from_rows(sitting("four", 4))
    with pytest.raises(BadOption, match="no ratings are left"):
        analyse(ratings, "ref")
    with pytest.raises(BadOption, match="no system 'anchor'"):
        analyse(ratings, "anchor")
