"""Quality of raters: two decisions for each, accept (pay them) and use (analyse them), by verdicts of three values.

A verdict is ok, fail or unknown; unknown excludes nobody: a gate that did not run says nothing about a rater
(ITU-T P.808 practice; what happens otherwise is months of honest answers dropped in silence).
"""

import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlmodel import Session, col, func, select

from studio.measure.tables.spreadsheet import csv_text
from studio.mos.analysis.consensus import consensus_of
from studio.mos.analysis.consistency import by_rater, twice
from studio.mos.analysis.judgements import judgements
from studio.mos.campaign.config import CampaignConfig, from_json
from studio.mos.campaign.names import expected_scores
from studio.mos.kinds.analysis import MATCH
from studio.mos.kinds.base import Judged
from studio.mos.kinds.registry import kind_of
from studio.mos.rating.campaigns import running
from studio.mos.stats.consensus import Consensus
from studio.mos.stats.repeats import Twice, consistency
from studio.mos.store.tables.answers import Answer, Choice, Play, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import Slot, Trial

Verdict = Literal["ok", "fail", "unknown"]
GATES = ("traps", "golds", "variance", "repeats", "pace", "headphones", "environment", "consensus")
_TOO_SOON = 0.1  # of a rater's answers: a clock that was set, a page that came back, are no fraud
_PACE_SLACK_MS = 250.0


@dataclass(frozen=True)
class Judgement:
    """What the gates say of a rater: each verdict, and the two decisions that follow.

    Attributes:
        noted: gates that are for information alone: their verdicts are shown, and decide nothing.
        consensus: how the rater's answers go with the others'; None where they answered nothing that can be compared.
    """

    pseudonym: str
    day: str
    verdicts: dict[str, Verdict]
    finished: bool
    noted: frozenset[str] = frozenset()
    consensus: Consensus | None = None

    @property
    def accept(self) -> Verdict:
        """Pay them: finished, and no trap missed. Somebody who is still at it is unknown."""
        if self.verdicts["traps"] == "fail":
            return "fail"
        return "ok" if self.finished else "unknown"

    @property
    def use(self) -> Verdict:
        """Analyse them: no gate failed. With every gate unknown that is unknown, and they are analysed."""
        return self._use(self.noted)

    @property
    def use_but_for_consensus(self) -> Verdict:
        """The same by the gates that look at the rater alone, and not at how the answers go with the others'."""
        return self._use(self.noted | {"consensus"})

    def _use(self, but: frozenset[str]) -> Verdict:
        deciding = {verdict for gate, verdict in self.verdicts.items() if gate not in but}
        return "fail" if "fail" in deciding else "ok" if "ok" in deciding else "unknown"


def judge(session: Session, campaign: Campaign, given: Sequence[Judged] | None = None) -> list[Judgement]:
    """The verdicts of every rater of a campaign who is no preview, in order of coming.

    Args:
        given: everybody's answers, where they were looked up already.
    """
    config, found = from_json(json.loads(campaign.config)), judge_alone(session, campaign)
    pool = {j.pseudonym for j in found if j.use != "fail"}
    answers = judgements(session, campaign.id or 0, everyone=True) if given is None else given
    each = consensus_of(config, answers, pool)
    out: list[Judgement] = []
    for one in found:
        mine = each.get(one.pseudonym)
        verdicts = one.verdicts | {"consensus": _agrees(config, mine, one.finished)}
        out.append(replace(one, verdicts=verdicts, consensus=mine))
    return out


def left_out(session: Session, campaign: Campaign) -> set[str]:
    """Whom the gates exclude from the analysis; the answers are not looked up where no gate asks for them."""
    needs_answers = from_json(json.loads(campaign.config)).gates.consensus_required
    found = (judge if needs_answers else judge_alone)(session, campaign)
    return {j.pseudonym for j in found if j.use == "fail"}


