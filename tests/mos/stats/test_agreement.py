"""Agreement of raters: ICC, consensus, and the post-screening of MUSHRA."""

import tracemalloc
from itertools import chain

import numpy as np
import pytest
from scipy.stats import pearsonr

from studio.core.errors import BadOption
from studio.measure.statistics import krippendorff
from studio.mos.stats.agreement import ConsensusAnswers, first_scores, icc, rater_consensus
from studio.mos.stats.columns import Ratings, ratings_from_rows
from studio.mos.stats.means import by_system, exclude_raters, post_screen, quartiles

SHROUT_FLEISS = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]], float)


def cells(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores [raters, stimuli] as ``first_scores`` gives them."""
    rater, stimulus = np.nonzero(np.isfinite(matrix))
    return matrix[rater, stimulus], rater, stimulus


def test_icc_of_shrout_and_fleiss():
    found = icc(*cells(SHROUT_FLEISS))
    assert found is not None
    assert (round(found.single, 2), round(found.average, 2)) == (0.29, 0.62)
    assert (found.raters, found.stimuli) == (4, 6)


def test_icc_needs_every_score():
    assert icc(*cells(np.array([[1.0, 2.0], [1.0, np.nan]]))) is None
    assert icc(*cells(SHROUT_FLEISS[:1])) is None
    assert icc(*cells(np.ones((3, 3)))) is None


def test_first_of_repeated_scores_counts():
    ratings = ratings_from_rows([("a", "i", "s", 1), ("b", "i", "s", 2), ("a", "i", "s", 5), ("b", "j", "s", 3)])
    assert [column.tolist() for column in first_scores(ratings)] == [[1, 2, 3], [0, 1, 1], [0, 0, 1]]
    none = first_scores(ratings.where(ratings.score > 9))
    assert [len(column) for column in none] == [0, 0, 0] and icc(*none) is None


def of(rows: list[tuple[int, int, float]], group: list[int] | None = None, signed: bool = False) -> ConsensusAnswers:
    rater, key, value = (np.array(column) for column in zip(*rows, strict=True))
    groups = np.zeros(len(rows), np.int64) if group is None else np.array(group)
    return ConsensusAnswers(value.astype(float), rater, key, groups, np.full(len(rows), signed))


def test_consensus_worked_values() -> None:
    """Rater 0 scores 1 2 4, the others' means are 2 3 4: r = 3 / sqrt(14/3 * 2)."""
    rows = [(0, 0, 1), (0, 1, 2), (0, 2, 4), (1, 0, 1), (1, 1, 3), (1, 2, 5), (2, 0, 3), (2, 1, 3), (2, 2, 3)]
    zero, one, flat = rater_consensus(of(rows), np.ones(3, bool))
    assert (zero.n, zero.others) == (3, 2.0)
    assert zero.r == pytest.approx(3 / np.sqrt(28 / 3), abs=1e-12)
    assert one.r == pytest.approx(pearsonr([1, 3, 5], [2, 2.5, 3.5]).statistic, abs=1e-12)
    assert flat.r is None  # a constant rater has no correlation


def test_raters_outside_the_pool_are_compared_with_it_only() -> None:
    rows = [(r, k, v) for r, said in enumerate([(1, 2, 4), (1, 3, 5), (5, 3, 1)]) for k, v in enumerate(said)]
    zero, one, wild = rater_consensus(of(rows), np.array([True, True, False]))
    assert zero.r == pytest.approx(pearsonr([1, 2, 4], [1, 3, 5]).statistic, abs=1e-12) and zero.others == 1.0
    assert one.r == zero.r
    assert wild.r == pytest.approx(pearsonr([5, 3, 1], [1, 2.5, 4.5]).statistic, abs=1e-12)


def test_vectorised_consensus_equals_a_loop() -> None:
    """Gaps, stimuli rated twice, two questions: equal to a loop over raters and ratings."""
    rng = np.random.default_rng(4)
    rater, key = rng.integers(0, 9, 400), rng.integers(0, 30, 400)
    value, group = rng.random(400) + key / 30, key % 2
    pool = np.arange(9) < 7
    found = rater_consensus(ConsensusAnswers(value, rater, key, group, np.zeros(400, bool)), pool)
    for r in range(9):
        mine, theirs, about = [], [], []
        for i in np.flatnonzero(rater == r):
            others = [value[j] for j in range(400) if key[j] == key[i] and rater[j] != r and pool[rater[j]]]
            if others:
                mine.append(value[i])
                theirs.append(np.mean(others))
                about.append(group[i])
        mine, theirs, about = map(np.array, (mine, theirs, about))
        for g in (0, 1):
            mine[about == g] -= mine[about == g].mean()
            theirs[about == g] -= theirs[about == g].mean()
        assert found[r].n == len(mine)
        assert found[r].r == pytest.approx(pearsonr(mine, theirs).statistic, abs=1e-12)


def test_consensus_is_computed_within_a_question() -> None:
    """All raters give one question fours and the other twos; within each, raters disagree."""
    said = [[(4, 5), (2, 1)], [(5, 4), (1, 2)]]
    rows = [(r, 2 * q + k, v) for r in (0, 1) for q in (0, 1) for k, v in enumerate(said[r][q])]
    one, _ = rater_consensus(of(rows, [0, 0, 1, 1] * 2), np.ones(2, bool))
    assert one.r == pytest.approx(-1.0)


def test_preferences_are_not_centred_and_order_independent() -> None:
    said = [(1, 1, -1, 0), (1, 1, 1, -1), (1, -1, -1, 0)]
    rows = [(r, k, float(v)) for r, mine in enumerate(said) for k, v in enumerate(mine)]
    found = rater_consensus(of(rows, signed=True), np.ones(3, bool))[0].r
    assert found == pytest.approx(1 / np.sqrt(3 * 1.25), abs=1e-12)  # (1, 1, -1, 0) with (1, 0, 0, -1/2)
    turned = [(r, k, -v if k in (1, 3) else v) for r, k, v in rows]
    assert rater_consensus(of(turned, signed=True), np.ones(3, bool))[0].r == pytest.approx(found)


def test_single_rater_has_no_consensus() -> None:
    [alone] = rater_consensus(of([(0, 0, 1), (0, 1, 2), (0, 2, 3)]), np.ones(1, bool))
    assert (alone.r, alone.n, alone.others) == (None, 0, 0.0)
    none = ConsensusAnswers(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(3)), np.zeros(0, bool))
    assert rater_consensus(none, np.zeros(0, bool)) == []


