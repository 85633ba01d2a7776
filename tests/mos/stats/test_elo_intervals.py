"""Errors of Elo over raters and scripts: statsmodels, a share's own interval and a jackknife as oracles."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from mos.stats.games import played
from scipy.stats import t as student

from studio.mos.stats.bradley_terry import ELO_PER_E, centred, fit, points, solve
from studio.mos.stats.elo_intervals import clustered_intervals, expected_error_reduction
from studio.mos.stats.planner import VotePopulation, draw_votes
from studio.mos.stats.preference import preference

FEW = VotePopulation(systems=(-150, 0, 40, 110), ties=0.0, both_bad=0.0)


def drawn(seed=0, raters=14, scripts=9, who=FEW, pairs=40):
    return draw_votes(who, np.random.default_rng(seed), raters, pairs, scripts)


def standard_errors(votes, fitted, clusters="two_way"):
    spread = clustered_intervals(votes, fitted, level=0.5, clusters=clusters)
    wide = clustered_intervals(votes, fitted, level=0.95, clusters=clusters)
    assert (wide.high - wide.low > spread.high - spread.low).all()
    return (spread.difference_high - spread.difference_low) / 2


@pytest.mark.parametrize("clusters", ["two_way", "by_rater"])
def test_clustered_errors_equal_a_logistic_regression(clusters):
    """Bradley-Terry is a logistic regression; statsmodels' clustered covariance differs by (n - 1) / (n - k)."""
    votes = drawn()
    size, n = len(votes.systems), len(votes)
    design = np.zeros((n, size))
    design[np.arange(n), votes.a] = 1
    design[np.arange(n), votes.b] -= 1
    groups = votes.rater if clusters == "by_rater" else np.column_stack([votes.rater, votes.item])
    model = sm.GLM(points(votes), design[:, 1:], family=sm.families.Binomial())
    oracle = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    fitted = fit(votes, "mle")
    assert centred(fitted.log_p) == pytest.approx(centred(np.append(0.0, oracle.params)), abs=1e-6)
    ours = standard_errors(votes, fitted, clusters)[0, 1:]
    t = ours / (ELO_PER_E * oracle.bse) * np.sqrt((n - 1) / (n - size + 1))
    # A rater's shares in the systems are nearly, not exactly, equal; by rater and script df is between 8 and the votes.
    most, least = (student(df).ppf(0.75) for df in ((12, 13) if clusters == "by_rater" else (5, n)))
    assert (least * 0.97 < t).all() and (t < most * 1.03).all()


def test_two_systems_have_the_error_of_their_share():
    """The difference is the logit of the share, so its error is the share's divided by p (1 - p)."""
    for ties in (0.0, 0.3):
        votes = drawn(1, who=VotePopulation(systems=(0, 80), ties=ties))
        share = preference(votes, "s2", "s1").share
        spread = clustered_intervals(votes, fit(votes, "mle"))
        expected = ELO_PER_E * share.se / (share.mean * (1 - share.mean))
        half = (spread.difference_high - spread.difference_low)[0, 1] / 2
        assert half / (share.half_width / share.se) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["gamma", "mle", "davidson"])