def judge_alone(session: Session, campaign: Campaign) -> list[Judgement]:
    """``judge`` without the consensus: the gates that look at each rater alone, not at how the answers go together."""
    config = running(session, campaign).config
    raters = session.exec(
        select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel").order_by(col(Rater.id))
    ).all()
    checks = _checks(session, campaign)
    scores = _scores(session, campaign)
    repeated = by_rater(twice(session, campaign.id or 0)) if config.repeats else {}
    hurried = _hurried(session, campaign) if config.gates.pace else defaultdict[int, list[bool]](list)
    noted = frozenset(
        gate for gate in ("headphones", "environment", "consensus") if not getattr(config.gates, f"{gate}_required")
    )
    heard: dict[tuple[int, str], Verdict] = {}
    for passage in session.exec(
        select(Passage)
        .join(Rater, col(Rater.id) == col(Passage.rater_id))
        .where(Rater.campaign_id == campaign.id, col(Passage.stage).in_(("headphones", "environment")))
        .order_by(col(Passage.id))
    ):
        heard[passage.rater_id, passage.stage] = _verdict(passage.verdict)  # the last try stands
    found: list[Judgement] = []
    for rater in raters:
        assert rater.id is not None, "rows from the database have ids"
        verdicts: dict[str, Verdict] = {
            "traps": _all_right(checks[rater.id, "trap"]),
            "golds": _all_right(checks[rater.id, "gold"]),
            "variance": _varies(config, scores[rater.id], rater.finished_at is not None),
            "repeats": _steady(config, repeated.get(rater.pseudonym, ()), rater.finished_at is not None),
            "pace": _mostly(hurried[rater.id]),
            "headphones": heard.get((rater.id, "headphones"), "unknown"),
            "environment": heard.get((rater.id, "environment"), "unknown"),
            "consensus": "unknown",
        }
        day = time.strftime("%Y-%m-%d", time.gmtime(rater.joined_at))
        found.append(Judgement(rater.pseudonym, day, verdicts, rater.finished_at is not None, noted))
    return found


def settle(session: Session, campaign: Campaign) -> list[Judgement]:
    """Judge every rater and keep the two decisions in their rows."""
    found = judge(session, campaign)
    by_name = {j.pseudonym: j for j in found}
    for rater in session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")):
        rater.accept, rater.use = by_name[rater.pseudonym].accept, by_name[rater.pseudonym].use
        session.add(rater)
    return found


def gates(found: Sequence[Judgement]) -> dict[str, Any]:
    """How many raters each gate passed, failed or could not judge, in all and by day of joining."""
    days: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for day in sorted({j.day for j in found}):
        days[day] = _count([j for j in found if j.day == day])
    return {"all": _count(found), "by_day": dict(days)}


def panel_csv(session: Session, campaign: Campaign) -> str:
    """Accept or reject by the panel's own ids, for its bulk approval; who is still unknown is left out."""
    found = {j.pseudonym: j for j in judge(session, campaign)}
    rows = [["PROLIFIC_PID", "STUDY_ID", "SESSION_ID", "decision", "reason"]]
    raters = select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel").order_by(col(Rater.id))
    for rater in session.exec(raters):
        panel, judged = json.loads(rater.panel), found[rater.pseudonym]
        if judged.accept == "unknown" or "PROLIFIC_PID" not in panel:
            continue
        reason = "" if judged.accept == "ok" else "an attention check was answered wrongly"
        ids = [panel.get(k, "") for k in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")]
        rows.append([*ids, "accept" if judged.accept == "ok" else "reject", reason])
    return csv_text(rows)


def _agrees(config: CampaignConfig, found: Consensus | None, finished: bool) -> Verdict:
    """Somebody whose answers go their own way. Judged only once all of them are there, and enough."""
    least = config.gates.min_consensus
    if not least or found is None or found.r is None or not finished or found.n < config.gates.consensus_answers:
        return "unknown"
    return "ok" if found.r >= least else "fail"


def _count(found: Sequence[Judgement]) -> dict[str, dict[str, int]]:
    out = {gate: dict(Counter(j.verdicts[gate] for j in found)) for gate in GATES}
    return out | {"accept": dict(Counter(j.accept for j in found)), "use": dict(Counter(j.use for j in found))}


def _checks(session: Session, campaign: Campaign) -> defaultdict[tuple[int, str], list[bool]]:
    """Whether each answered trap and gold was right: a trap to the point, a gold within one; or the right system."""
    found: defaultdict[tuple[int, str], list[bool]] = defaultdict(list)
    rows = session.exec(
        select(Trial, Answer.id, Item.expected)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Item, col(Item.id) == col(Trial.item_id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, col(Trial.role).in_(("trap", "gold")))
    ).all()
    relative = kind_of(campaign.kind).relative
    for trial, answer, expected in rows:
        if expected is None:
            continue
        given = session.exec(select(Score).where(Score.answer_id == answer)).all()
        scores, each = [s.value for s in given], expected_scores(expected)
        choice = session.exec(select(Choice).where(Choice.answer_id == answer)).first()
        slack = 1 if trial.role == "gold" else 0
        if scores and each and each.keys() <= {s.question for s in given}:
            right = all(abs(s.value - each.get(s.question, s.value)) <= slack for s in given)
            found[trial.rater_id, trial.role].append(right)
        elif scores and expected.lstrip("-").isdigit():
            found[trial.rater_id, trial.role].append(all(abs(v - int(expected)) <= slack for v in scores))
        elif scores and relative:  # of two sounds, the one that came out better
            shown = _shown(session, trial.id)
            right = all(v != 0 and shown["b" if v > 0 else "a"] == expected for v in scores)
            found[trial.rater_id, trial.role].append(right)
        elif choice is not None:
            shown = _shown(session, trial.id)
            wanted = shown["x"] if choice.question == MATCH else expected  # what X is, the design says
            found[trial.rater_id, trial.role].append(wanted in (choice.outcome, shown.get(choice.outcome)))
    return found


def _shown(session: Session, trial: str) -> dict[str, str]:
    """The systems of a screen with two sounds: ``a`` and ``b`` as shown, and ``x``, its reference, where it has one."""
    rows = session.exec(
        select(Slot.slot, Slot.place, System.name)
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Slot.trial_id == trial)
    )
    return {"x" if place == "reference" else "ab"[slot]: name for slot, place, name in rows}


