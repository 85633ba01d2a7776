"""What a sitting has asked already holds in its later parts: it is taken over, and a part asks only the rest.

A part's own screening and checks are obeyed: whom they turn away does not rate that part, and goes on with the next.
"""

import json
import time
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.campaign.config import CampaignConfig
from studio.mos.rating.parts import config_of
from studio.mos.rating.steps import TRIES, stages
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater

_ENTERED = "entered"  # the stage of a passage that says what an earlier part has settled
_CHECKS = ("headphones", "environment")


def rows_of(session: Session, rater: Rater) -> list[Rater]:
    """The rater's rows in all parts of the sitting that they have come to, in order."""
    return list(session.exec(select(Rater).where(Rater.identity == rater.identity).order_by(col(Rater.part))))


def steps_of(session: Session, rater: Rater, config: CampaignConfig) -> list[str]:
    """The stages of a rater's way through one part, in order: without those that an earlier one has settled."""
    if rater.part == 1:
        return stages(config)
    noted = session.exec(select(Passage.data).where(Passage.rater_id == rater.id, Passage.stage == _ENTERED)).first()
    settled: list[str] = json.loads(noted)["settled"] if noted else []
    return [stage for stage in stages(config) if stage != "consent" and stage not in settled]


def take_over(session: Session, rater: Rater, config: CampaignConfig) -> None:
    """Let somebody who comes to a later part have what earlier ones asked; sets the stage that they are at.

    The same headphone check, environment test, level and screening question are not asked twice; their verdicts hold
    here. A check that was failed where nobody goes for it is done once more where this part requires it.
    """
    gates = config.gates
    passed = _passed(session, rater)
    kept: list[Passage] = []
    settled: list[str] = []
    turned_away = False
    if gates.level and (level := [p for p, _ in passed if p.stage == "level"]):
        kept += level[:1]
        settled.append("level")
    for stage in _CHECKS:
        mine = [p for p, of in passed if p.stage == stage and _is_same_check(stage, of, config)]
        kept += mine
        is_failed = bool(mine) and mine[-1].verdict == "fail" and getattr(gates, f"{stage}_required")
        turned_away |= is_failed and len(mine) >= TRIES
        settled += [stage] if mine and not is_failed else []
    answers = given_answers(session, rater, config)
    out = is_screened_out(config, answers)
    copied = {(p.stage, p.at): p for p in kept}  # a part in between has taken them over, too
    _note(session, rater, _ENTERED, {"settled": settled + (["screening"] if _is_whole(config, answers) else [])})
    for p in copied.values():
        session.add(Passage(rater_id=rater.id or 0, stage=p.stage, verdict=p.verdict, at=p.at, data=p.data))
    if answers and (out or _is_whole(config, answers)):
        _note(session, rater, "screening", answers, "fail" if out else "ok")
    session.flush()
    rater.stage = "screened_out" if out or turned_away else steps_of(session, rater, config)[0]
    session.add(rater)


def given_answers(session: Session, rater: Rater, config: CampaignConfig) -> dict[str, Any]:
    """What the rater said in earlier parts to the very screening questions that this one asks, by their ids."""
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
    """Whether one of these answers to the screening does not go on."""
    return any(s.accept and s.id in answers and answers[s.id] not in s.accept for s in config.gates.screening)


def _passed(session: Session, rater: Rater) -> list[tuple[Passage, CampaignConfig]]:
    """What the rater passed in earlier parts, with the settings of each part."""
    found: list[tuple[Passage, CampaignConfig]] = []
    for row in rows_of(session, rater):
        campaign = session.get(Campaign, row.campaign_id)
        if row.part >= rater.part or campaign is None:
            continue
        passages = session.exec(select(Passage).where(Passage.rater_id == row.id).order_by(col(Passage.id))).all()
        found += [(p, config_of(campaign)) for p in passages]
    return found


def _is_same_check(stage: str, of: CampaignConfig, config: CampaignConfig) -> bool:
    mine = getattr(config.gates, stage)
    return mine not in (False, "none") and getattr(of.gates, stage) == mine


def _is_same(one: Any, other: Any) -> bool:
    """Whether two screening questions are the same to a rater; who goes on may differ."""
    return (one.id, one.prompt, one.options) == (other.id, other.prompt, other.options)


def _is_whole(config: CampaignConfig, answers: dict[str, Any]) -> bool:
    return bool(answers) and all(s.id in answers for s in config.gates.screening)


def _note(session: Session, rater: Rater, stage: str, data: dict[str, Any], verdict: str = "ok") -> None:
    assert rater.id is not None, "rows from the database have ids"
    row = Passage(rater_id=rater.id, stage=stage, verdict=verdict, at=time.time(), data=write_json(data))
    session.add(row)
