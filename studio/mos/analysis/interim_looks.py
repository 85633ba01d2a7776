"""Looks at the stopping rule, each taken once when the planned number of raters has finished.

A look uses the first raters who finished and whom the gates do not exclude, whenever it is taken, so it is reproducible
and its time cannot be chosen. If the rule is met the campaign is closed; raters in a session may finish. Looks run in a
thread of their own, outside the path of an answer.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

from sqlmodel import Session, col, func, select

from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import individual_verdicts
from studio.mos.analysis.stopping_rule import evaluate_rule
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign, Look
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import System

_log = logging.getLogger(__name__)


class InterimLooks:
    """Takes due looks of campaigns; callable from the writer thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mos-looks")

    def close(self) -> None:
        """Wait for the running look."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def on_rater_finished(self, campaign_id: int) -> None:
        """Take the looks that are due; no-op after ``close``."""
        try:
            done = self._thread.submit(self._look, campaign_id)
        except RuntimeError:  # closed; the look stays due
            return
        done.add_done_callback(_log_failure)

    def _look(self, campaign_id: int) -> None:
        while True:
            with self._store.read() as session:
                campaign = session.get(Campaign, campaign_id)
                look = None if campaign is None else take_due_look(session, campaign)
            if look is None:
                return
            self._store.write_now(lambda session, look=look: _store_look(session, look))
            if look.met:
                return


def take_due_look(session: Session, campaign: Campaign) -> Look | None:
    """The first look that is due and was not taken, with its result; None if none is due."""
    run = load_campaign(session, campaign)
    rule = run.config.stop
    taken = set(session.exec(select(Look.raters).where(Look.campaign_id == campaign.id)))
    raters = next((n for n in rule.looks if n not in taken), None)
    if campaign.state != "open" or not rule.is_active or raters is None:
        return None
    finished = select(Rater.pseudonym).where(
        Rater.campaign_id == campaign.id, Rater.role == "panel", col(Rater.finished_at).is_not(None)
    )
    if session.exec(select(func.count()).select_from(finished.subquery())).one() < raters:
        return None
    # Without the consensus gate: it selects raters by the tested answers, which would inflate the type I error.
    analysed = {j.pseudonym for j in individual_verdicts(session, campaign) if j.use != "fail"}
    names = [n for n in session.exec(finished.order_by(col(Rater.finished_at), col(Rater.id))) if n in analysed]
    if len(names) < raters:
        return None
    first = set(names[:raters])
    answers = [a for a in load_answers(session, run.id, everyone=True) if a.rater in first]
    system = dict(session.exec(select(System.id, System.name).where(System.campaign_id == campaign.id)).all())
    missing = {frozenset(system[s] for s in u.systems) for u in run.units} - {frozenset(a.systems) for a in answers}
    if missing:
        is_met, why = False, f"not every system was rated yet: {', '.join(sorted(min(missing, key=sorted)))}"
    else:
        is_met, why = evaluate_rule(rule, run.kind.analyse(run.config, answers, seed=campaign.seed), raters)
    return Look(campaign_id=run.id, raters=raters, met=int(is_met), why=why, at=time.time())


def interim_looks(session: Session, campaign: Campaign) -> list[Look]:
    """The looks taken so far, in order."""
    return list(session.exec(select(Look).where(Look.campaign_id == campaign.id).order_by(col(Look.raters))).all())


def _store_look(session: Session, look: Look) -> None:
    """Store a look unless another process did, and close the campaign if the rule is met."""
    existing = select(Look.id).where(Look.campaign_id == look.campaign_id, Look.raters == look.raters)
    if session.exec(existing).first() is not None:
        return
    session.add(Look(**look.model_dump(exclude={"id"})))
    campaign = session.get(Campaign, look.campaign_id)
    if look.met and campaign is not None and campaign.state == "open":
        campaign.state = "closed"
        session.add(campaign)


def _log_failure(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a look at a stopping rule failed", exc_info=error)
