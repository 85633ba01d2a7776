"""A rater's progress through a campaign, from consent to the last trial, one stage at a time.

The state is in the database only, so a session can be resumed in any browser.
"""

import secrets
import time
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from sqlmodel import Session, col, func, select, update

from studio.core.errors import BadMessage, StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.sessions import hearing_checks
from studio.mos.sessions.assignment import assign_battle, assign_trials, has_trials, release_trials
from studio.mos.sessions.campaigns import LoadedCampaign, NotOpen
from studio.mos.sessions.carry_over import (
    earlier_screening_answers,
    has_commented,
    is_screened_out,
    rater_stages,
    raters_of_session,
)
from studio.mos.sessions.parts import BEFORE_TRIALS, END_STAGES, MAX_TRIES, next_stage, ordered_stages
from studio.mos.store.access import TooMany, Visitor
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables import Answer, Campaign, Passage, Rater, Trial, row_id

MAX_UNFINISHED = 5000  # unfinished raters of a campaign within a day; bounds the rows that one link can create
_DAY_S = 86_400.0
_SEEN_STEP_S = 60.0  # resolution of a rater's ``seen_at``; saves a write per trial


class NotThisStage(StudioError):
    """The request is for a stage that the rater is not at (a second tab, an old page)."""

    code = "not_this_stage"


@dataclass(frozen=True)
class Progress:
    """A rater's next trial, the number of answered trials, and the total."""

    trial: Trial | None
    answered: int
    of: int


def accept_consent(
    session: Session, run: LoadedCampaign, visitor: Visitor, stage: str, data: dict[str, Any]
) -> Rater | None:
    """Create the rater of a visitor who consents; None if they decline, then nothing is stored.

    Raises NotThisStage: another stage was sent; BadMessage: the consent is of another version; NotOpen: the campaign
    accepts no new raters; TooMany: too many raters began within a day without finishing.
    """
    if stage != "consent":
        raise _out_of_order(ordered_stages(run.config), "consent", stage)
    version = run.config.texts.consent_version
    if data.get("version") != version:
        raise BadMessage("the consent is of another version", "reload the page and read it again")
    if data.get("agreed") is not True:
        return None
    check_open(session, run.id, visitor.role)
    now = time.time()
    _check_room(session, run.id, visitor.role, now)
    rater = Rater(
        campaign_id=run.id,
        identity=visitor.identity,
        pseudonym=f"r{secrets.token_hex(5)}",
        role=visitor.role,
        stage=next_stage(ordered_stages(run.config), "consent"),
        consent_version=version,
        panel=write_json(visitor.panel),
        device=write_json(visitor.device),
        joined_at=now,
        seen_at=now,
    )
    session.add(rater)
    session.flush()
    session.add(Passage(rater_id=row_id(rater), stage="consent", verdict="ok", at=now, data="{}"))
    return rater


def complete_stage(session: Session, run: LoadedCampaign, rater: Rater, stage: str, data: dict[str, Any]) -> None:
    """Store the result of a stage and move to the next.

    Raises:
        NotThisStage: the rater is at another stage; nothing was changed.
        NotOpen: the campaign was closed before the rater had begun; nothing was changed.
        BadMessage: the data does not fit the stage.
    """
    check_may_start(session, rater)
    order = rater_stages(session, rater, run.config)
    if stage != rater.stage or stage == "trials" or stage in END_STAGES:
        raise _out_of_order(order, rater.stage, stage)
    verdict, goes_to = "ok", next_stage(order, stage)
    result: dict[str, Any] = {}
    if stage == "screening":
        result = _screening(run.config, data, earlier_screening_answers(session, rater, run.config))
        if is_screened_out(run.config, result):
            verdict, goes_to = "fail", "screened_out"
    elif stage in ("headphones", "environment"):
        seen = count_tries(session, rater, stage)
        verdict, result = _check(run.config, rater, stage, seen, data)
        if verdict == "fail" and getattr(run.config.gates, f"{stage}_required"):
            goes_to = stage if seen + 1 < MAX_TRIES else "screened_out"
    elif stage == "comments":
        result = {"comment": str(data.get("comment", ""))[:4000]}
    session.add(Passage(rater_id=row_id(rater), stage=stage, verdict=verdict, at=time.time(), data=write_json(result)))
    rater.seen_at = time.time()
    rater.stage = goes_to
    assign = assign_battle if run.kind.is_standing else assign_trials
    if goes_to == "trials" and not has_trials(session, rater) and not assign(session, run, rater):
        rater.stage = "full"
    session.add(rater)


def stage_after_trials(session: Session, run: LoadedCampaign, rater: Rater) -> str:
    """The stage after all trials of a part are answered: comments come at the end of the session."""
    has_more = bool(run.config.then) or (rater.part > 1 and has_commented(session, raters_of_session(session, rater)))
    return "done" if has_more else "comments"


def assign_next_battle(session: Session, run: LoadedCampaign, rater: Rater) -> None:
    """Assign the next battle of an arena, unless one is open or a cap is reached.

    Raises NotOpen: the test was closed; an open battle may still be answered.
    """
    if run.kind.is_standing and rater.stage == "trials" and not open_trials(session, rater)[0]:
        check_open(session, run.id, rater.role)
        assign_battle(session, run, rater)


def check_may_start(session: Session, rater: Rater) -> None:
    """Raises NotOpen if the campaign is closed and the rater has no trials yet; others may finish."""
    if rater.stage in BEFORE_TRIALS and rater.part == 1:
        check_open(session, rater.campaign_id, rater.role)


