"""Number of raters of a test, from a pilot campaign or for a draft; and warnings before a test opens.

The warnings are about settings that have no effect, or an unexpected one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.analysis.results import analysed_answers
from studio.mos.campaign.config import CampaignConfig, Question, campaign_config, margins_of
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import Kind
from studio.mos.kinds.tables import ratings_of, votes_of
from studio.mos.sessions.campaigns import LoadedCampaign, load_campaign
from studio.mos.sessions.parts import part_mismatch, preceding_campaigns
from studio.mos.stats import means
from studio.mos.stats.agreement import ConsensusAnswers, rater_consensus
from studio.mos.stats.bradley_terry import points
from studio.mos.stats.columns import Ratings, ratings_from_rows
from studio.mos.stats.interval import count_distinct
from studio.mos.stats.margin_plan import MarginAsk, MarginPlan, raters_for_margin
from studio.mos.stats.pilot import conservative_ratings, conservative_votes, rating_population, vote_population
from studio.mos.stats.planner import (
    HALF_RANGE,
    PlannedTest,
    RaterPlan,
    RatingPopulation,
    VotePopulation,
    default_population,
    draw_ratings,
    raters_for_means,
)
from studio.mos.store.tables import Campaign

TESTS: dict[str, tuple[PlannedTest, ...]] = {
    "acr": ("mos",),
    "dcr": ("mos",),
    "p835": ("mos",),
    "scale": ("mos",),
    "mushra": ("mushra",),
    "ccr": ("cmos",),
    "ab": ("preference", "elo"),
    "similarity": ("preference", "elo"),
    "live": ("preference", "elo"),
    "arena": ("preference", "elo"),
}
_MAX_FAILING = 0.2  # share of careful raters that a gate may fail without a warning


@dataclass(frozen=True)
class Pilot:
    """A campaign used as the pilot of another."""

    test: PlannedTest  # the planned test
    question: str | None  # the question whose scores were used; None for votes
    raters: int  # of the analysed answers, like ``scripts``
    scripts: int
    who: RatingPopulation | VotePopulation  # estimated population
    cautious: RatingPopulation | VotePopulation  # the same with variances at their upper bounds, to plan with
    reach: float | None  # half the range of the scale; None for Elo


def campaign_pilot(session: Session, campaign: Campaign, test: PlannedTest | None = None, question: str = "") -> Pilot:
    """Population estimated from the analysed answers of a campaign, for a test that its kind can plan.

    Raises BadOption: the campaign's kind cannot plan ``test``; the question is unknown or ambiguous; or there are fewer
    than three raters or scripts.

    Args:
        test: the planned test; by default the first that the kind can plan.
        question: the question to plan for; optional if only one was rated.
    """
    tests = TESTS.get(campaign.kind, ())
    if not tests or test not in (None, *tests):
        names = ", ".join(tests) or "nothing"
        raise BadOption(f"a pilot of kind {campaign.kind} plans {names}", "use another pilot, or plan without one")
    test = test or tests[0]
    answers = analysed_answers(session, campaign)
    if test == "elo":
        votes = votes_of(answers)
        population = vote_population(votes)
        raters, scripts = (0 if codes is None else count_distinct(codes) for codes in (votes.rater, votes.item))
        return Pilot(test, None, raters, scripts, population, conservative_votes(population, votes), None)
    rated_question = None if test == "preference" else _select_question(session, campaign, answers, question)
    ratings = _shares(answers) if rated_question is None else _ratings(answers, test, rated_question.id)
    population = rating_population(ratings)
    reach = HALF_RANGE[test] if rated_question is None else (rated_question.high - rated_question.low) / 2
    raters, scripts = count_distinct(ratings.rater), count_distinct(ratings.item)
    cautious = conservative_ratings(population, ratings)
    return Pilot(test, rated_question and rated_question.id, raters, scripts, population, cautious, reach)


def _select_question(session: Session, campaign: Campaign, answers: Sequence[CountedAnswer], question: str) -> Question:
    """The rated question to plan for."""
    rated = {name for a in answers for name, _ in a.scores}
    available = [q for q in load_campaign(session, campaign).config.questions if q.id in rated or not rated]
    matching = [q for q in available if q.id == question or not question]
    names = ", ".join(q.id for q in available)
    if not matching:
        raise BadOption(f"the pilot has no question {question!r}", f"choose {names}")
    if len(matching) > 1:
        raise BadOption(f"the pilot has several questions: {names}", "choose one with --question")
    return matching[0]


def _ratings(answers: Sequence[CountedAnswer], test: PlannedTest, question: str) -> Ratings:
    if test == "cmos":
        return _comparisons(answers, question)
    ratings = ratings_of(answers, question)
    hidden = {a.reference for a in answers if a.reference is not None}
    if test == "mushra" and hidden and len(ratings):
        anchor = next((a.mid_anchor for a in answers if a.mid_anchor in ratings.systems), None)
        ratings = means.exclude_raters(ratings, means.post_screen(ratings, hidden.pop(), anchor).dropped)
    return ratings


def _shares(answers: Sequence[CountedAnswer]) -> Ratings:
    """Votes as scores of their pair, 0 to 1."""
    votes = votes_of(answers)
    assert votes.rater is not None and votes.item is not None, "campaigns have raters and scripts"
    first, second = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b)
    met, pair = np.unique(first * len(votes.systems) + second, return_inverse=True)
    systems: list[tuple[int, int]] = [divmod(code, len(votes.systems)) for code in met.tolist()]
    names = [_pair(votes.systems[a], votes.systems[b]) for a, b in systems]
    worth = np.where(votes.a == first, points(votes), 1 - points(votes))
    return Ratings(worth, votes.rater, votes.item, pair.astype(np.int64), votes.raters, votes.items, names)


def _comparisons(answers: Sequence[CountedAnswer], question: str) -> Ratings:
    """Comparisons as sign-corrected scores of their pair."""
    rows = [
        (a.rater, a.item, _pair(*a.systems), float(a.scores[question, 1]) * (1 if a.systems[1] < a.systems[0] else -1))
        for a in answers
        if (question, 1) in a.scores
    ]
    return ratings_from_rows(rows)


def _pair(one: str, other: str) -> str:
    return " : ".join(sorted((one, other)))


def planned_test(kind: Kind) -> PlannedTest | None:
    """Test whose default variances apply to a kind; None if it is not planned by a half-width."""
    if kind.name == "scale":
        return "mushra"  # the same sliders, with variances in points
    return next(iter(TESTS.get(kind.name, ())), None) if not kind.is_standing else None


@dataclass(frozen=True)
class DraftPlan:
    """Plan of a draft."""

    test: PlannedTest  # value of ``campaign plan --test``
    systems: int  # number of rated systems; ``items`` scripts, of which each rater rates ``share``
    items: int
    share: float
    raters_per_stimulus: int  # quota that results in ``plan.raters`` raters
    plan: RaterPlan


def raters_needed(run: LoadedCampaign) -> int:
    """Number of raters until every unit has its quota, if all finish."""
    return math.ceil(len(run.units) * run.config.raters_per_stimulus / _trials_per_rater(run))


def _trials_per_rater(run: LoadedCampaign) -> int:
    """Trials of a rater; no unit is rated twice."""
    return min(run.config.trials_per_sitting, len(run.units))


def plan_draft(run: LoadedCampaign, half_width: float, runs: int = 200) -> DraftPlan:
    """Number of raters of a draft for a half-width, with default variances and the draft's systems and scripts.

    Raises BadOption: the kind is not planned by a half-width, or there are too few scripts or systems; WidthNotReached:
    no number of raters is enough.
    """
    test = planned_test(run.kind)
    if test is None:
        raise BadOption(f"{run.kind.title} is not planned by a half-width", "set the number of raters directly")
    systems = len({system for unit in run.units for system in unit.systems})
    items = len({unit.item_id for unit in run.units})
    share = _trials_per_rater(run) / len(run.units)
    population = default_population(test, systems)
    plan = raters_for_means(half_width, population, items, share, runs, half_range=HALF_RANGE[test])
    quota = math.ceil(plan.raters * _trials_per_rater(run) / len(run.units))
    return DraftPlan(test, systems, items, share, quota, plan)


@dataclass(frozen=True)
class DraftMarginPlan:
    """Number of raters planned for a claim about a draft's systems."""

    ask: MarginAsk
    raters_per_stimulus: int  # quota that results in ``plan.raters`` raters
    plan: MarginPlan


