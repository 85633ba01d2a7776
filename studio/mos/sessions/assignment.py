"""Assignment of trials to raters, and release of trials of idle raters.

Counts of assigned trials are cached with the campaign. A database trigger replaces a mark on every change of a trial
(studio.mos.store.migrations), by any process; a changed mark invalidates the cache.
"""

import secrets
import time
from random import Random
from typing import Any

from sqlmodel import Session, col, exists, func, insert, select, update

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
from studio.mos.store.tables import Answer, AssignmentMark, Rater, Slot, Trial, row_id

IDLE_S = 2 * 3600.0  # after so long without a call, a rater's open trials are assigned again


def has_trials(session: Session, rater: Rater) -> bool:
    """Whether the rater has trials."""
    return session.exec(select(Trial.id).where(Trial.rater_id == rater.id).limit(1)).first() is not None


def assign_trials(session: Session, run: LoadedCampaign, rater: Rater) -> bool:
    """Assign a rater's whole list of trials, seeded by campaign and rater; False if all quotas are filled."""
    preview = rater.role == "preview"
    if not preview:
        release_idle(session, run.id, time.time() - IDLE_S)
    load = AssignmentCounts() if preview else cached_counts(session, run)
    run.cache.mark = None  # invalid until the rows are written
    rng = Random(f"{run.seed}|{rater.pseudonym if preview else rater.id}")
    config = run.config
    tests = assign_units(run.cache.unit_table, load, config.raters_per_stimulus, config.trials_per_sitting, rng)
    if tests:
        practice = [order_stimuli(u, load, rng, "training") for u in run.training[: config.gates.training]]
        checks = [order_stimuli(u, load, rng, role) for role, u in _checks(run, rng)]
        asked = choose_question_order(run.kind.orders, tests, load, rng)
        rows, slots = trial_rows(
            run, row_id(rater), assemble_session(tests, practice, checks, config.repeats, rng), asked=asked
        )
        session.connection().execute(insert(Trial), rows)
        session.connection().execute(insert(Slot), slots)
    if not preview:
        run.cache.counts, run.cache.mark = load, _mark(session, run.id)
    return bool(tests)


def is_full(session: Session, run: LoadedCampaign) -> bool:
    """Whether a new rater would get no trials: all quotas are filled and no rater is idle. Never for an arena."""
    if run.kind.is_standing:
        return False

    def has_room(load: AssignmentCounts) -> bool:
        return any(load.assigned.get(key, 0) < run.config.raters_per_stimulus for key in run.cache.unit_table.keys)

    # Checking the old counts first avoids a recount per rater of a crowd that arrives during assignments.
    if (run.cache.counts.assigned and has_room(run.cache.counts)) or has_room(cached_counts(session, run)):
        return False
    return not _idle(session, run.id, time.time() - IDLE_S)


def cached_counts(session: Session, run: LoadedCampaign) -> AssignmentCounts:
    """``count_assignments``, cached while the mark is unchanged."""
    mark = _mark(session, run.id)
    if mark is not None and mark == run.cache.mark:
        return run.cache.counts
    return count_assignments(session, run.id)


def count_assignments(session: Session, campaign_id: int) -> AssignmentCounts:
    """Assigned trials of panel raters by unit, first stimulus and question order."""
    counts = session.exec(
        select(Trial.unit, Trial.lead, Trial.asked, func.count())
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Trial.role == "test", Trial.released == 0, Rater.role == "panel")
        .group_by(Trial.unit, col(Trial.lead), Trial.asked)
    )
    load = AssignmentCounts()
    for unit, lead, asked, count in counts:
        load.assigned[unit] += count
        load.first[unit, lead] += count
        if asked:
            load.question_orders[unit, asked] += count
    return load


def release_idle(session: Session, campaign_id: int, before: float) -> None:
    """Release the open trials of raters not seen since ``before``; they may still answer, above the quota."""
    release_trials(session, _idle(session, campaign_id, before))


def _idle(session: Session, campaign_id: int, before: float) -> list[int]:
    """Raters in the trials, not seen since ``before``, with unreleased trials."""
    held = exists().where(col(Trial.rater_id) == col(Rater.id), col(Trial.released) == 0)
    found = select(Rater.id).where(
        Rater.campaign_id == campaign_id, Rater.seen_at < before, Rater.stage == "trials", Rater.role == "panel", held
    )
    return [i for i in session.exec(found).all() if i is not None]


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
    asked: str = "",
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
                "asked": asked,
            }
        )
        slots += [
            {"trial_id": trial, "slot": slot, "stimulus_id": stimulus, "place": where}
            for slot, (stimulus, where) in enumerate(entry.played())
        ]
    return rows, slots