def _scores(session: Session, campaign: Campaign) -> defaultdict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for rater, value in session.exec(
        select(Trial.rater_id, Score.value)
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Score, col(Score.answer_id) == col(Answer.id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, Trial.role == "test")
    ):
        found[rater].append(value)
    return found


def _hurried(session: Session, campaign: Campaign) -> defaultdict[int, list[bool]]:
    """Whether each answer came sooner after its screen was first shown than what it says was heard can be played."""
    found: defaultdict[int, list[bool]] = defaultdict(list)
    wanted = (
        select(Trial.rater_id, Trial.issued_at, Answer.received_at, func.sum(Play.heard_ms))
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Play, col(Play.answer_id) == col(Answer.id))
        .where(Trial.campaign_id == campaign.id, Answer.counted == 1, col(Trial.issued_at).is_not(None))
        .group_by(col(Trial.rater_id), col(Trial.issued_at), col(Answer.received_at), col(Answer.id))
    )
    rows: Iterable[tuple[int, float, float, float]] = session.execute(wanted).tuples()  # type: ignore[assignment]
    for rater, issued_at, received_at, heard_ms in rows:
        found[rater].append(1000.0 * (received_at - issued_at) < heard_ms - _PACE_SLACK_MS)
    return found


def _mostly(hurried: Sequence[bool]) -> Verdict:
    if not hurried:
        return "unknown"
    return "fail" if sum(hurried) > _TOO_SOON * len(hurried) else "ok"


def _all_right(answers: Sequence[bool]) -> Verdict:
    if not answers:
        return "unknown"
    return "ok" if all(answers) else "fail"


def _varies(config: CampaignConfig, scores: Sequence[int], finished: bool) -> Verdict:
    """P.808: somebody whose ratings hardly vary did not listen. Judged only once all of them are there."""
    if not config.gates.min_variance or not finished or len(scores) < 2:
        return "unknown"
    return "ok" if statistics.variance(scores) >= config.gates.min_variance else "fail"


def _steady(config: CampaignConfig, repeated: Sequence[Twice], finished: bool) -> Verdict:
    """Somebody who answers the same screen otherwise each time guesses. Judged only once all of them are there."""
    found = consistency(repeated)
    if found is None or not config.gates.max_repeat_distance or not finished:
        return "unknown"
    return "ok" if found.apart <= config.gates.max_repeat_distance else "fail"


def _verdict(value: str) -> Verdict:
    return "ok" if value == "ok" else "fail" if value == "fail" else "unknown"