def plan_draft_margin(run: LoadedCampaign, margin: float, runs: int = 1000) -> DraftMarginPlan:
    """Number of raters of a draft that shows "no worse by more than ``margin``", if the systems are equal.

    Every system is compared with the baseline of the settings; without one, one pair. Variances are default ones.

    Raises BadOption: the kind has no margin, or the margin does not fit it; PowerNotReached: no number of raters is
    enough.
    """
    test = planned_test(run.kind)
    if test is None:
        raise BadOption(f"{run.kind.title} is not planned by a margin", "set the number of raters directly")
    run.kind.check_margins(replace(run.config, margins=margins_of(run.config, margin)))
    systems = {system for unit in run.units for system in unit.systems}
    claims = max(1, len(systems) - 1) if run.config.baseline is not None else 1
    items, share = len({unit.item_id for unit in run.units}), _trials_per_rater(run) / len(run.units)
    ask = MarginAsk(test, margin, claims=claims, items=items, share=share)
    plan = raters_for_margin(ask, default_population(test, 2), runs)
    return DraftMarginPlan(ask, math.ceil(plan.raters * share), plan)


def advice(session: Session, campaign: Campaign) -> list[StudioError]:
    """Warnings with hints for settings that do not work as intended."""
    config = campaign_config(campaign)
    try:
        run = load_campaign(session, campaign)
    except (BadFile, BadOption):
        run = None  # incomplete; reported elsewhere
    return [*_on_parts(session, campaign, config), *_on_consensus(config, run)]


