"""Assignment of trials to raters, and of battles in an arena; release of trials of idle raters.

Counts of assigned trials are cached with the campaign. A database trigger replaces a mark on every change of a trial
(studio.mos.store.migrations), by any process; a changed mark invalidates the cache."""

import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, exists, func, insert, or_, select, true, update

from studio.mos.campaign.design import (
    AssignedUnit,
    AssignmentCounts,
    Unit,
    assemble_session,
    assign_units,
    choose_question_order,
    order_stimuli,
)
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.pairing import BattleTally, choose_battle, pair_of
from studio.mos.store.tables import Answer, AssignmentMark, Choice, Rater, Slot, Stimulus, System, Trial, row_id

IDLE_S = 2 * 3600.0  # a rater's open trials are reassigned after this time without a call
_AHEAD_S = 60.0  # a time further in the future was stored before the clock was set back
DAY_S = 86_400.0
_TALLY_S, _TALLY_SHARE = 5.0, 50.0  # recounting votes takes at most a fiftieth of the writer's time


def has_trials(session: Session, rater: Rater) -> bool:
    """Whether the rater has trials."""
    return session.exec(select(Trial.id).where(Trial.rater_id == rater.id).limit(1)).first() is not None


def assign_trials(session: Session, run: LoadedCampaign, rater: Rater) -> bool:
    """Assign a rater's whole list of trials, seeded by campaign and rater; False if all quotas are filled."""
    preview = rater.role == "preview"
    if not preview:
        release_trials(session, _idle(session, run.id))
    counts = AssignmentCounts() if preview else cached_counts(session, run)
    run.cache.counts_mark = None  # invalid until the rows are written
    rng = Random(f"{run.seed}|{rater.pseudonym if preview else rater.id}")
    config = run.config
    limits = config.raters_per_stimulus, config.trials_per_sitting
    tests = assign_units(run.cache.unit_table, counts, *limits, rng)
    is_replacement = not tests and not preview
    if is_replacement and (replaced := run.cache.replaced(session)):
        counts = count_assignments(session, run.id, without=replaced)
        tests = assign_units(run.cache.unit_table, counts, *limits, rng)
    if tests:
        practice = [order_stimuli(u, counts, rng, "training") for u in run.training[: config.gates.training]]
        checks = [order_stimuli(u, counts, rng, role) for role, u in _checks(run, rng)]
        question_order = choose_question_order(run.kind.orders, tests, counts, rng)
        rows, slots = trial_rows(
            run,
            row_id(rater),
            assemble_session(tests, practice, checks, config.repeats, rng),
            question_order=question_order,
        )
        session.connection().execute(insert(Trial), rows)
        session.connection().execute(insert(Slot), slots)
    if not preview and not is_replacement:  # counts for a replacement exclude the replaced raters
        run.cache.counts, run.cache.counts_mark = counts, _mark(session, run.id)
    return bool(tests)


def is_full(session: Session, run: LoadedCampaign) -> bool:
    """Whether a new rater would get no trials: quotas are filled, no rater is idle or replaced. Never for an arena."""
    if run.kind.is_standing:
        return False

    def has_room(counts: AssignmentCounts) -> bool:
        return any(counts.assigned.get(key, 0) < run.config.raters_per_stimulus for key in run.cache.unit_table.keys)

    # Check the old counts first: otherwise each rater of a crowd that arrives during assignments causes a recount.
    if (run.cache.counts.assigned and has_room(run.cache.counts)) or has_room(cached_counts(session, run)):
        return False
    if _idle(session, run.id):
        return False
    replaced = run.cache.replaced(session)
    return not replaced or not has_room(count_assignments(session, run.id, without=replaced))


def cached_counts(session: Session, run: LoadedCampaign) -> AssignmentCounts:
    """``count_assignments``, cached while the mark is unchanged."""
    mark = _mark(session, run.id)
    if mark is not None and mark == run.cache.counts_mark:
        return run.cache.counts
    return count_assignments(session, run.id)


def count_assignments(session: Session, campaign_id: int, without: Collection[int] = ()) -> AssignmentCounts:
    """Assigned trials of panel raters by unit, first stimulus and question order; ``without`` those of some raters."""
    rows = session.exec(
        select(Trial.unit, Trial.lead, Trial.asked, func.count())
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Trial.role == "test", Trial.released == 0, Rater.role == "panel")
        .where(true() if not without else col(Rater.id).not_in(without))
        .group_by(Trial.unit, col(Trial.lead), Trial.asked)
    )
    counts = AssignmentCounts()
    for unit, lead, question_order, count in rows:
        counts.assigned[unit] += count
        counts.first[unit, lead] += count
        if question_order:
            counts.question_orders[unit, question_order] += count
    return counts


def is_idle() -> ColumnElement[bool]:
    """A condition on raters: not seen for ``IDLE_S``, or last seen in the future (before the clock was set back)."""
    now = time.time()
    return or_(col(Rater.seen_at) < now - IDLE_S, col(Rater.seen_at) > now + _AHEAD_S)


