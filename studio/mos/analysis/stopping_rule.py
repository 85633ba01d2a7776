"""Stopping rule of a campaign: its evaluation on tables of results, and the looks at which it is evaluated.

A half-width carries no information about which system is ahead, so it needs no correction. "Every pair is decided" is a
test at every look: p values are corrected for all pairs (Holm 1979), and the nominal level follows from error spending
after Lan & DeMets (1983, Biometrika 70): a function gives the error that may be spent at each information fraction; the
levels follow by numerical integration of a Gaussian walk (Armitage, McPherson & Rowe 1969). Number and times of looks
are free. Later raters on the same scripts are more correlated with earlier ones than the walk assumes, so the actual
error is smaller than nominal.

A look uses the first raters who finished and are not excluded by the gates, regardless of when it is taken, so it is
reproducible and its time cannot be chosen. If the rule is met, the campaign is closed; raters in a session may finish.
Looks run in a separate thread, so that storing an answer does not wait for them.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from sqlmodel import Session, col, func, select

from studio.core.errors import BadOption
from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import individual_verdicts
from studio.mos.campaign.config import StopRule
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.stats.columns import F8
from studio.mos.stats.interval import normal_cdf, normal_inverse
from studio.mos.store.database import Store
from studio.mos.store.tables import Campaign, Look, Rater, System

Spending = Literal["obrien_fleming", "pocock"]
_POINTS = 201  # quadrature nodes per look
_MAX_Z = 10.0  # upper limit of boundaries, in standard deviations
_TOLERANCE = 1e-10


def alpha_spent(share: float, alpha: float = 0.05, spending: Spending = "obrien_fleming") -> float:
    """Cumulative two-sided error at ``share`` of all raters.

    ``obrien_fleming`` is 4 (1 - Phi(z / sqrt(share))) with z of alpha / 4: almost nothing early.
    ``pocock`` is alpha ln(1 + (e - 1) share): about the same at each look.

    Raises BadOption: an unknown function, or a share outside (0, 1].
    """
    if not 0 < share <= 1:
        raise BadOption(f"the share is {share}", "it must be in (0, 1]")
    if spending == "obrien_fleming":
        return float(4 * normal_cdf(normal_inverse(alpha / 4) / np.sqrt(share)))
    if spending == "pocock":
        return float(alpha * np.log(1 + (np.e - 1) * share))
    raise BadOption(f"{spending!r} is not a spending function", "choose obrien_fleming, pocock")


def nominal_levels(looks: Sequence[int], alpha: float = 0.05, spending: Spending = "obrien_fleming") -> list[float]:
    """Two-sided nominal level at each look.

    Args:
        looks: increasing numbers of raters; all error is spent at the last one.
        alpha: overall error.
        spending: spending function (``alpha_spent``).
    """
    return list(_nominal_levels(tuple(looks), alpha, spending))


@lru_cache(64)
def _nominal_levels(looks: tuple[int, ...], alpha: float, spending: Spending) -> tuple[float, ...]:
    levels: list[float] = []
    share, spent = np.array(looks, np.float64) / looks[-1], 0.0
    at, density = np.zeros(1), np.ones(1)  # nodes and density of the walk before crossing
    for k, now in enumerate(share):
        step = float(np.sqrt(now - (share[k - 1] if k else 0.0)))
        total = alpha_spent(float(now), alpha, spending)
        edge = _boundary(at, density, step, total - spent, _MAX_Z * float(np.sqrt(now)))
        levels.append(float(2 * normal_cdf(-edge / np.sqrt(now))))
        nodes, weights = _grid(edge)
        density = weights * (_normal_density((nodes[:, None] - at[None, :]) / step) / step @ density)
        at, spent = nodes, total
    return tuple(levels)


def _boundary(at: F8, density: F8, step: float, probability: float, bound: float) -> float:
    """Boundary that the walk crosses in its next step with ``probability``, on either side."""
    low, high = 0.0, bound
    while high - low > _TOLERANCE * bound:
        middle = (low + high) / 2
        crossing = float(density @ (normal_cdf((at - middle) / step) + normal_cdf((-at - middle) / step)))
        low, high = (middle, high) if crossing > probability else (low, middle)
    return high


def _grid(edge: float) -> tuple[F8, F8]:
    """Gauss-Legendre nodes and weights on [-edge, edge]."""
    nodes, weights = _LEGENDRE
    return edge * nodes, edge * weights


def _normal_density(x: F8) -> F8:
    return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


_LEGENDRE: tuple[F8, F8] = np.polynomial.legendre.leggauss(_POINTS)


ALPHA = 0.05
PM = "\N{PLUS-MINUS SIGN}"
Tables = Mapping[str, Any]


def widths(tables: Tables) -> list[tuple[str, float | None]]:
    """Half-width of the default 95% interval of every system (of every pair in paired tests)."""
    return [(name, _half(interval)) for name, interval in estimates(tables)]


def p_values(tables: Tables) -> list[tuple[str, float | None]]:
    """p value of every pair of systems, corrected for all pairs of its table; None if not estimable."""
    result: list[tuple[str, float | None]] = []
    for question, table in tables.get("questions", {}).items():
        result += [(_pair(d, question), d["p_holm"]) for d in table.get("differences", [])]
    for question, table in tables.get("comparisons", {}).items():
        result += [(_pair(d, question), d["p_holm"]) for d in table.get("pairs", [])]
    result += [(_pair(d), d["p_holm"]) for d in tables.get("identity", {}).get("pairs", [])]
    return result + [(_pair(d), d["p_holm"]) for d in tables.get("choices", {}).get("pairs", {}).get("two_way", [])]


def estimates(tables: Tables) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mean, CMOS and share of the tables by name, with the default interval."""
    for question, table in tables.get("questions", {}).items():
        for name, interval in table.get("systems", {}).get("two_way", {}).items():
            yield f"{name}, {question}", interval
    for question, table in tables.get("comparisons", {}).items():
        for pair in table.get("pairs", []):
            yield _pair(pair, question), pair["cmos"]["two_way"]
    for pair in tables.get("choices", {}).get("pairs", {}).get("two_way", []):
        yield _pair(pair), pair["share"]
    for pair in tables.get("identity", {}).get("pairs", []):
        yield _pair(pair), pair["share"]["two_way"]


