"""Transition from one part of a session to the next; later parts reuse answers and checks of earlier ones.

A part's own requirements still apply: a rater who fails them skips that part and continues with the next.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.campaign.config import CampaignConfig, campaign_config
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.sessions.assignment import is_full
from studio.mos.sessions.campaigns import LoadedCampaign, opening_problems
from studio.mos.sessions.parts import MAX_TRIES, later_parts, ordered_stages
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables import Campaign, Passage, Rater, row_id

_ENTERED = "entered"  # stage of a passage that lists the stages settled by earlier parts
_CHECKS = ("headphones", "environment")


def raters_of_session(session: Session, rater: Rater) -> list[Rater]:
    """The rater's rows in all parts of the session, in order."""
    return list(session.exec(select(Rater).where(Rater.identity == rater.identity).order_by(col(Rater.part))))


def rater_stages(session: Session, rater: Rater, config: CampaignConfig) -> list[str]:
    """The stages of a rater in one part, in order, without those settled by earlier parts."""
    if rater.part == 1:
        return ordered_stages(config)
    noted = session.exec(select(Passage.data).where(Passage.rater_id == rater.id, Passage.stage == _ENTERED)).first()
    settled: list[str] = json.loads(noted)["settled"] if noted else []
    return [stage for stage in ordered_stages(config) if stage != "consent" and stage not in settled]


def carry_over(session: Session, rater: Rater, config: CampaignConfig) -> None:
    """Copy results of earlier parts to a rater's row in a later part, and set its first stage.

    The same headphone check, environment test, level and screening question are not repeated. A check that was failed
    in a part that did not require it is repeated once if this part requires it.
    """
    gates = config.gates
    earlier = _earlier_passages(session, rater)
    reused: list[Passage] = []
    settled: list[str] = []
    turned_away = False
    if gates.level and (level := [p for p, _ in earlier if p.stage == "level"]):
        reused += level[:1]
        settled.append("level")
    for stage in _CHECKS:
        mine = [p for p, of in earlier if p.stage == stage and _is_same_check(stage, of, config)]
        reused += mine
        is_failed = bool(mine) and mine[-1].verdict == "fail" and getattr(gates, f"{stage}_required")
        turned_away |= is_failed and len(mine) >= MAX_TRIES
        settled += [stage] if mine and not is_failed else []
    answers = earlier_screening_answers(session, rater, config)
    out = is_screened_out(config, answers)
    copied = {(p.stage, p.at): p for p in reused}  # an intermediate part may have copied them, too
    is_screened = _has_all_answers(config, answers)
    _add_passage(session, rater, _ENTERED, {"settled": settled + (["screening"] if is_screened else [])})
    for p in copied.values():
        session.add(Passage(rater_id=row_id(rater), stage=p.stage, verdict=p.verdict, at=p.at, data=p.data))
    if answers and (out or is_screened):
        _add_passage(session, rater, "screening", answers, "fail" if out else "ok")
    session.flush()
    rater.stage = "screened_out" if out or turned_away else rater_stages(session, rater, config)[0]
    session.add(rater)


def earlier_screening_answers(session: Session, rater: Rater, config: CampaignConfig) -> dict[str, Any]:
    """Answers from earlier parts to this part's screening questions, by id."""
    if rater.part == 1 or not config.gates.screening:
        return {}
    wanted = {s.id: s for s in config.gates.screening}
    answers: dict[str, Any] = {}
    for passage, of in _earlier_passages(session, rater):
        if passage.stage == "screening":
            given_answers = json.loads(passage.data)
            same = [s for s in of.gates.screening if s.id in wanted and _is_same(s, wanted[s.id])]
            answers |= {s.id: given_answers[s.id] for s in same if s.id in given_answers}
    return answers


def is_screened_out(config: CampaignConfig, answers: dict[str, Any]) -> bool:
    """Whether one of these screening answers is not accepted."""
    return any(s.accept and s.id in answers and answers[s.id] not in s.accept for s in config.gates.screening)


def _earlier_passages(session: Session, rater: Rater) -> list[tuple[Passage, CampaignConfig]]:
    """The rater's passages in earlier parts, with the settings of each part."""
    earlier: list[tuple[Passage, CampaignConfig]] = []
    for row in raters_of_session(session, rater):
        campaign = session.get(Campaign, row.campaign_id)
        if row.part >= rater.part or campaign is None:
            continue
        passages = session.exec(select(Passage).where(Passage.rater_id == row.id).order_by(col(Passage.id))).all()
        earlier += [(p, campaign_config(campaign)) for p in passages]
    return earlier


