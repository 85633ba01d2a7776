"""Carry-over between parts of a session: later parts reuse screening answers and checks of earlier ones.

A part's own requirements still apply: a rater who fails them skips that part and continues with the next.
"""

import json
import time
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.campaign.config import CampaignConfig
from studio.mos.sessions.parts import campaign_config
from studio.mos.sessions.stage_order import MAX_TRIES, ordered_stages
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater

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
    passed = _passed(session, rater)
    reused: list[Passage] = []
    settled: list[str] = []
    turned_away = False
    if gates.level and (level := [p for p, _ in passed if p.stage == "level"]):
        reused += level[:1]
        settled.append("level")
    for stage in _CHECKS:
        mine = [p for p, of in passed if p.stage == stage and _is_same_check(stage, of, config)]
        reused += mine
        is_failed = bool(mine) and mine[-1].verdict == "fail" and getattr(gates, f"{stage}_required")
        turned_away |= is_failed and len(mine) >= MAX_TRIES
        settled += [stage] if mine and not is_failed else []
    answers = earlier_screening_answers(session, rater, config)
    out = is_screened_out(config, answers)
    copied = {(p.stage, p.at): p for p in reused}  # an intermediate part may have copied them, too
    _note(session, rater, _ENTERED, {"settled": settled + (["screening"] if _is_whole(config, answers) else [])})
    for p in copied.values():
        session.add(Passage(rater_id=rater.id or 0, stage=p.stage, verdict=p.verdict, at=p.at, data=p.data))
    if answers and (out or _is_whole(config, answers)):
        _note(session, rater, "screening", answers, "fail" if out else "ok")
    session.flush()
    rater.stage = "screened_out" if out or turned_away else rater_stages(session, rater, config)[0]
    session.add(rater)


def earlier_screening_answers(session: Session, rater: Rater, config: CampaignConfig) -> dict[str, Any]:
    """Answers from earlier parts to this part's screening questions, by id."""
    if rater.part == 1 or not config.gates.screening:
        return {}
    wanted = {s.id: s for s in config.gates.screening}
    found: dict[str, Any] = {}
    for passage, of in _passed(session, rater):
        if passage.stage == "screening":
            said = json.loads(passage.data)
            same = [s for s in of.gates.screening if s.id in wanted and _is_same(s, wanted[s.id])]
            found |= {s.id: said[s.id] for s in same if s.id in said}
    return found


def is_screened_out(config: CampaignConfig, answers: dict[str, Any]) -> bool:
    """Whether one of these screening answers is not accepted."""
    return any(s.accept and s.id in answers and answers[s.id] not in s.accept for s in config.gates.screening)


def _passed(session: Session, rater: Rater) -> list[tuple[Passage, CampaignConfig]]:
    """The rater's passages in earlier parts, with the settings of each part."""
    found: list[tuple[Passage, CampaignConfig]] = []
    for row in raters_of_session(session, rater):
        campaign = session.get(Campaign, row.campaign_id)
        if row.part >= rater.part or campaign is None:
            continue
        passages = session.exec(select(Passage).where(Passage.rater_id == row.id).order_by(col(Passage.id))).all()
        found += [(p, campaign_config(campaign)) for p in passages]
    return found


def _is_same_check(stage: str, of: CampaignConfig, config: CampaignConfig) -> bool:
    mine = getattr(config.gates, stage)
    return mine not in (False, "none") and getattr(of.gates, stage) == mine


def _is_same(one: Any, other: Any) -> bool:
    """Whether two screening questions look the same to a rater; accepted answers may differ."""
    return (one.id, one.prompt, one.options) == (other.id, other.prompt, other.options)


def _is_whole(config: CampaignConfig, answers: dict[str, Any]) -> bool:
    return bool(answers) and all(s.id in answers for s in config.gates.screening)


def _note(session: Session, rater: Rater, stage: str, data: dict[str, Any], verdict: str = "ok") -> None:
    assert rater.id is not None, "rows from the database have ids"
    row = Passage(rater_id=rater.id, stage=stage, verdict=verdict, at=time.time(), data=write_json(data))
    session.add(row)
