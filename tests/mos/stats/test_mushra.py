"""MUSHRA: who is dropped and why, quartiles, and the two kinds of plus or minus."""

from itertools import chain

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.means import by_system
from studio.mos.stats.mushra import analyse, post_screen, quartiles


def sitting(rater, low=0, high=0, items=20, hears=True, from_item=0):
    """``low`` hidden references below 90, ``high`` mid anchors above it, from some script on."""
    rows = [(rater, f"i{k:02}", "tts", 60.0 + k) for k in range(items)]
    rows += [(rater, f"i{k:02}", "mid", 90.1 if from_item <= k < from_item + high else 90.0) for k in range(items)]
    return rows + [(rater, f"i{k:02}", "ref", 89.9 if k < low else 90.0) for k in range(items) if hears]


def test_more_than_fifteen_percent_drops_and_exactly_that_does_not():
    ratings = ratings_from_rows(sitting("three", 3) + sitting("four", 4) + sitting("deaf", 0, hears=False))
    screen = post_screen(ratings, "ref")
    assert screen.low_share == {"three": 0.15, "four": 0.2, "deaf": None}
    assert (screen.dropped, screen.high_share) == (["four"], {})
    table = analyse(ratings, "ref")
    assert {(r.system, r.interval.n) for r in table.systems} == {("ref", 20), ("tts", 40), ("mid", 40)}
    assert len(table.stimuli) == 60
    assert {r.interval.n for r in analyse(ratings).systems} == {40, 60}


def test_who_puts_the_mid_anchor_above_90_is_dropped_too():
    """BS.1534-3, 4.1.2: the second rule, which was not kept; each of them on scripts of their own."""
    people = [
        sitting("three", high=3),
        sitting("four", high=4, from_item=4),
        sitting("both", low=4, high=5, from_item=9),
    ]
    ratings = ratings_from_rows(chain(*people, sitting("good"), sitting("fine")))
    screen = post_screen(ratings, "ref", "mid")
    assert screen.high_share == {"both": 0.25, "fine": 0.0, "four": 0.2, "good": 0.0, "three": 0.15}
    assert (screen.by_reference, screen.by_anchor, screen.dropped) == (["both"], ["both", "four"], ["both", "four"])
    assert post_screen(ratings, "ref").dropped == ["both"]
    assert {r.interval.raters for r in analyse(ratings, "ref", "mid").systems} == {3}


def test_a_script_that_the_anchor_does_not_impair_says_nothing_of_raters():
    """More than a quarter put it above 90: then it is the script."""
    people = [sitting("a", high=2), sitting("b", high=2), sitting("c", high=1), sitting("d", high=5, from_item=0)]
    screen = post_screen(ratings_from_rows(chain(*people)), "ref", "mid")
    assert screen.unharmed == ["i00", "i01"]
    assert screen.high_share == {"a": 0.0, "b": 0.0, "c": 0.0, "d": 3 / 18}
    assert screen.dropped == ["d"]


def test_quartiles():
    ratings = ratings_from_rows([("r", f"i{k}", s, 10.0 * k) for k in range(5) for s in "xy"])
    assert {name: (q.low, q.median, q.high) for name, q in quartiles(ratings).items()} == {
        "x": (10.0, 20.0, 30.0),
        "y": (10.0, 20.0, 30.0),
    }
    assert quartiles(ratings.where(ratings.score > 99)) == {}


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
    for wrong in (("anchor",), ("ref", "anchor")):
        with pytest.raises(BadOption, match="no system 'anchor'"):
            analyse(ratings, *wrong)
