"""Quality gates: verdicts on raters, and two decisions from them: accept (pay) and use (analyse).

A verdict is ok, fail or unknown. Unknown never excludes: a gate that did not run says nothing about a rater (practice
of ITU-T P.808).
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal

from sqlmodel import Session, col, func, select

from studio.mos.analysis.answers import by_rater, campaign_consensus, load_answers, repeated_answers
from studio.mos.campaign.config import CampaignConfig, campaign_config
from studio.mos.campaign.names import expected_scores
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.kinds.tables import MATCH
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.stats.agreement import RaterConsensus, RepeatedAnswer, consistency
from studio.mos.stats.preference import guessing_p
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Item,
    Passage,
    Play,
    Rater,
    Score,
    Slot,
    Stimulus,
    System,
    Trial,
)

Verdict = Literal["ok", "fail", "unknown"]
GATES = ("traps", "golds", "variance", "repeats", "sides", "pace", "headphones", "environment", "consensus")
_MAX_TOO_FAST = 0.1  # share of a rater's answers; tolerates clock changes and reloaded pages
_PACE_SLACK_MS = 250.0


@dataclass(frozen=True)
class RaterVerdicts:
    """Verdicts of the gates on a rater, and the two decisions."""

    pseudonym: str
    joined_at: float  # Unix seconds
    verdicts: dict[str, Verdict]
    finished: bool
    informative: frozenset[str] = frozenset()  # gates whose verdicts are shown but do not decide
    consensus: RaterConsensus | None = None  # agreement with the other raters; None without comparable answers
    traps: int = 0  # answered traps, of which ``failed_traps`` wrongly
    failed_traps: int = 0
    reject_after: int = 1  # failed traps from which a rater is not paid

    @property
    def accept(self) -> Verdict:
        """Whether to pay; unknown until finished, and after failed traps that are too few for a rejection."""
        if self.failed_traps >= self.reject_after:
            return "fail"
        return "ok" if self.finished and not self.failed_traps else "unknown"

    @property
    def use(self) -> Verdict:
        """Whether to analyse: ok unless a gate failed; unknown (and analysed) if all gates are unknown."""
        return self._use(self.informative)

    @property
    def use_without_consensus(self) -> Verdict:
        """``use`` without the consensus gate, which depends on other raters' answers."""
        return self._use(self.informative | {"consensus"})

    def _use(self, ignored: frozenset[str]) -> Verdict:
        deciding = {verdict for gate, verdict in self.verdicts.items() if gate not in ignored}
        return "fail" if "fail" in deciding else "ok" if "ok" in deciding else "unknown"


def rater_verdicts(
    session: Session, campaign: Campaign, answers: Sequence[CountedAnswer] | None = None
) -> list[RaterVerdicts]:
    """Verdicts of every rater other than previews, in order of joining; ``answers`` are all answers, if loaded."""
    config, individual = campaign_config(campaign), individual_verdicts(session, campaign)
    pool = {j.pseudonym for j in individual if j.use != "fail"}
    loaded = load_answers(session, campaign.id or 0, everyone=True) if answers is None else answers
    consensus = campaign_consensus(config, loaded, pool)
    result: list[RaterVerdicts] = []
    for rater in individual:
        own = consensus.get(rater.pseudonym)
        verdicts = rater.verdicts | {"consensus": _consensus_verdict(config, own, rater.finished)}
        result.append(replace(rater, verdicts=verdicts, consensus=own))
    return result


def excluded_raters(session: Session, campaign: Campaign) -> set[str]:
    """Pseudonyms of raters that the gates exclude; answers are loaded only if a gate needs them."""
    needs_answers = campaign_config(campaign).gates.consensus_required
    verdicts = (rater_verdicts if needs_answers else individual_verdicts)(session, campaign)
    return {j.pseudonym for j in verdicts if j.use == "fail"}