def test_jackknife_over_raters_agrees(method):
    votes = drawn(2, raters=60, who=VotePopulation(systems=(-150, 0, 100)))
    fitted = fit(votes, method)
    without = np.array([centred(fit(votes.where(votes.rater != r), method).elo()) for r in range(60)])
    jackknife = np.sqrt(59 / 60 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    spread = clustered_intervals(votes, fitted, clusters="by_rater")
    assert (spread.high - spread.low) / 2 / 2.001 == pytest.approx(jackknife, rel=0.06)


def test_script_effects_widen_intervals():
    kind = {"ties": 0.0, "both_bad": 0.0, "taste_sd": 30.0}
    ratio = []
    for favour in (150.0, 0.0):
        votes = drawn(3, raters=40, who=VotePopulation(systems=(0, 50, 100), item_system_sd=favour, **kind))
        both, rater = (clustered_intervals(votes, fit(votes), clusters=c) for c in ("two_way", "by_rater"))
        ratio.append(float(np.mean((both.high - both.low) / (rater.high - rater.low))))
    assert ratio[0] > 1.8 and ratio[1] < 1.4  # t(8) alone is 1.14 times t(39)


def test_missing_clusters_are_not_used_and_the_label_says_so():
    votes = drawn(4)
    said = {}
    for name, some in (
        ("all", votes),
        ("no item", replace(votes, item=None, items=[])),
        ("no rater", replace(votes, rater=None, raters=[])),
        ("neither", replace(votes, rater=None, raters=[], item=None, items=[])),
    ):
        spread = clustered_intervals(some, fit(some))
        said[name] = (spread.label, float(np.mean(spread.high - spread.low)))
    assert said["all"][0].startswith("by rater and script: standard error times t(7.")
    assert said["no item"][0].startswith("by rater, for these scripts only: standard error times t(12.")
    assert "taken as independent" in said["no rater"][0] and "t(7." in said["no rater"][0]
    assert "not known" in said["neither"][0] and "t(559)" in said["neither"][0]
    assert said["all"][1] > said["no rater"][1] > said["neither"][1]
    assert clustered_intervals(votes, fit(votes), clusters="by_rater").label == said["no item"][0]


def test_votes_without_residuals_have_no_error():
    tied = played("x=y")
    assert "every vote is a tie" in str(clustered_intervals(tied, fit(tied)).reason)
    votes = drawn()
    alone = votes.where(votes.rater == 0)
    assert "one rater gives no interval" in str(clustered_intervals(alone, fit(alone)).reason)
    one_script = votes.where(votes.item == 0)
    found, by_rater = (clustered_intervals(one_script, fit(one_script), clusters=c) for c in ("two_way", "by_rater"))
    assert found.reason is None and found.label == by_rater.label and "for these scripts only" in found.label
    assert (found.low == by_rater.low).all() and np.isfinite(found.low).all()


def test_a_rater_with_most_votes_on_a_system_counts_as_few():
    """One of 21 raters gave all but twenty votes on s4; the scores of the others hardly depend on that rater."""
    votes = drawn(6, raters=21, pairs=60)
    last = (votes.a == 3) | (votes.b == 3)
    kept = votes.where(~last | (votes.rater == 0) | (np.arange(len(votes)) % 20 == 0))
    before, after = (clustered_intervals(v, fit(v), clusters="by_rater") for v in (votes, kept))
    ratio = (after.high - after.low) / (before.high - before.low)
    assert ratio[3] > 1.5 * ratio[:3].max()


def test_identical_raters_keep_the_error_of_their_votes():
    """All raters agree on every script, two for one system and one against: clustering by rater alone gives zero."""
    votes = played("x>y", "x>y", "y>x")
    spread = clustered_intervals(votes, fit(votes), clusters="by_rater")
    assert (spread.high - spread.low > 20).all()


TINY = 1e-3  # a nearly flat prior


def errors(games: np.ndarray, log_p: np.ndarray, b0: float) -> np.ndarray:
    """Standard errors around the ladder's mean, by definition, one game at a time."""
    size = len(log_p)
    bend = np.diag(b0 * np.exp(log_p))
    for i in range(size):
        for j in range(i):
            chance = 1 / (1 + np.exp(log_p[j] - log_p[i]))
            d = np.eye(size)[i] - np.eye(size)[j]
            bend += games[i, j] * chance * (1 - chance) * np.outer(d, d)
    centre = np.eye(size) - 1 / size
    return ELO_PER_E * np.sqrt(np.diag(centre @ np.linalg.inv(bend) @ centre))


def test_two_equal_systems() -> None:
    """After n votes each score around the mean has variance 1 / n: half of the difference's, 4 / n."""
    wins = np.array([[0.0, 8.0], [8.0, 0.0]])
    gain = expected_error_reduction(wins, np.zeros((2, 2)), TINY, TINY)
    assert gain[0, 1] == pytest.approx(2 * ELO_PER_E * (1 / 16**0.5 - 1 / 17**0.5), rel=1e-3)
    assert gain[0, 1] == gain[1, 0] and gain[0, 0] == gain[1, 1] == 0


def test_open_battle_counts_as_a_vote() -> None:
    level, waiting = np.array([[0.0, 8.0], [8.0, 0.0]]), np.array([[0.0, 2.0], [2.0, 0.0]])
    more = np.array([[0.0, 9.0], [9.0, 0.0]])
    assert expected_error_reduction(level, waiting)[0, 1] == pytest.approx(
        expected_error_reduction(more, 0 * waiting)[0, 1]
    )


def test_update_equals_a_new_inverse() -> None:
    rng = np.random.default_rng(3)
    wins = np.triu(rng.integers(0, 9, (5, 5)), 1) + np.tril(rng.integers(0, 9, (5, 5)), -1).astype(float)
    waiting = np.zeros((5, 5))
    waiting[0, 3] = waiting[3, 0] = 2
    games, log_p = wins + wins.T + waiting, solve(wins, 0.1, 0.1)
    gain = expected_error_reduction(wins, waiting, 0.1, 0.1)
    before = errors(games, log_p, 0.1)
    for i in range(5):
        for j in range(i):
            one = games.copy()
            one[i, j] += 1
            assert gain[i, j] == pytest.approx((before - errors(one, log_p, 0.1)).sum(), rel=1e-9)


def test_new_system_is_preferred_and_meets_similar_ones() -> None:
    """Of four systems one has no vote: every battle with it gains more than any without."""
    wins = np.full((4, 4), 10.0)
    wins[3, :] = wins[:, 3] = 0
    np.fill_diagonal(wins, 0)
    gain = expected_error_reduction(wins, np.zeros((4, 4)))
    assert min(gain[3, :3]) > 5 * max(gain[0, 1], gain[0, 2], gain[1, 2]) > 0
    # a vote between equal systems is more informative than a predictable one
    far = np.array([[0, 10, 30.0], [10, 0, 30], [1, 1, 0]]) + 0.0
    known = expected_error_reduction(far + 0, np.zeros((3, 3)))
    even = expected_error_reduction(np.array([[0, 10, 15.5], [10, 0, 15.5], [15.5, 15.5, 0]]), np.zeros((3, 3)))
    assert even[0, 2] < known[0, 2]  # its score is less certain, because one-sided votes carry little information
    assert (known >= 0).all() and np.isfinite(known).all()


def test_all_pairs_are_equal_before_the_first_vote() -> None:
    gain = expected_error_reduction(np.zeros((4, 4)), np.zeros((4, 4)))
    assert gain[np.triu_indices(4, 1)] == pytest.approx(gain[0, 1]) and gain[0, 1] > 0