def _is_same_check(stage: str, of: CampaignConfig, config: CampaignConfig) -> bool:
    mine = getattr(config.gates, stage)
    return mine not in (False, "none") and getattr(of.gates, stage) == mine


def _is_same(one: ScreeningQuestion, other: ScreeningQuestion) -> bool:
    """Whether two screening questions look the same to a rater; accepted answers may differ."""
    return replace(one, accept=[]) == replace(other, accept=[])


def _has_all_answers(config: CampaignConfig, answers: dict[str, Any]) -> bool:
    return bool(answers) and all(s.id in answers for s in config.gates.screening)


def _add_passage(session: Session, rater: Rater, stage: str, data: dict[str, Any], verdict: str = "ok") -> None:
    row = Passage(rater_id=row_id(rater), stage=stage, verdict=verdict, at=time.time(), data=write_json(data))
    session.add(row)


def current_part(session: Session, rater: Rater) -> Rater:
    """The rater's row in their current part."""
    campaign = session.get(Campaign, rater.campaign_id)
    if not is_part_finished(rater) or campaign is None or campaign.id is None:
        return rater
    for later, _ in later_parts(session, campaign_config(campaign), campaign.id):
        rater = _rater_in(session, later, rater) or rater
        if not is_part_finished(rater):
            break
    return rater


def enter_next_part(
    session: Session, rater: Rater, run: LoadedCampaign, run_of: Callable[[Campaign], LoadedCampaign]
) -> Rater:
    """The rater's row to continue with: this part until it is finished, then the next part with room.

    The parts of a session share one consent (studio.mos.sessions.parts). After the last part comments are requested.
    """
    if not is_part_finished(rater):
        return rater
    for campaign, config in later_parts(session, run.config, run.id):
        there = _rater_in(session, campaign, rater)
        if there is None and _has_room(session, campaign, rater.role, run_of):
            there = _create_rater(session, campaign, config, rater)
        rater = there or rater
        if not is_part_finished(rater):
            return rater
    return enter_comments(session, rater) if run.config.then or rater.part > 1 else rater


def _rater_in(session: Session, campaign: Campaign, rater: Rater) -> Rater | None:
    return find_rater(session, row_id(campaign), rater.identity)


def _create_rater(session: Session, campaign: Campaign, config: CampaignConfig, before: Rater) -> Rater:
    now = time.time()
    rater = Rater(
        campaign_id=row_id(campaign),
        identity=before.identity,
        pseudonym=before.pseudonym,
        role=before.role,
        stage="instructions",  # replaced by ``carry_over``
        part=before.part + 1,
        consent_version=before.consent_version,
        panel=before.panel,
        device=before.device,
        joined_at=now,
        seen_at=now,
    )
    session.add(rater)
    session.flush()
    carry_over(session, rater, config)
    return rater


def _has_room(session: Session, campaign: Campaign, role: str, run_of: Callable[[Campaign], LoadedCampaign]) -> bool:
    if role == "preview":
        return campaign.state != "draft" or not opening_problems(session, campaign)
    return campaign.state == "open" and not is_full(session, run_of(campaign))


def find_rater(session: Session, campaign_id: int, identity: str) -> Rater | None:
    """The rater with an identity, which is the same in every browser."""
    return session.exec(select(Rater).where(Rater.campaign_id == campaign_id, Rater.identity == identity)).first()


def is_part_finished(rater: Rater) -> bool:
    """Whether a rater has finished a part, or must skip a later part, so that the session continues."""
    return rater.stage == "done" or (rater.part > 1 and rater.stage in ("screened_out", "full"))


def enter_comments(session: Session, rater: Rater) -> Rater:
    """The rater's row in the last completed part; moves it to the comments unless they were requested before."""
    rows = raters_of_session(session, rater)
    last = next((row for row in reversed(rows) if row.finished_at is not None), rater)
    if last.stage == "done" and not has_commented(session, rows):
        last.stage = "comments"
        session.add(last)
    return last


def has_commented(session: Session, rows: Sequence[Rater]) -> bool:
    """Whether comments were requested in a part of the session."""
    ids = [row.id for row in rows]
    query = select(Passage.id).where(col(Passage.rater_id).in_(ids), Passage.stage == "comments")
    return session.exec(query).first() is not None