def individual_verdicts(session: Session, campaign: Campaign) -> list[RaterVerdicts]:
    """``rater_verdicts`` without the consensus gate: gates that depend on one rater's data only."""
    config = load_campaign(session, campaign).config
    raters = session.exec(
        select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel").order_by(col(Rater.id))
    ).all()
    checks = _checks(session, campaign)
    scores = _scores(session, campaign)
    sides = _sides(session, campaign) if config.gates.side_bias else defaultdict[int, list[bool]](list)
    repeats = by_rater(repeated_answers(session, campaign.id or 0)) if config.repeats else {}
    too_fast = _too_fast(session, campaign) if config.gates.pace else defaultdict[int, list[bool]](list)
    informative = frozenset(
        gate for gate in ("headphones", "environment", "consensus") if not getattr(config.gates, f"{gate}_required")
    )
    check_verdicts: dict[tuple[int, str], Verdict] = {}
    for passage in session.exec(
        select(Passage)
        .join(Rater, col(Rater.id) == col(Passage.rater_id))
        .where(Rater.campaign_id == campaign.id, col(Passage.stage).in_(("headphones", "environment")))
        .order_by(col(Passage.id))
    ):
        check_verdicts[passage.rater_id, passage.stage] = _verdict(passage.verdict)  # the last attempt counts
    result: list[RaterVerdicts] = []
    for rater in raters:
        assert rater.id is not None, "rows from the database have ids"
        verdicts: dict[str, Verdict] = {
            "traps": _check_verdict(checks[rater.id, "trap"]),
            "golds": _check_verdict(checks[rater.id, "gold"]),
            "variance": _variance_verdict(config, scores[rater.id], rater.finished_at is not None),
            "repeats": _repeat_verdict(config, repeats.get(rater.pseudonym, ()), rater.finished_at is not None),
            "sides": side_verdict(sides[rater.id], config.gates.side_bias),
            "pace": _pace_verdict(too_fast[rater.id]),
            "headphones": check_verdicts.get((rater.id, "headphones"), "unknown"),
            "environment": check_verdicts.get((rater.id, "environment"), "unknown"),
            "consensus": "unknown",
        }
        traps = checks[rater.id, "trap"]
        result.append(
            RaterVerdicts(
                rater.pseudonym,
                rater.joined_at,
                verdicts,
                rater.finished_at is not None,
                informative,
                traps=len(traps),
                failed_traps=traps.count(False),
                reject_after=config.gates.reject_after,
            )
        )
    return result


def store_decisions(session: Session, campaign: Campaign) -> list[RaterVerdicts]:
    """Compute the verdicts on all raters and store both decisions."""
    verdicts = rater_verdicts(session, campaign)
    by_name = {j.pseudonym: j for j in verdicts}
    for rater in session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")):
        rater.accept, rater.use = by_name[rater.pseudonym].accept, by_name[rater.pseudonym].use
        session.add(rater)
    return verdicts


def gate_counts(verdicts: Sequence[RaterVerdicts], zone: tzinfo = UTC) -> dict[str, Any]:
    """Number of raters by gate and verdict, in total and by day of joining in a time zone."""
    days: defaultdict[str, list[RaterVerdicts]] = defaultdict(list)
    for one in sorted(verdicts, key=lambda one: one.joined_at):
        days[datetime.fromtimestamp(one.joined_at, zone).date().isoformat()].append(one)
    return {"all": _count(verdicts), "by_day": {day: _count(joined) for day, joined in days.items()}}


def _consensus_verdict(config: CampaignConfig, consensus: RaterConsensus | None, finished: bool) -> Verdict:
    """Minimum agreement with the others. Judged only after finishing, with enough answers."""
    gates = config.gates
    if not gates.min_consensus or not finished or consensus is None or consensus.r is None:
        return "unknown"
    if consensus.n < gates.consensus_answers:
        return "unknown"
    return "ok" if consensus.r >= gates.min_consensus else "fail"


def _count(verdicts: Sequence[RaterVerdicts]) -> dict[str, dict[str, int]]:
    out = {gate: dict(Counter(j.verdicts[gate] for j in verdicts)) for gate in GATES}
    return out | {"accept": dict(Counter(j.accept for j in verdicts)), "use": dict(Counter(j.use for j in verdicts))}


def _checks(session: Session, campaign: Campaign) -> defaultdict[tuple[int, str], list[bool]]:
    """Correctness of each trap (exact) and gold (within one step, or the right system)."""
    checks: defaultdict[tuple[int, str], list[bool]] = defaultdict(list)
    rows = session.exec(
        select(Trial, Answer.id, Item.expected)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Item, col(Item.id) == col(Trial.item_id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, col(Trial.role).in_(("trap", "gold")))
    ).all()
    relative = kind_of(campaign.kind).is_relative
    for trial, answer, expected in rows:
        if expected is None:
            continue
        stored = session.exec(select(Score).where(Score.answer_id == answer)).all()
        scores, expected_by_question = [s.value for s in stored], expected_scores(expected)
        choice = session.exec(select(Choice).where(Choice.answer_id == answer)).first()
        slack = 1 if trial.role == "gold" else 0
        if scores and expected_by_question and expected_by_question.keys() <= {s.question for s in stored}:
            right = all(abs(s.value - expected_by_question.get(s.question, s.value)) <= slack for s in stored)
        elif scores and expected.lstrip("-").isdigit():
            right = all(abs(v - int(expected)) <= slack for v in scores)
        elif scores and relative:  # the better one of two stimuli
            system_of = _systems_by_side(session, trial.id)
            right = all(v != 0 and system_of["b" if v > 0 else "a"] == expected for v in scores)
        elif choice is not None:
            system_of = _systems_by_side(session, trial.id)
            correct = system_of["x"] if choice.question == MATCH else expected  # X is set by the design
            right = correct in (choice.outcome, system_of.get(choice.outcome))
        else:
            continue
        checks[trial.rater_id, trial.role].append(right)
    return checks


