"""Warnings about a test before it opens: settings that have no effect, or an unexpected one."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.analysis.planning import planned_test, raters_needed
from studio.mos.campaign.config import CampaignConfig, campaign_config
from studio.mos.campaign.design import Unit
from studio.mos.sessions.campaigns import LoadedCampaign, load_campaign
from studio.mos.sessions.parts import part_mismatch, preceding_campaigns
from studio.mos.stats.agreement import ConsensusAnswers, rater_consensus
from studio.mos.stats.planner import default_population, draw_ratings
from studio.mos.store.tables import Campaign

_MAX_FAILING = 0.2  # share of careful raters that a gate may fail without a warning


def advice(session: Session, campaign: Campaign) -> list[StudioError]:
    """Warnings with hints for settings that do not work as intended."""
    config = campaign_config(campaign)
    try:
        run = load_campaign(session, campaign)
    except (BadFile, BadOption):
        run = None  # incomplete; reported elsewhere
    return [*_on_parts(session, campaign, config), *_on_consensus(config, run)]


def _on_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> list[StudioError]:
    """Tests that continue with this one but whose raters cannot."""
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
    """A minimum agreement that can judge no rater, or that few careful raters would reach."""
    gates, prefix = config.gates, "agreement with the others judges nobody:"
    if not gates.min_consensus:
        return []
    if config.kind == "abx":
        return [BadOption(f"{prefix} ABX trials have correct answers", "set it to 0")]
    if gates.min_consensus == 1:
        return [BadOption("nobody reaches an agreement of 1 with the others", "set a lower correlation")]
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
    """Effect of a minimum agreement with the other raters.

    Attributes:
        comparable: answers per session that can be compared with answers of others.
        below: share of careful raters (none answers at random) whose correlation is below the minimum, in simulated
            tests of this design; None if the default systems do not differ (pairs, pages).
    """

    comparable: int
    below: float | None


def consensus_reach(run: LoadedCampaign) -> ConsensusGateReach:
    """Effect of a campaign's minimum agreement, by the answers that ``agreement.campaign_consensus`` compares."""
    trials = min(run.config.trials_per_sitting, len(run.units))
    occurrences = Counter(stimulus for unit in run.units for stimulus in unit.stimuli)
    comparable = sum(sorted((_comparable(run, unit, occurrences) for unit in run.units), reverse=True)[:trials])
    is_judgeable = comparable >= run.config.gates.consensus_answers and run.kind.name in ("acr", "dcr", "p835")
    return ConsensusGateReach(comparable, _share_below(run, trials) if is_judgeable else None)


def _comparable(run: LoadedCampaign, unit: Unit, occurrences: Counter[int]) -> int:
    """Answers of a trial that other raters give too."""
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
