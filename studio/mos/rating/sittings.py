"""A rater's way through a campaign: from consent to the last screen, one stage at a time, resumable anywhere.

Where somebody stands is in the database alone; a browser asks for it and draws it.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from sqlmodel import Session, col, func, select, update

from studio.core.errors import BadMessage, StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.rating import environment, headphones
from studio.mos.rating.battles import give_battle
from studio.mos.rating.campaigns import NotOpen, Running
from studio.mos.rating.dealing import give_trials, has_trials, release
from studio.mos.rating.steps import BEFORE_TRIALS, ENDS, TRIES, next_step, stages
from studio.mos.rating.taking_over import given_answers, is_screened_out, rows_of, steps_of
from studio.mos.store.access import TooMany, Visitor
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater
from studio.mos.store.tables.trials import Trial

MAX_UNFINISHED = 5000  # raters of one campaign who began within a day: one link makes no more rows than that
_DAY_S = 86_400.0


class NotThisStage(StudioError):
    """A stage was sent that the rater is not at (a second tab, an old page)."""

    code = "not_this_stage"


@dataclass(frozen=True)
class Progress:
    """Where a rater is among the screens: the next trial, how many are answered, how many there are."""

    trial: Trial | None
    answered: int
    of: int


def known(session: Session, campaign_id: int, identity: str) -> Rater | None:
    """The rater of an identity, who has agreed: the same identity is the same sitting, on any browser."""
    return session.exec(select(Rater).where(Rater.campaign_id == campaign_id, Rater.identity == identity)).first()


def consent(session: Session, run: Running, visitor: Visitor, stage: str, data: dict[str, Any]) -> Rater | None:
    """The rater that a visitor becomes by agreeing; None who does not agree, and of them nothing is kept.

    Raises:
        NotThisStage: another step was sent.
        BadMessage: the consent is of another version.
        NotOpen: the campaign takes nobody new.
        TooMany: as many as there may be have begun within a day and not finished.
    """
    if stage != "consent":
        raise _out_of_order(stages(run.config), "consent", stage)
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
        stage=next_step(stages(run.config), "consent"),
        consent_version=version,
        panel=write_json(visitor.panel),
        device=write_json(visitor.device),
        joined_at=now,
        seen_at=now,
    )
    session.add(rater)
    session.flush()
    session.add(Passage(rater_id=_id(rater), stage="consent", verdict="ok", at=now, data="{}"))
    return rater


def pass_stage(session: Session, run: Running, rater: Rater, stage: str, data: dict[str, Any]) -> None:
    """Take what a rater did at a stage, keep it, and move on.

    Raises:
        NotThisStage: the rater is at another one; nothing was changed.
        NotOpen: the campaign was closed before the rater had begun; nothing was changed.
        BadMessage: what was sent does not fit the stage.
    """
    check_may_begin(session, rater)
    order = steps_of(session, rater, run.config)
    if stage != rater.stage or stage == "trials" or stage in ENDS:
        raise _out_of_order(order, rater.stage, stage)
    verdict, goes_to = "ok", next_step(order, stage)
    kept: dict[str, Any] = {}
    if stage == "screening":
        kept = _screening(run.config, data, given_answers(session, rater, run.config))
        if is_screened_out(run.config, kept):
            verdict, goes_to = "fail", "screened_out"
    elif stage in ("headphones", "environment"):
        seen = tries(session, rater, stage)
        verdict, kept = _check(run.config, rater, stage, seen, data)
        if verdict == "fail" and getattr(run.config.gates, f"{stage}_required"):
            goes_to = stage if seen + 1 < TRIES else "screened_out"
    elif stage == "comments":
        kept = {"comment": str(data.get("comment", ""))[:4000]}
    session.add(Passage(rater_id=_id(rater), stage=stage, verdict=verdict, at=time.time(), data=write_json(kept)))
    rater.seen_at = time.time()
    rater.stage = goes_to
    give = give_battle if run.kind.standing else give_trials
    if goes_to == "trials" and not has_trials(session, rater) and not give(session, run, rater):
        rater.stage = "full"
    session.add(rater)


def after_trials(session: Session, run: Running, rater: Rater) -> str:
    """The stage of a rater who has answered every screen of a part: the last word is for the end of the sitting."""
    has_more = bool(run.config.then) or (rater.part > 1 and _has_spoken(session, rows_of(session, rater)))
    return "done" if has_more else "comments"


def is_over(rater: Rater) -> bool:
    """Whether a rater is through with a part, so that the sitting goes on; a part that they cannot do is left out."""
    return rater.stage == "done" or (rater.part > 1 and rater.stage in ("screened_out", "full"))


def last_word(session: Session, rater: Rater) -> Rater:
    """The rater at the end of a sitting, in the last part that they did; who was not asked for a word yet is now."""
    rows = rows_of(session, rater)
    did = next((row for row in reversed(rows) if row.finished_at is not None), rater)
    if did.stage == "done" and not _has_spoken(session, rows):
        did.stage = "comments"
        session.add(did)
    return did


def _has_spoken(session: Session, rows: Sequence[Rater]) -> bool:
    """Whether a last word was asked for in one of the parts of a sitting."""
    ids = [row.id for row in rows]
    asked = select(Passage.id).where(col(Passage.rater_id).in_(ids), Passage.stage == "comments")
    return session.exec(asked).first() is not None


def go_on(session: Session, run: Running, rater: Rater) -> None:
    """Give a rater of a standing test the next battle, where none is open and no cap stands before it.

    Raises:
        NotOpen: the test was closed; what is open may still be answered.
    """
    if run.kind.standing and rater.stage == "trials" and not open_screens(session, rater)[0]:
        check_open(session, run.id, rater.role)
        give_battle(session, run, rater)


def check_may_begin(session: Session, rater: Rater) -> None:
    """Raises NotOpen while a campaign is closed and the rater was given nothing yet; whoever has begun may finish."""
    if rater.stage in BEFORE_TRIALS and rater.part == 1:
        check_open(session, rater.campaign_id, rater.role)


def check_open(session: Session, campaign_id: int, role: str) -> None:
    """Raises NotOpen where a campaign takes nobody new; a preview looks at it whenever it likes."""
    state = session.exec(select(Campaign.state).where(Campaign.id == campaign_id)).one()
    if role == "panel" and state != "open":
        raise NotOpen("this test takes nobody new", "ask the people who run it")


def _check_room(session: Session, campaign_id: int, role: str, now: float) -> None:
    begun = select(func.count()).where(Rater.campaign_id == campaign_id, Rater.role == role)
    unfinished = begun.where(col(Rater.finished_at).is_(None), Rater.joined_at > now - _DAY_S)
    if session.exec(unfinished).one() >= MAX_UNFINISHED:
        raise TooMany(
            f"{MAX_UNFINISHED} people have begun this test today and not finished it", "come back later", 3600
        )


def withdraw(session: Session, rater: Rater) -> None:
    """A rater leaves: what they answered stays until they ask to be forgotten; open screens go to others."""
    if rater.stage == "withdrawn":
        return
    session.add(
        Passage(rater_id=_id(rater), stage=rater.stage, verdict="unknown", at=time.time(), data='{"withdrew": true}')
    )
    rater.stage = "withdrawn"
    session.add(rater)
    release(session, [_id(rater)])


def check_seed(rater: Rater, tries: int) -> int:
    """The seed of a rater's headphone check or environment test; another at the second try."""
    return Random(f"{rater.identity}|{tries}").getrandbits(31)