def _idle(session: Session, campaign_id: int) -> list[int]:
    """Idle raters at the stage ``trials`` with unreleased trials; their late answers are accepted above the quota."""
    held = exists().where(col(Trial.rater_id) == col(Rater.id), col(Trial.released) == 0)
    query = select(Rater.id).where(
        Rater.campaign_id == campaign_id, is_idle(), Rater.stage == "trials", Rater.role == "panel", held
    )
    return [i for i in session.exec(query).all() if i is not None]


def release_trials(session: Session, raters: list[int]) -> None:
    """Release the unanswered trials of these raters."""
    if not raters:
        return
    answered = exists().where(col(Answer.trial_id) == col(Trial.id), col(Answer.counted) == 1)
    session.exec(
        update(Trial)
        .where(col(Trial.rater_id).in_(raters), col(Trial.released) == 0, ~answered)
        .values(released=1)
        .execution_options(synchronize_session=False)
    )


def _mark(session: Session, campaign_id: int) -> str | None:
    return session.exec(select(AssignmentMark.mark).where(AssignmentMark.campaign_id == campaign_id)).first()


def _checks(run: LoadedCampaign, rng: Random) -> list[tuple[str, Unit]]:
    gates = run.config.gates
    traps = rng.sample(list(run.traps), min(gates.traps, len(run.traps)))
    golds = rng.sample(list(run.golds), min(gates.golds, len(run.golds)))
    return [*(("trap", u) for u in traps), *(("gold", u) for u in golds)]


def trial_rows(
    run: LoadedCampaign,
    rater_id: int,
    units: list[AssignedUnit],
    start: int = 0,
    issued_at: float | None = None,
    question_order: str = "",
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of trials and slots for a rater's next trials, from position ``start``."""
    rows: list[dict[str, Any]] = []
    slots: list[dict[str, Any]] = []
    for position, entry in enumerate(units, start):
        trial = secrets.token_hex(12)
        rows.append(
            {
                "id": trial,
                "campaign_id": run.id,
                "rater_id": rater_id,
                "position": position,
                "role": entry.role,
                "unit": entry.unit.key,
                "lead": entry.order[0],
                "item_id": entry.unit.item_id,
                "issued_at": issued_at,
                "released": 0,
                "asked": question_order,
            }
        )
        slots += [
            {"trial_id": trial, "slot": slot, "stimulus_id": stimulus, "place": where}
            for slot, (stimulus, where) in enumerate(entry.played())
        ]
    return rows, slots


@dataclass(frozen=True)
class BattleWait:
    """Why a rater gets no battle now: the cap per day, or the cap of every pair."""

    why: Literal["day", "pairs"]
    wait_s: float | None = None  # time until the next battle; None if there will be none


def assign_battle(session: Session, run: LoadedCampaign, rater: Rater) -> bool:
    """Assign a battle to a rater without an open one; False if a cap is reached (see ``battle_wait``)."""
    mine = _tally(run, _battles_of(session, rater))
    if _battle_wait(session, run, rater, mine) is not None:
        return False
    position = sum(mine.votes.values()) + sum(mine.open_battles.values())
    rng = Random(f"{run.seed}|{rater.id}|{position}")
    overall = _cached_tally(session, run)
    battle = choose_battle(run.units, overall, _uncapped(mine, rater), run.config.arena, rng)
    assert battle is not None, "a pair was open"
    if rater.role == "panel":
        overall.add(battle.unit, battle.order[0], None, 1)
    rows, slots = trial_rows(run, row_id(rater), [battle], position, time.time())
    session.connection().execute(insert(Trial), rows)
    session.connection().execute(insert(Slot), slots)
    return True


def battle_wait(session: Session, run: LoadedCampaign, rater: Rater) -> BattleWait | None:
    """Why a rater gets no battle now; None if one may be assigned. Previews have no caps."""
    return _battle_wait(session, run, rater, _tally(run, _battles_of(session, rater)))


def _battle_wait(session: Session, run: LoadedCampaign, rater: Rater, mine: BattleTally) -> BattleWait | None:
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
    """``count_battles``, cached for some seconds; until the recount, battles assigned since count as open."""
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
    open_battles_query = (
        select(Trial.unit, Trial.lead, func.count())
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == run.id, Rater.role == "panel", Trial.released == 0, ~answered)
        .where(col(Trial.issued_at).between(time.time() - IDLE_S, time.time() + _AHEAD_S))
        .group_by(Trial.unit, col(Trial.lead))
    )
    open_battles = [(unit, lead, None, count) for unit, lead, count in session.exec(open_battles_query)]
    return _tally(run, [*session.exec(voted), *open_battles])


def system_names(session: Session, trial_id: str) -> list[str]:
    """The systems of a battle in slot order; revealed only after the vote."""
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
    units, tally = {unit.key: unit for unit in run.units}, BattleTally()
    for unit, lead, outcome, count in rows:
        tally.add(units[unit], lead, outcome, count)
    return tally


def _battles_of(session: Session, rater: Rater) -> list[tuple[str, int, str | None, int]]:
    """All battles of a rater, including skipped ones: caps limit speech, not votes."""
    rows = select(Trial.unit, Trial.lead, func.count()).where(Trial.rater_id == rater.id)
    return [(unit, lead, None, count) for unit, lead, count in session.exec(rows.group_by(Trial.unit, col(Trial.lead)))]


def _uncapped(mine: BattleTally, rater: Rater) -> BattleTally:
    return BattleTally() if rater.role == "preview" else mine