def level_at(rule: StopRule, raters: int) -> float:
    """Nominal level at the look at this number of raters."""
    return nominal_levels(rule.looks, ALPHA, rule.spending)[rule.looks.index(raters)]


def evaluate_rule(rule: StopRule, tables: Tables, raters: int) -> tuple[bool, str]:
    """Whether the rule is met at the look at this number of raters, and a sentence with the reason."""
    reasons: list[str] = []
    if rule.half_width is not None:
        rows = widths(tables)
        half, name = max(((np.inf if half is None else half, name) for name, half in rows), default=(np.inf, "nothing"))
        state = f"widest {PM}{half:.3g} ({name})" if np.isfinite(half) else f"no interval yet of {name}"
        reasons.append(f"every 95% interval at most {PM}{rule.half_width:g}: {state}")
        if half <= rule.half_width:
            return True, reasons[-1]
    if rule.decided:
        pairs, alpha = p_values(tables), level_at(rule, raters)
        undecided = [name for name, p in pairs if p is None or p > alpha]
        state = f"{len(pairs) - len(undecided)} of {len(pairs)}" + (f", not {undecided[0]}" if undecided else "")
        reasons.append(
            f"every pair decided at p {alpha:.2g} (look at {raters} of {rule.looks[-1]}, Holm over pairs): {state}"
        )
        if pairs and not undecided:
            return True, reasons[-1]
    return False, "; ".join(reasons)


def _half(interval: Mapping[str, Any]) -> float | None:
    low, high = interval["low"], interval["high"]
    return None if low is None or high is None or high <= low else (high - low) / 2


def _pair(pair: Mapping[str, Any], question: str = "") -> str:
    return f"{pair['a']} against {pair['b']}" + (f", {question}" if question else "")


_log = logging.getLogger(__name__)


class InterimLooks:
    """Takes due looks of campaigns; callable from the writer thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mos-looks")

    def close(self) -> None:
        """Wait for the running look."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def on_rater_finished(self, campaign_id: int) -> None:
        """Take the looks that are due; no-op after ``close``."""
        try:
            done = self._thread.submit(self._look, campaign_id)
        except RuntimeError:  # closed; the look stays due
            return
        done.add_done_callback(_log_failure)

    def _look(self, campaign_id: int) -> None:
        while True:
            with self._store.read() as session:
                campaign = session.get(Campaign, campaign_id)
                look = None if campaign is None else take_due_look(session, campaign)
            if look is None:
                return
            self._store.write_now(lambda session, look=look: _store_look(session, look))
            if look.met:
                return


def take_due_look(session: Session, campaign: Campaign) -> Look | None:
    """The first look that is due and was not taken, with its result; None if none is due."""
    run = load_campaign(session, campaign)
    rule = run.config.stop
    past_looks = set(session.exec(select(Look.raters).where(Look.campaign_id == campaign.id)))
    raters = next((n for n in rule.looks if n not in past_looks), None)
    if campaign.state != "open" or not rule.is_active or raters is None:
        return None
    finished = select(Rater.pseudonym).where(
        Rater.campaign_id == campaign.id, Rater.role == "panel", col(Rater.finished_at).is_not(None)
    )
    if session.exec(select(func.count()).select_from(finished.subquery())).one() < raters:
        return None
    # Without the consensus gate: it selects raters by the tested answers, which would inflate the type I error.
    analysed = {j.pseudonym for j in individual_verdicts(session, campaign) if j.use != "fail"}
    names = [n for n in session.exec(finished.order_by(col(Rater.finished_at), col(Rater.id))) if n in analysed]
    if len(names) < raters:
        return None
    first = set(names[:raters])
    answers = [a for a in load_answers(session, run.id, everyone=True) if a.rater in first]
    system = dict(session.exec(select(System.id, System.name).where(System.campaign_id == campaign.id)).all())
    missing = {frozenset(system[s] for s in u.systems) for u in run.units} - {frozenset(a.systems) for a in answers}
    if missing:
        is_met, why = False, f"not every system was rated yet: {', '.join(sorted(min(missing, key=sorted)))}"
    else:
        is_met, why = evaluate_rule(rule, run.kind.analyse(run.config, answers, seed=campaign.seed), raters)
    return Look(campaign_id=run.id, raters=raters, met=int(is_met), why=why, at=time.time())


def interim_looks(session: Session, campaign: Campaign) -> list[Look]:
    """The looks taken so far, in order."""
    return list(session.exec(select(Look).where(Look.campaign_id == campaign.id).order_by(col(Look.raters))).all())


def _store_look(session: Session, look: Look) -> None:
    """Store a look unless another process did, and close the campaign if the rule is met."""
    existing = select(Look.id).where(Look.campaign_id == look.campaign_id, Look.raters == look.raters)
    if session.exec(existing).first() is not None:
        return
    session.add(Look(**look.model_dump(exclude={"id"})))
    campaign = session.get(Campaign, look.campaign_id)
    if look.met and campaign is not None and campaign.state == "open":
        campaign.state = "closed"
        session.add(campaign)


def _log_failure(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a look at a stopping rule failed", exc_info=error)
