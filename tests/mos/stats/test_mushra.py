"""MUSHRA: post-screening and quartiles."""

from itertools import chain

import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.means import by_system
from studio.mos.stats.mushra import exclude_raters, post_screen, quartiles


def screened_rows(rater, low=0, high=0, items=20, hears=True, from_item=0):
    """``low`` hidden references below 90, ``high`` mid anchors above it, from some script on."""
    rows = [(rater, f"i{k:02}", "tts", 60.0 + k) for k in range(items)]
    rows += [(rater, f"i{k:02}", "mid", 90.1 if from_item <= k < from_item + high else 90.0) for k in range(items)]
    return rows + [(rater, f"i{k:02}", "ref", 89.9 if k < low else 90.0) for k in range(items) if hears]


def test_more_than_fifteen_percent_drops_and_exactly_that_does_not():
    ratings = ratings_from_rows(
        screened_rows("three", 3) + screened_rows("four", 4) + screened_rows("deaf", 0, hears=False)
    )
    screen = post_screen(ratings, "ref")
    assert screen.low_share == {"three": 0.15, "four": 0.2, "deaf": None}
    assert (screen.dropped, screen.high_share) == (["four"], {})
    means = by_system(exclude_raters(ratings, screen.dropped))
    assert {name: i.n for name, i in means.items()} == {"ref": 20, "tts": 40, "mid": 40}


def test_who_puts_the_mid_anchor_above_90_is_dropped_too():
    """BS.1534-3, 4.1.2: the second rule, which was not kept; each of them on scripts of their own."""
    people = [
        screened_rows("three", high=3),
        screened_rows("four", high=4, from_item=4),
        screened_rows("both", low=4, high=5, from_item=9),
    ]
    ratings = ratings_from_rows(chain(*people, screened_rows("good"), screened_rows("fine")))
    screen = post_screen(ratings, "ref", "mid")
    assert screen.high_share == {"both": 0.25, "fine": 0.0, "four": 0.2, "good": 0.0, "three": 0.15}
    assert (screen.by_reference, screen.by_anchor, screen.dropped) == (["both"], ["both", "four"], ["both", "four"])
    assert post_screen(ratings, "ref").dropped == ["both"]
    assert {i.raters for i in by_system(exclude_raters(ratings, screen.dropped)).values()} == {3}


def test_a_script_that_the_anchor_does_not_impair_says_nothing_of_raters():
    """More than a quarter put it above 90: then it is the script."""
    people = [
        screened_rows("a", high=2),
        screened_rows("b", high=2),
        screened_rows("c", high=1),
        screened_rows("d", high=5, from_item=0),
    ]
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


@pytest.mark.parametrize("wrong", [("anchor",), ("ref", "anchor")])
def test_an_unknown_reference_or_anchor_is_refused(wrong):
    with pytest.raises(BadOption, match="no system 'anchor'"):
        post_screen(ratings_from_rows(screened_rows("four", 4)), *wrong)