def _systems_by_side(session: Session, trial: str) -> dict[str, str]:
    """Systems of a trial with two stimuli: ``a`` and ``b`` as presented, and ``x``, the reference, if any."""
    rows = session.exec(
        select(Slot.slot, Slot.place, System.name)
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Slot.trial_id == trial)
    )
    return {"x" if role == "reference" else "ab"[slot]: name for slot, role, name in rows}


def _scores(session: Session, campaign: Campaign) -> defaultdict[int, list[int]]:
    scores: defaultdict[int, list[int]] = defaultdict(list)
    for rater, value in session.exec(
        select(Trial.rater_id, Score.value)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Score, col(Score.answer_id) == col(Answer.id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, Trial.role == "test")
    ):
        scores[rater].append(value)
    return scores


def _too_fast(session: Session, campaign: Campaign) -> defaultdict[int, list[bool]]:
    """Whether each answer arrived sooner after the first display of its trial than the reported playback lasts."""
    result: defaultdict[int, list[bool]] = defaultdict(list)
    query = (
        select(Trial.rater_id, Trial.issued_at, Answer.received_at, func.sum(Play.heard_ms))
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Play, col(Play.answer_id) == col(Answer.id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, col(Trial.issued_at).is_not(None))
        .group_by(col(Trial.rater_id), col(Trial.issued_at), col(Answer.received_at), col(Answer.id))
    )
    rows: Iterable[tuple[int, float, float, float]] = session.execute(query).tuples()  # type: ignore[assignment]
    for rater, issued_at, received_at, heard_ms in rows:
        result[rater].append(1000.0 * (received_at - issued_at) < heard_ms - _PACE_SLACK_MS)
    return result


def _sides(session: Session, campaign: Campaign) -> defaultdict[int, list[bool]]:
    """Whether each decided answer on a test pair was for the first of the two; comparisons by the sign of the score."""
    result: defaultdict[int, list[bool]] = defaultdict(list)
    counted = (Trial.campaign_id == campaign.id, Answer.counted == 1, Answer.missing == "", Trial.role == "test")
    choices = (
        select(Trial.rater_id, Choice.outcome)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Choice, col(Choice.answer_id) == col(Answer.id))
        .where(*counted, col(Choice.outcome).in_(("a", "b")))
    )
    for rater, outcome in session.exec(choices):
        result[rater].append(outcome == "a")
    if kind_of(campaign.kind).is_relative:
        comparisons = (
            select(Trial.rater_id, Score.value)
            .join(Answer, col(Answer.trial_id) == col(Trial.id))
            .join(Score, col(Score.answer_id) == col(Answer.id))
            .where(*counted, Score.value != 0)
        )
        for rater, value in session.exec(comparisons):
            result[rater].append(value < 0)
    return result


def side_verdict(firsts: Sequence[bool], alpha: float) -> Verdict:
    """Exact two-sided binomial test of one half: orders of pairs are balanced, so preferences favour no side.

    Unknown if no result of so few answers would be significant.
    """
    if not alpha or 2 * guessing_p(len(firsts), len(firsts)) >= alpha:
        return "unknown"
    more = max(sum(firsts), len(firsts) - sum(firsts))
    return "fail" if 2 * guessing_p(more, len(firsts)) < alpha else "ok"


def _pace_verdict(too_fast: Sequence[bool]) -> Verdict:
    if not too_fast:
        return "unknown"
    return "fail" if sum(too_fast) > _MAX_TOO_FAST * len(too_fast) else "ok"


def _check_verdict(answers: Sequence[bool]) -> Verdict:
    if not answers:
        return "unknown"
    return "ok" if all(answers) else "fail"


def _variance_verdict(config: CampaignConfig, scores: Sequence[int], finished: bool) -> Verdict:
    """P.808: ratings that hardly vary suggest inattention. Judged only after finishing."""
    if not config.gates.min_variance or not finished or len(scores) < 2:
        return "unknown"
    return "ok" if statistics.variance(scores) >= config.gates.min_variance else "fail"


def _repeat_verdict(config: CampaignConfig, repeated: Sequence[RepeatedAnswer], finished: bool) -> Verdict:
    """Inconsistent answers to repeated trials suggest guessing. Judged only after finishing."""
    agreement = consistency(repeated)
    if agreement is None or not config.gates.max_repeat_distance or not finished:
        return "unknown"
    return "ok" if agreement.apart <= config.gates.max_repeat_distance else "fail"


def _verdict(value: str) -> Verdict:
    return "ok" if value == "ok" else "fail" if value == "fail" else "unknown"
