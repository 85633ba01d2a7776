"""Elo: the printed values, choix as the oracle, exact posteriors, and where there is no score to give."""

import json
from dataclasses import replace
from time import process_time

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, gamma

from studio.core.errors import BadOption
from studio.mos.stats.columns import OUTCOMES, votes_from_rows
from studio.mos.stats.elo import bootstrap, centred, elo_report, fit, gamma_quantiles
from studio.mos.stats.population import Voters, draw_votes
from studio.mos.stats.strength import all_connected, connected, count, solve

GAMES = [
    ("A", "B", 2),
    ("B", "A", 3),
    ("A", "D", 1),
    ("D", "A", 4),
    ("B", "C", 5),
    ("C", "B", 3),
    ("C", "D", 1),
    ("D", "C", 3),
]
FOUR = votes_from_rows([(a, b, "a", None) for a, b, n in GAMES for _ in range(n)])
TWO = votes_from_rows([("x", "y", "a", None)] * 7 + [("x", "y", "b", None)] * 3)


def played(rows, systems=None):
    return votes_from_rows([(a, b, o, None) for a, b, o in rows], systems)


def test_the_printed_maximum_likelihood():
    p = np.exp(fit(FOUR, "mle").log_p)
    assert p == pytest.approx([0.63983, 1.04331, 0.65981, 2.27038], abs=6e-6)
    assert np.prod(p) == pytest.approx(1)


def test_the_printed_gamma_scores():
    dsm, converged = fit(FOUR, "dsm"), fit(FOUR, "gamma")
    assert dsm.elo() == pytest.approx([1909.500, 1995.449, 1915.649, 2119.573], abs=5e-4)
    assert converged.elo() == pytest.approx([1902.056, 1987.804, 1908.087, 2112.379], abs=5e-4)
    spread = gamma_quantiles(dsm)
    assert [spread.low[0], spread.high[0]] == pytest.approx([1641.361, 2060.247], abs=1e-3)
    assert fit(TWO, "gamma").elo() == pytest.approx([2057.4753, 1913.5166], abs=5e-5)
    assert fit(TWO, "dsm").elo() == pytest.approx([2057.4753, 1913.5166], abs=5e-5)


def test_choix_agrees():
    pairs = [(int(a), int(b)) for a, b in zip(FOUR.a, FOUR.b, strict=True)]
    for method, alpha in (("mle", 0.0), ("gamma", 0.1)):
        oracle = choix.mm_pairwise(4, pairs, alpha=alpha, max_iter=100_000, tol=1e-12)
        assert centred(fit(FOUR, method).log_p) == pytest.approx(oracle, abs=1e-6)


def test_two_systems_are_a_beta():
    spread = gamma_quantiles(fit(TWO, "dsm"))
    # Rates are equal, so the ratio of the Gammas is exact.
    exact = beta(7.1, 3.1)
    odds = exact.ppf([0.025, 0.975])
    assert [spread.difference_low[0, 1], spread.difference_high[0, 1]] == pytest.approx(
        400 * np.log10(odds / (1 - odds))
    )
    assert spread.better[0, 1] == pytest.approx(exact.sf(0.5))
    assert spread.better + spread.better.T == pytest.approx(np.ones((2, 2)))


def test_gamma_quantiles_are_of_the_posterior():
    fitted = fit(FOUR, "dsm")
    spread = gamma_quantiles(fitted, c=0.0, level=0.8)
    posterior = gamma(fitted.shape, scale=1 / fitted.rate)
    assert posterior.mean() == pytest.approx(np.exp(fitted.log_p))
    assert 10 ** (spread.low / 400) == pytest.approx(posterior.ppf(0.1))
    rng = np.random.default_rng(0)
    draws = posterior.rvs((100_000, 4), random_state=rng)
    share = (draws[:, :, None] > draws[:, None, :]).mean(axis=0)
    assert spread.better[~np.eye(4, dtype=bool)] == pytest.approx(share[~np.eye(4, dtype=bool)], abs=0.01)
    ratio = 400 * np.log10(draws[:, 0] / draws[:, 3])
    assert [spread.difference_low[0, 3], spread.difference_high[0, 3]] == pytest.approx(
        np.quantile(ratio, [0.1, 0.9]), abs=3
    )


