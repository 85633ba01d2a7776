"""Battles of an arena: assignment of one at a time, caps per rater, and vote counts from the database."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Literal

from sqlmodel import Session, col, func, insert, select

from studio.mos.sessions.assignment import IDLE_S, trial_rows
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.pairing import BattleTally, choose_battle, pair_of
from studio.mos.store.tables import Answer, Choice, Rater, Slot, Stimulus, System, Trial, row_id

DAY_S = 86_400.0
_TALLY_S, _TALLY_SHARE = 5.0, 50.0  # recounting votes takes at most a fiftieth of the writer's time


@dataclass(frozen=True)
class BattleWait:
    """Why a rater gets no battle now: the cap per day, or the cap of every pair.

    Attributes:
        wait_s: time until the next battle; None if there will be none.
    """

    why: Literal["day", "pairs"]
    wait_s: float | None = None


def assign_battle(session: Session, run: LoadedCampaign, rater: Rater) -> bool:
    """Assign a battle to a rater without an open one; False if a cap is reached (see ``battle_wait``)."""
    mine = _tally(run, _of_rater(session, rater))
    if _rest(session, run, rater, mine) is not None:
        return False
    position = sum(mine.votes.values()) + sum(mine.open_battles.values())
    rng = Random(f"{run.seed}|{rater.id}|{position}")
    everybody = _cached_tally(session, run)
    placed = choose_battle(run.units, everybody, _uncapped(mine, rater), run.config.arena, rng)
    assert placed is not None, "a pair was open"
    if rater.role == "panel":
        everybody.add(placed.unit, placed.order[0], None, 1)
    rows, slots = trial_rows(run, row_id(rater), [placed], position, time.time())
    session.connection().execute(insert(Trial), rows)
    session.connection().execute(insert(Slot), slots)
    return True


def battle_wait(session: Session, run: LoadedCampaign, rater: Rater) -> BattleWait | None:
    """Why a rater gets no battle now; None if one may be assigned. Previews have no caps."""
    return _rest(session, run, rater, _tally(run, _of_rater(session, rater)))


def _rest(session: Session, run: LoadedCampaign, rater: Rater, mine: BattleTally) -> BattleWait | None:
    if rater.role == "preview":
        return None
    arena, now = run.config.arena, time.time()
    recent = session.exec(
        select(Trial.issued_at)
        .where(Trial.rater_id == rater.id, col(Trial.issued_at) > now - DAY_S)
        .order_by(col(Trial.issued_at).desc())
        .limit(arena.per_day)
    ).all()
    if all(mine.votes[p] + mine.open_battles[p] >= arena.per_pair for p in {pair_of(unit) for unit in run.units}):
        return BattleWait("pairs")
    if len(recent) >= arena.per_day and (oldest := recent[-1]) is not None:
        return BattleWait("day", oldest + DAY_S - now)
    return None


def _cached_tally(session: Session, run: LoadedCampaign) -> BattleTally:
    """``count_battles``, cached for some seconds; meanwhile assigned battles are added, and new votes count as open."""
    began_s = time.monotonic()
    if run.cache.tally is None or began_s > run.cache.tally_until_s:
        run.cache.tally = count_battles(session, run)
        took_s = time.monotonic() - began_s
        run.cache.tally_until_s = began_s + max(_TALLY_S, _TALLY_SHARE * took_s)
    return run.cache.tally


def count_battles(session: Session, run: LoadedCampaign) -> BattleTally:
    """Votes and open battles of counted raters; skipped battles are excluded."""
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


def system_names(session: Session, trial_id: str) -> list[str]:
    """The systems of a battle in slot order; revealed by a vote only."""
    return list(
        session.exec(
            select(System.name)
            .join(Stimulus, col(Stimulus.system_id) == col(System.id))
            .join(Slot, col(Slot.stimulus_id) == col(Stimulus.id))
            .where(Slot.trial_id == trial_id)
            .order_by(col(Slot.slot))
        )
    )


def _tally(run: LoadedCampaign, rows: Iterable[tuple[str, int, str | None, int]]) -> BattleTally:
    units, found = {unit.key: unit for unit in run.units}, BattleTally()
    for unit, lead, outcome, count in rows:
        found.add(units[unit], lead, outcome, count)
    return found


def _of_rater(session: Session, rater: Rater) -> list[tuple[str, int, str | None, int]]:
    """All battles of a rater, including skipped ones: caps limit speech, not votes."""
    rows = select(Trial.unit, Trial.lead, func.count()).where(Trial.rater_id == rater.id)
    return [(unit, lead, None, count) for unit, lead, count in session.exec(rows.group_by(Trial.unit, col(Trial.lead)))]


def _uncapped(mine: BattleTally, rater: Rater) -> BattleTally:
    return BattleTally() if rater.role == "preview" else mine