def _on_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> list[StudioError]:
    """Warnings for tests that continue with this one although their raters cannot enter it."""
    warnings: list[StudioError] = []
    for other, first in preceding_campaigns(session, campaign):
        continues = f"{other.name!r} continues with this test, which"
        if why := part_mismatch(first, config):
            hint = "use the same consent, consent version and language for both"
            warnings.append(BadOption(f"{continues} {why}: its raters will end before it", hint))
        elif other.state == "open" and campaign.state == "closed":
            hint = "open this test again, or close the other"
            warnings.append(BadOption(f"{continues} is closed: its raters end before it", hint))
    return warnings


def _on_consensus(config: CampaignConfig, run: LoadedCampaign | None) -> list[StudioError]:
    """Warnings for a minimum agreement that applies to no rater, or that too many careful raters would miss."""
    gates, prefix = config.gates, "agreement with the others judges no rater:"
    if not gates.min_consensus:
        return []
    if config.kind == "abx":
        return [BadOption(f"{prefix} ABX trials have correct answers", "set it to 0")]
    if gates.min_consensus == 1:
        return [BadOption("no rater reaches an agreement of 1 with the others", "set a lower correlation")]
    if run is None:
        return []
    reach = consensus_reach(run)
    if not reach.comparable and gates.consensus_by == "stimulus":
        hint = "assign at least two raters to each stimulus, or compare by system"
        return [BadOption(f"{prefix} raters share no stimuli", hint)]
    if reach.comparable < gates.consensus_answers:
        required = f"a session has {reach.comparable} comparable answers, and {gates.consensus_answers} are required"
        return [BadOption(f"{prefix} {required}", "require fewer answers, or assign more trials to each rater")]
    if reach.below is not None and reach.below > _MAX_FAILING:
        what = (
            f"{round(100 * reach.below)}% of careful raters would be below an agreement of {gates.min_consensus:g} "
            f"with the others, in simulated tests of {raters_needed(run)} raters with default variances"
        )
        return [BadOption(what, "set a lower correlation, assign more raters to each stimulus, or compare by system")]
    return []