def screened_rows(rater, low=0, high=0, items=20, hears=True, from_item=0):
    """``low`` hidden references below 90, ``high`` mid anchors above it, starting at some script."""
    rows = [(rater, f"i{k:02}", "tts", 60.0 + k) for k in range(items)]
    rows += [(rater, f"i{k:02}", "mid", 90.1 if from_item <= k < from_item + high else 90.0) for k in range(items)]
    return rows + [(rater, f"i{k:02}", "ref", 89.9 if k < low else 90.0) for k in range(items) if hears]


def test_more_than_fifteen_percent_excludes_and_exactly_fifteen_does_not():
    ratings = ratings_from_rows(
        screened_rows("three", 3) + screened_rows("four", 4) + screened_rows("deaf", 0, hears=False)
    )
    screen = post_screen(ratings, "ref")
    assert screen.low_share == {"three": 0.15, "four": 0.2, "deaf": None}
    assert (screen.dropped, screen.high_share) == (["four"], {})
    means = by_system(exclude_raters(ratings, screen.dropped))
    assert {name: i.n for name, i in means.items()} == {"ref": 20, "tts": 40, "mid": 40}


def test_mid_anchor_above_90_also_excludes():
    """BS.1534-3, 4.1.2: the second rule; each rater fails on different scripts."""
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


def test_unimpaired_mid_anchor_is_ignored():
    """If more than a quarter of raters put it above 90, the script is at fault."""
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
def test_unknown_reference_or_anchor_is_refused(wrong):
    with pytest.raises(BadOption, match="no system 'anchor'"):
        post_screen(ratings_from_rows(screened_rows("four", 4)), *wrong)


def test_agreement_of_many_raters_needs_no_matrix() -> None:
    """A table of 10,000 raters and stimuli would have 800 MB."""
    n = 10_000
    raters, stimuli = np.arange(n).repeat(2), np.column_stack([np.arange(n), (np.arange(n) + 1) % n]).ravel()
    ratings = Ratings(
        (stimuli % 5 + 1).astype(float), raters, stimuli, np.zeros_like(raters),
        [f"r{k}" for k in range(n)], [f"i{k}" for k in range(n)], ["s"],
    )  # fmt: skip
    tracemalloc.start()
    score, rater, stimulus = first_scores(ratings)
    assert krippendorff(score, stimulus) == pytest.approx(1.0) and icc(score, rater, stimulus) is None
    consensus = rater_consensus(of([*zip(raters, stimuli, score, strict=True)]), np.ones(n, bool))
    assert [one.others for one in consensus[:2]] == [1.0, 1.0] and len(consensus) == n
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, peak