def tries(session: Session, rater: Rater, stage: str) -> int:
    """How often a rater was at the headphone check, or the environment test, already."""
    found = session.exec(
        select(func.count()).select_from(Passage).where(Passage.rater_id == rater.id, Passage.stage == stage)
    )
    return int(found.one())


def progress(session: Session, rater: Rater) -> Progress:
    """The first screen without an answer, and how far the rater is."""
    left, of = open_screens(session, rater)
    return Progress(session.get(Trial, left[0]) if left else None, of - len(left), of)


def open_screens(session: Session, rater: Rater) -> tuple[list[str], int]:
    """The rater's screens without an answer, in order, and how many screens there are."""
    rows = session.exec(
        select(Trial.id, Answer.id)
        .outerjoin(Answer, (col(Answer.trial_id) == col(Trial.id)) & (col(Answer.counted) == 1))
        .where(Trial.rater_id == rater.id)
        .order_by(col(Trial.position))
    ).all()
    return [trial for trial, answer in rows if answer is None], len(rows)


def note_seen(session: Session, rater_id: int, issued: str | None) -> None:
    """Note that a rater is there, and when the screen ``issued`` was first shown."""
    now = time.time()
    session.connection().execute(update(Rater).where(col(Rater.id) == rater_id).values(seen_at=now))
    if issued is not None:
        first = update(Trial).where(col(Trial.id) == issued, col(Trial.issued_at).is_(None))
        session.connection().execute(first.values(issued_at=now))


def _out_of_order(order: list[str], at: str, sent: str) -> NotThisStage:
    """What to tell somebody whose step came twice, too early, or not from a page of ours."""
    if at in ENDS:
        return NotThisStage("this sitting has come to its end", "reload the page to see how it ended")
    if sent not in order:
        return NotThisStage(f"this test has no step {sent[:40]!r}", f"its steps are {', '.join(order)}")
    if sent == at:
        return NotThisStage(f"the step {at!r} is passed by answering its screens", "reload the page and answer them")
    where = "is behind you already" if order.index(sent) < order.index(at) else "is still to come"
    return NotThisStage(f"the step {sent!r} {where}: you are at {at!r}", "reload the page to go on from there")


def _screening(config: CampaignConfig, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    sent = data.get("answers")
    if not isinstance(sent, dict):
        raise BadMessage("the screening answers are missing", "answer every question")
    answers = cast("dict[str, Any]", sent)
    kept = dict(before)
    for screen in (s for s in config.gates.screening if s.id not in before):
        if answers.get(screen.id) not in screen.options:
            raise BadMessage(f"the question {screen.id!r} is not answered", f"choose {', '.join(screen.options)}")
        kept[screen.id] = answers[screen.id]
    return kept


def _check(
    config: CampaignConfig, rater: Rater, stage: str, seen: int, data: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """A verdict of three: a check that could not be played is *unknown*, and unknown excludes nobody."""
    if data.get("error"):
        return "unknown", {"error": str(data["error"])[:500]}
    sent = data.get("answers")
    answers = [a for a in cast("list[Any]", sent) if isinstance(a, int)] if isinstance(sent, list) else []
    asked, what = _CHECKS[stage]
    if len(answers) != asked:
        raise BadMessage(f"the {what} is not finished", "answer each of its sounds with a number")
    seed = check_seed(rater, seen)
    if stage == "environment":
        right = environment.right(seed, answers)
        return "ok" if right >= environment.NEEDED else "fail", {"answers": answers, "right": right}
    return "ok" if headphones.passed(config.gates.headphones, seed, answers) else "fail", {"answers": answers}


_CHECKS = {
    "headphones": (headphones.CHECK_SOUNDS, "headphone check"),
    "environment": (environment.PAIRS, "environment test"),
}


def _id(rater: Rater) -> int:
    assert rater.id is not None, "rows from the database have ids"
    return rater.id
