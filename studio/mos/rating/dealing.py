"""Dealing screens to raters: what was given to whom, whose screens go back, and one whole list for whoever begins.

What was given is counted once and then kept beside the campaign: every change of a screen's row, whichever program
made it, draws a new mark in the database (studio.mos.store.migrations), and an old mark means counting again.
"""

import secrets
import time
from random import Random
from typing import Any

from sqlmodel import Session, col, exists, func, insert, select, update

from studio.mos.campaign.design import Load, Placed, Unit, deal, order_of_asking, place, sitting
from studio.mos.rating.campaigns import Running
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.trials import Deal, Slot, Trial

IDLE_S = 2 * 3600.0  # after so long without a word, a rater's open screens are given to somebody else


def has_trials(session: Session, rater: Rater) -> bool:
    """Whether screens were given to the rater."""
    return session.exec(select(Trial.id).where(Trial.rater_id == rater.id).limit(1)).first() is not None


def give_trials(session: Session, run: Running, rater: Rater) -> bool:
    """Deal a rater's whole list of screens, seeded by campaign and rater; False when every unit has its raters."""
    assert rater.id is not None, "rows from the database have ids"
    preview = rater.role == "preview"
    if not preview:
        release_idle(session, run.id, time.time() - IDLE_S)
    load = Load() if preview else known_load(session, run)
    run.desk.mark = None  # until the rows of this deal are there
    rng = Random(f"{run.seed}|{rater.pseudonym if preview else rater.id}")
    config = run.config
    tests = deal(run.desk.deck, load, config.raters_per_stimulus, config.trials_per_sitting, rng)
    if tests:
        practice = [place(u, load, rng, "training") for u in run.training[: config.gates.training]]
        checks = [place(u, load, rng, role) for role, u in _checks(run, rng)]
        asked = order_of_asking(run.kind.orders(config), tests, load, rng)
        rows, slots = rows_of(run, rater.id, sitting(tests, practice, checks, config.repeats, rng), asked=asked)
        session.connection().execute(insert(Trial), rows)
        session.connection().execute(insert(Slot), slots)
    if not preview:
        run.desk.load, run.desk.mark = load, _mark(session, run.id)
    return bool(tests)


def is_full(session: Session, run: Running) -> bool:
    """Whether nobody new can be given a screen now: every unit has its raters, and none of those has gone away.

    A standing test has room for everybody.
    """
    if run.kind.standing:
        return False

    def has_room(load: Load) -> bool:
        return any(load.given.get(key, 0) < run.config.raters_per_stimulus for key in run.desk.deck.keys)

    # Of a crowd that comes while others are dealt to, nobody needs to count: what was given before says enough.
    if (run.desk.load.given and has_room(run.desk.load)) or has_room(known_load(session, run)):
        return False
    return not _idle(session, run.id, time.time() - IDLE_S)


def known_load(session: Session, run: Running) -> Load:
    """``load_of``, from memory where nothing has changed since it was counted."""
    mark = _mark(session, run.id)
    if mark is not None and mark == run.desk.mark:
        return run.desk.load
    return load_of(session, run.id)


def load_of(session: Session, campaign_id: int) -> Load:
    """How often each unit was given to raters who count, what led it, and how its questions were asked."""
    counts = session.exec(
        select(Trial.unit, Trial.lead, Trial.asked, func.count())
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Trial.role == "test", Trial.released == 0, Rater.role == "panel")
        .group_by(Trial.unit, col(Trial.lead), Trial.asked)
    )
    load = Load()
    for unit, lead, asked, count in counts:
        load.given[unit] += count
        load.led[unit, lead] += count
        if asked:
            load.asked[unit, asked] += count
    return load


def release_idle(session: Session, campaign_id: int, before: float) -> None:
    """Give away the open screens of raters not seen since ``before``; they may still answer, over the quota."""
    release(session, _idle(session, campaign_id, before))


def _idle(session: Session, campaign_id: int, before: float) -> list[int]:
    """Raters at the screens who were not seen since, and hold some of them."""
    held = exists().where(col(Trial.rater_id) == col(Rater.id), col(Trial.released) == 0)
    found = select(Rater.id).where(
        Rater.campaign_id == campaign_id, Rater.seen_at < before, Rater.stage == "trials", Rater.role == "panel", held
    )
    return [i for i in session.exec(found).all() if i is not None]


def release(session: Session, raters: list[int]) -> None:
    """Give back the screens of these raters that have no answer."""
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
    return session.exec(select(Deal.mark).where(Deal.campaign_id == campaign_id)).first()


def _checks(run: Running, rng: Random) -> list[tuple[str, Unit]]:
    gates = run.config.gates
    traps = rng.sample(list(run.traps), min(gates.traps, len(run.traps)))
    golds = rng.sample(list(run.golds), min(gates.golds, len(run.golds)))
    return [*(("trap", u) for u in traps), *(("gold", u) for u in golds)]


def rows_of(
    run: Running, rater_id: int, screens: list[Placed], start: int = 0, issued_at: float | None = None, asked: str = ""
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of trials and of slots for a rater's next screens, the first of which has the position ``start``."""
    rows: list[dict[str, Any]] = []
    slots: list[dict[str, Any]] = []
    for position, screen in enumerate(screens, start):
        trial = secrets.token_hex(12)
        rows.append(
            {
                "id": trial,
                "campaign_id": run.id,
                "rater_id": rater_id,
                "position": position,
                "role": screen.role,
                "unit": screen.unit.key,
                "lead": screen.order[0],
                "item_id": screen.unit.item_id,
                "issued_at": issued_at,
                "released": 0,
                "asked": asked,
            }
        )
        heard = [(stimulus, "candidate") for stimulus in screen.order]
        heard += [(screen.unit.reference, "reference")] if screen.unit.reference is not None else []
        slots += [
            {"trial_id": trial, "slot": slot, "stimulus_id": stimulus, "place": where}
            for slot, (stimulus, where) in enumerate(heard)
        ]
    return rows, slots