def test_ties_are_half_a_win_each():
    tied = played([("x", "y", "a"), ("x", "y", "tie"), ("y", "x", "both_bad"), ("y", "x", "a")])
    assert count(tied).total().tolist() == [[0, 2], [2, 0]]
    assert fit(tied, "mle").elo(1500) == pytest.approx([1500, 1500])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("x", "y", "a"), ("x", "y", "a")], "y never won against"),
        ([("x", "y", "tie"), ("z", "w", "tie")], "was never compared with"),
        ([("x", "y", "tie"), ("y", "z", "a"), ("z", "w", "tie")], "w, z never won against"),
    ],
)
def test_no_estimate_gives_nulls_and_a_reason(rows, said):
    votes = played(rows)
    report = elo_report(votes, "mle", replicates=20)
    assert not report["connected"]
    assert {v for s in report["systems"].values() for v in s.values()} == {None}
    assert {p for row in report["p_better"] for p in row} == {None}
    assert said in report["reason"]
    with_prior = elo_report(votes, "gamma", replicates=20)
    assert not with_prior["connected"]
    assert with_prior["reason"] is None
    assert all(v is not None for s in with_prior["systems"].values() for v in s.values())


def test_a_win_that_few_draws_hold_gives_no_interval():
    rows = [("x", "y", "a", f"r{k}") for k in range(30)] + [("y", "x", "a", "r0")]
    report = elo_report(votes_from_rows(rows), "mle")
    assert report["connected"]
    assert report["systems"]["x"]["elo"] > report["systems"]["y"]["elo"]
    assert report["systems"]["x"]["lo"] is None
    assert "of 200 bootstrap draws have no maximum-likelihood estimate" in report["reason"]


def test_no_votes_and_one_rater():
    nothing = FOUR.where(FOUR.a < 0)
    assert elo_report(nothing, "mle")["reason"] == "there are no votes"
    assert [s["elo"] for s in elo_report(nothing, "gamma")["systems"].values()] == [2000.0] * 4
    one = replace(FOUR, rater=FOUR.a * 0, raters=["r"])
    report = elo_report(one, "mle")
    assert report["systems"]["A"]["elo"] is not None
    assert report["systems"]["A"]["lo"] is None
    assert "two at least" in report["reason"]


def test_raters_who_all_vote_alike_are_not_certain():
    votes = votes_from_rows([("x", "y", outcome, f"r{r}") for r in range(4) for outcome in ("a", "b")])
    report = elo_report(votes, "mle")
    assert report["systems"]["x"] == {"elo": pytest.approx(2000.0), "lo": None, "hi": None}
    assert "all raters are alike" in report["reason"]
    report = elo_report(votes, "gamma")
    by_votes = gamma_quantiles(fit(votes, "gamma"))
    assert [report["systems"]["x"]["lo"], report["systems"]["x"]["hi"]] == [by_votes.low[0], by_votes.high[0]]
    assert report["reason"] is None and "all raters are alike" in report["interval"]


def test_scores_that_lean_on_the_prior_say_so():
    votes = votes_from_rows([(a, b, o, f"r{r}") for r in range(5) for a, b in ("xy", "vw") for o in "ab"[: 1 + r % 2]])
    report = elo_report(votes, "gamma")
    assert not report["connected"] and "the prior's alone" in report["note"]
    assert elo_report(votes, "mle")["note"] is None


def test_the_report_is_json_of_this_shape():
    votes = draw_votes(Voters(), np.random.default_rng(0), 20, 40)
    for method, label in (
        ("mle", "rater bootstrap: standard error times t(19)"),
        ("gamma", "rater bootstrap: standard error times t(19)"),
        ("dsm", "DSM-compatible: Gamma quantiles"),
    ):
        report = json.loads(json.dumps(elo_report(votes, method, replicates=50), allow_nan=False))
        keys = ["systems", "connected", "method", "interval", "votes", "raters", "wins", "p_better", "reason", "note"]
        assert list(report) == keys
        assert list(report["systems"]) == votes.systems
        assert all(s["lo"] < s["elo"] < s["hi"] for s in report["systems"].values())
        assert (report["votes"], report["raters"], report["reason"]) == (800, 20, None)
        assert np.sum(report["wins"]) == 800
        assert report["p_better"][6][0] > 0.99
        assert (report["interval"], report["method"]) == (label, method)
    assert "there is no rater column" in elo_report(replace(votes, rater=None), replicates=20)["interval"]


def test_raters_widen_and_a_seed_repeats():
    """Raters with tastes of their own are fewer than their votes; without tastes the two bootstraps agree."""
    own = draw_votes(Voters(taste_sd=200), np.random.default_rng(1), 40, 40)
    alike = draw_votes(Voters(taste_sd=0, clickers=0, noise_spread=0), np.random.default_rng(1), 40, 40)
    ratio = []
    for votes in (own, alike):
        fitted = fit(votes)
        rater, vote = bootstrap(votes, fitted), bootstrap(replace(votes, rater=None), fitted)
        ratio.append(float(np.mean((rater.high - rater.low) / (vote.high - vote.low))))
    assert ratio[0] > 1.5
    assert ratio[1] == pytest.approx(1.0, abs=0.15)
    assert elo_report(own, seed=3) == elo_report(own, seed=3)
    assert elo_report(own, seed=3) != elo_report(own, seed=4)