def check_open(session: Session, campaign_id: int, role: str) -> None:
    """Raises NotOpen if a campaign is not open; previews are always allowed."""
    state = session.exec(select(Campaign.state).where(Campaign.id == campaign_id)).one()
    if role == "panel" and state != "open":
        raise NotOpen("this test accepts no new raters", "ask the people who run it")


def _check_room(session: Session, campaign_id: int, role: str, now: float) -> None:
    begun = select(func.count()).where(Rater.campaign_id == campaign_id, Rater.role == role)
    unfinished = begun.where(col(Rater.finished_at).is_(None), Rater.joined_at > now - _DAY_S)
    if session.exec(unfinished).one() >= MAX_UNFINISHED:
        raise TooMany(
            f"{MAX_UNFINISHED} people have begun this test today and not finished it", "come back later", 3600
        )


def withdraw(session: Session, rater: Rater) -> None:
    """Withdraw a rater: answers stay until the rater requests erasure; open trials are released."""
    if rater.stage == "withdrawn":
        return
    session.add(
        Passage(rater_id=row_id(rater), stage=rater.stage, verdict="unknown", at=time.time(), data='{"withdrew": true}')
    )
    rater.stage = "withdrawn"
    session.add(rater)
    release_trials(session, [row_id(rater)])


def check_seed(rater: Rater, try_number: int) -> int:
    """The seed of a rater's headphone check or environment test, by number of earlier tries."""
    return Random(f"{rater.identity}|{try_number}").getrandbits(31)


def count_tries(session: Session, rater: Rater, stage: str) -> int:
    """How often a rater has done the headphone check or environment test."""
    count = session.exec(
        select(func.count()).select_from(Passage).where(Passage.rater_id == rater.id, Passage.stage == stage)
    )
    return int(count.one())


def progress(session: Session, rater: Rater) -> Progress:
    """The first open trial, and the rater's progress."""
    left, of = open_trials(session, rater)
    return Progress(session.get(Trial, left[0]) if left else None, of - len(left), of)


def open_trials(session: Session, rater: Rater) -> tuple[list[str], int]:
    """Ids of the rater's unanswered trials in order, and the total number of trials."""
    rows = session.exec(
        select(Trial.id, Answer.id)
        .outerjoin(Answer, (col(Answer.trial_id) == col(Trial.id)) & (col(Answer.counted) == 1))
        .where(Trial.rater_id == rater.id)
        .order_by(col(Trial.position))
    ).all()
    return [trial for trial, answer in rows if answer is None], len(rows)


def is_stale(rater: Rater) -> bool:
    """Whether ``seen_at`` has to be written again."""
    return abs(time.time() - rater.seen_at) > _SEEN_STEP_S  # the clock may be set back


def record_seen(session: Session, rater: Rater, issued: str | None) -> None:
    """Record the time of a rater's call if it is stale, and the first display of the trial ``issued``."""
    now = time.time()
    if is_stale(rater):
        session.connection().execute(update(Rater).where(col(Rater.id) == rater.id).values(seen_at=now))
    if issued is not None:
        first = update(Trial).where(col(Trial.id) == issued, col(Trial.issued_at).is_(None))
        session.connection().execute(first.values(issued_at=now))


def _out_of_order(order: list[str], at: str, sent: str) -> NotThisStage:
    """The error for a stage that was sent twice, too early, or is unknown."""
    if at in END_STAGES:
        return NotThisStage("this session has ended", "reload the page to see how it ended")
    if sent not in order:
        return NotThisStage(f"this test has no step {sent[:40]!r}", f"its steps are {', '.join(order)}")
    if sent == at:
        return NotThisStage(f"the step {at!r} is passed by answering its trials", "reload the page and answer them")
    where = "is behind you already" if order.index(sent) < order.index(at) else "is still to come"
    return NotThisStage(f"the step {sent!r} {where}: you are at {at!r}", "reload the page to go on from there")


def _screening(config: CampaignConfig, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    sent = data.get("answers")
    if not isinstance(sent, dict):
        raise BadMessage("the screening answers are missing", "answer every question")
    answers = cast("dict[str, Any]", sent)
    merged = dict(before)
    for screen in (s for s in config.gates.screening if s.id not in before):
        value = screen.read(answers.get(screen.id))
        if value is None:
            what = ", ".join(screen.options) or f"a {screen.answer} in its limits"
            raise BadMessage(f"the question {screen.id!r} is not answered", f"give {what}")
        merged[screen.id] = value
    return merged


def _check(
    config: CampaignConfig, rater: Rater, stage: str, seen: int, data: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Verdict and data of a check. A check that could not be played is *unknown*, which excludes no rater."""
    if data.get("error"):
        return "unknown", {"error": str(data["error"])[:500]}
    sent = data.get("answers")
    answers = [a for a in cast("list[Any]", sent) if isinstance(a, int)] if isinstance(sent, list) else []
    required, what = _CHECKS[stage]
    if len(answers) != required:
        raise BadMessage(f"the {what} is not finished", "answer each of its sounds with a number")
    seed = check_seed(rater, seen)
    if stage == "environment":
        right = hearing_checks.count_correct(seed, answers)
        return "ok" if right >= hearing_checks.MIN_PAIRS else "fail", {"answers": answers, "right": right}
    return "ok" if hearing_checks.is_passed(config.gates.headphones, seed, answers) else "fail", {"answers": answers}


_CHECKS = {
    "headphones": (hearing_checks.CHECK_SOUNDS, "headphone check"),
    "environment": (hearing_checks.PAIRS, "environment test"),
}