_RATERS = 200  # minimum number of simulated raters

_MOST_TESTS, _MOST_ITEMS = 50, 200


@dataclass(frozen=True)
class ConsensusGateReach:
    """Effect of a minimum agreement with the other raters."""

    comparable: int  # answers per session that can be compared with answers of others
    # share of careful raters (none answers at random) whose correlation is below the minimum, in simulated tests of
    # this design; None if the default systems do not differ (pairs, pages)
    below: float | None


def consensus_reach(run: LoadedCampaign) -> ConsensusGateReach:
    """Effect of a campaign's minimum agreement, by the answers that ``campaign_consensus`` compares."""
    trials = min(run.config.trials_per_sitting, len(run.units))
    occurrences = Counter(stimulus for unit in run.units for stimulus in unit.stimuli)
    comparable = sum(sorted((_comparable(run, unit, occurrences) for unit in run.units), reverse=True)[:trials])
    is_judgeable = comparable >= run.config.gates.consensus_answers and run.kind.name in ("acr", "dcr", "p835")
    return ConsensusGateReach(comparable, _share_below(run, trials) if is_judgeable else None)


def _comparable(run: LoadedCampaign, unit: Unit, occurrences: Counter[int]) -> int:
    """Number of answers to a trial that can be compared with those of other raters."""
    config, quota = run.config, run.config.raters_per_stimulus
    by_system = config.gates.consensus_by == "system" and (run.kind.is_standing or raters_needed(run) > 1)
    choices = 1 if config.choices else 0
    if run.kind.is_standing:  # typed texts are never the same
        return choices if by_system else 0
    is_shared = by_system or quota > 1
    pair = choices + (len(config.questions) if run.kind.is_relative else 0)
    sounds = 0 if run.kind.is_relative else sum(is_shared or quota * occurrences[s] > 1 for s in unit.stimuli)
    return pair * is_shared + sounds * len(config.questions)


def _share_below(run: LoadedCampaign, trials: int) -> float:
    config = run.config
    systems = list(dict.fromkeys(s for unit in run.units for s in unit.systems))
    items = min(_MOST_ITEMS, len({unit.item_id for unit in run.units}))
    test = planned_test(run.kind)
    assert test is not None, "kinds with scores are planned by a half-width"
    population = replace(default_population(test, len(systems)), clickers=0.0)
    cells, questions = items * len(systems), len(config.questions)
    trials = min(trials, cells)
    raters = max(2, round(cells * config.raters_per_stimulus / trials))
    rng = np.random.default_rng(0)
    correlations: list[float | None] = []
    for _ in range(min(_MOST_TESTS, -(-_RATERS // raters))):
        order = np.concatenate([rng.permutation(cells) for _ in range(config.raters_per_stimulus + 1)])
        order = order[: raters * trials]
        rater = np.repeat(np.arange(raters), trials)
        answers: list[ConsensusAnswers] = []
        for question in range(questions):
            score = draw_ratings(population, rng, raters, items).score.reshape(raters, cells)
            key = order % len(systems) if config.gates.consensus_by == "system" else order
            codes = key + question * cells
            group, signed = np.full(len(order), question, np.int64), np.zeros(len(order), np.bool_)
            answers.append(ConsensusAnswers(score[rater, order], rater, codes, group, signed))
        columns = (
            np.concatenate([getattr(m, name) for m in answers]) for name in ("value", "rater", "key", "group", "signed")
        )
        correlations += [one.r for one in rater_consensus(ConsensusAnswers(*columns), np.ones(raters, np.bool_))]
    judged = [r for r in correlations if r is not None]
    return sum(r < config.gates.min_consensus for r in judged) / max(1, len(judged))
