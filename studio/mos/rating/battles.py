"""Battles of a standing arena: one at a time, what a rater may still do, and who it was.

Everything is read from the screens that were given and the votes on them (studio.mos.rating.pairing chooses).
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Literal

from sqlmodel import Session, col, func, insert, select

from studio.mos.rating.campaigns import Running
from studio.mos.rating.dealing import IDLE_S, rows_of
from studio.mos.rating.pairing import Tally, choose, pair_of
from studio.mos.store.tables.answers import Answer, Choice
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Stimulus, System
from studio.mos.store.tables.trials import Slot, Trial

DAY_S = 86_400.0
_TALLY_S, _TALLY_SHARE = 5.0, 50.0  # counting all votes anew takes no more than a fiftieth of the writer's time


@dataclass(frozen=True)
class Rest:
    """Why a rater is given no battle now: they had as many as a day may have, or as every pair may have.

    Attributes:
        wait_s: until the next one; None where there will be none.
    """

    why: Literal["day", "pairs"]
    wait_s: float | None = None


def give_battle(session: Session, run: Running, rater: Rater) -> bool:
    """Give a rater who has none open a battle; False where there is none for them now (``rest_of`` says why)."""
    mine = _tally(run, _of_rater(session, rater))
    if _rest(session, run, rater, mine) is not None:
        return False
    assert rater.id is not None, "rows from the database have ids"
    position = sum(mine.votes.values()) + sum(mine.waiting.values())
    rng = Random(f"{run.seed}|{rater.id}|{position}")
    everybody = _known_tally(session, run)
    placed = choose(run.units, everybody, _uncapped(mine, rater), run.config.arena, rng)
    assert placed is not None, "a pair was open"
    if rater.role == "panel":
        everybody.add(placed.unit, placed.order[0], None, 1)
    rows, slots = rows_of(run, rater.id, [placed], position, time.time())
    session.connection().execute(insert(Trial), rows)
    session.connection().execute(insert(Slot), slots)
    return True


def rest_of(session: Session, run: Running, rater: Rater) -> Rest | None:
    """Why a rater gets no battle now; None where one may be given. A preview rests never."""
    return _rest(session, run, rater, _tally(run, _of_rater(session, rater)))


def _rest(session: Session, run: Running, rater: Rater, mine: Tally) -> Rest | None:
    if rater.role == "preview":
        return None
    arena, now = run.config.arena, time.time()
    recent = session.exec(
        select(Trial.issued_at)
        .where(Trial.rater_id == rater.id, col(Trial.issued_at) > now - DAY_S)
        .order_by(col(Trial.issued_at).desc())
        .limit(arena.per_day)
    ).all()
    if all(mine.votes[p] + mine.waiting[p] >= arena.per_pair for p in {pair_of(unit) for unit in run.units}):
        return Rest("pairs")
    if len(recent) >= arena.per_day and (oldest := recent[-1]) is not None:
        return Rest("day", oldest + DAY_S - now)
    return None


def _known_tally(session: Session, run: Running) -> Tally:
    """``tally_of``, from memory for a while, in which what is given is counted as it is given.

    Votes of that while are battles that are on: they are in the number of votes on a pair, though not yet in the wins.
    """
    began_s = time.monotonic()
    if run.desk.tally is None or began_s > run.desk.tally_until_s:
        run.desk.tally = tally_of(session, run)
        took_s = time.monotonic() - began_s
        run.desk.tally_until_s = began_s + max(_TALLY_S, _TALLY_SHARE * took_s)
    return run.desk.tally


def tally_of(session: Session, run: Running) -> Tally:
    """What was given in a campaign to raters who count, and what they voted; skipped battles are none."""
    voted = (
        select(Trial.unit, Trial.lead, Choice.outcome, func.count())
        .join(Answer, col(Answer.trial_id) == col(Trial.id))
        .join(Choice, col(Choice.answer_id) == col(Answer.id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == run.id, Answer.counted == 1, Rater.role == "panel", Rater.use != "fail")
        .group_by(Trial.unit, col(Trial.lead), Choice.outcome)
    )
    answered = select(Answer.trial_id).where(Answer.trial_id == Trial.id).exists()
    is_on = (
        select(Trial.unit, Trial.lead, func.count())
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == run.id, Rater.role == "panel", Trial.released == 0, ~answered)
        .where(col(Trial.issued_at) > time.time() - IDLE_S)
        .group_by(Trial.unit, col(Trial.lead))
    )
    on = [(unit, lead, None, count) for unit, lead, count in session.exec(is_on)]
    return _tally(run, [*session.exec(voted), *on])


def names_of(session: Session, trial_id: str) -> list[str]:
    """The systems of a battle in the order of its voices: what a vote tells, and nothing before it."""
    return list(
        session.exec(
            select(System.name)
            .join(Stimulus, col(Stimulus.system_id) == col(System.id))
            .join(Slot, col(Slot.stimulus_id) == col(Stimulus.id))
            .where(Slot.trial_id == trial_id)
            .order_by(col(Slot.slot))
        )
    )


def _tally(run: Running, rows: Iterable[tuple[str, int, str | None, int]]) -> Tally:
    units, found = {unit.key: unit for unit in run.units}, Tally()
    for unit, lead, outcome, count in rows:
        found.add(units[unit], lead, outcome, count)
    return found


def _of_rater(session: Session, rater: Rater) -> list[tuple[str, int, str | None, int]]:
    """Every battle that a rater was given, skipped ones too: caps count what the voices spoke, not what came of it."""
    rows = select(Trial.unit, Trial.lead, func.count()).where(Trial.rater_id == rater.id)
    return [(unit, lead, None, count) for unit, lead, count in session.exec(rows.group_by(Trial.unit, col(Trial.lead)))]


def _uncapped(mine: Tally, rater: Rater) -> Tally:
    return Tally() if rater.role == "preview" else mine