def test_the_bootstrap_knows_its_theory():
    """Two systems: the standard error of a score difference is that of a logit."""
    rows = [("x", "y", "a" if k % 3 else "b", f"r{k:04}") for k in range(900)]
    votes = votes_from_rows(rows)
    expected = 400 / np.log(10) / np.sqrt(900 * (1 / 3) * (2 / 3))
    for some in (votes, replace(votes, rater=None)):
        spread = bootstrap(some, fit(some, "mle"), replicates=2000)
        assert (spread.difference_high - spread.difference_low)[0, 1] / 2 / 1.9626 == pytest.approx(expected, rel=0.05)


def test_mistakes_are_named():
    with pytest.raises(BadOption, match="'elo' is not a method"):
        fit(FOUR, "elo")
    with pytest.raises(BadOption, match="the prior is 0"):
        fit(FOUR, "gamma", a0=0)
    with pytest.raises(BadOption, match="replicates is 1"):
        elo_report(FOUR, replicates=1)
    with pytest.raises(BadOption, match="level is 2"):
        gamma_quantiles(fit(FOUR), level=2)


def test_a_batch_is_its_parts():
    rng = np.random.default_rng(0)
    wins = rng.integers(0, 4, (20, 5, 5)) * (1 - np.eye(5))
    together = solve(wins, 0.3, 0.2)
    for k, one in enumerate(wins):
        assert solve(one, 0.3, 0.2) == pytest.approx(together[k])
    assert all_connected(wins).tolist() == [connected(one) for one in wins]
    assert 0 < all_connected(wins * (rng.random(wins.shape) < 0.5)).mean() < 1


votes_drawn = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from(OUTCOMES), st.integers(1, 10_000)),
    min_size=1,
    max_size=30,
)


def wins_of(drawn):
    rows = [(f"s{a}", f"s{(a + d) % 5}", o, None) for a, d, o, _ in drawn]
    return votes_from_rows(rows, [f"s{k}" for k in range(5)])


@given(votes_drawn, st.floats(0.001, 10))
@settings(deadline=None, max_examples=100)
def test_strengths_have_mean_one_where_shape_is_rate(drawn, a0):
    assert np.exp(fit(wins_of(drawn), "gamma", a0, a0).log_p).mean() == pytest.approx(1)


@given(votes_drawn, st.permutations(range(5)))
@settings(deadline=None, max_examples=50)
def test_new_names_permute_the_scores(drawn, order):
    votes = wins_of(drawn)
    other = replace(votes, a=np.array(order)[votes.a], b=np.array(order)[votes.b])
    for method in ("gamma", "dsm", "mle"):
        there = fit(other, method).elo()[list(order)]
        assert there == pytest.approx(fit(votes, method).elo(), nan_ok=True)


@given(votes_drawn)
@settings(deadline=None, max_examples=50)
def test_the_side_a_system_was_on_does_not_matter(drawn):
    votes = wins_of(drawn)
    mirror = replace(votes, a=votes.b, b=votes.a, outcome=np.array([1, 0, 2, 3], np.uint8)[votes.outcome])
    assert elo_report(mirror, "gamma", replicates=20) == elo_report(votes, "gamma", replicates=20)


@given(votes_drawn, st.floats(0.001, 10), st.floats(0.001, 10))
@settings(deadline=None, max_examples=200)
def test_the_solver_ends_at_the_fixed_point(drawn, a0, b0):
    wins = np.zeros((5, 5))
    for a, d, _, times in drawn:
        wins[a, (a + d) % 5] += times
    p = np.exp(solve(wins, a0, b0))
    rate = b0 + ((wins + wins.T) / (p[:, None] + p)).sum(axis=1)
    assert p == pytest.approx((a0 + wins.sum(axis=1)) / rate, rel=1e-6)
    assert np.isfinite(fit(wins_of(drawn), "mle").log_p).all() == connected(count(wins_of(drawn)).total())


def test_a_million_votes_take_seconds():
    votes = draw_votes(Voters(systems=tuple(range(-300, 300, 20))), np.random.default_rng(0), 25_000, 40)
    start = process_time()
    report = elo_report(votes, "gamma", replicates=200)
    assert process_time() - start < 10
    assert report["votes"] == 1_000_000
