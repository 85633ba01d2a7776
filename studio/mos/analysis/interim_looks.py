"""Looks at the stopping rule: taken only once the numbers of raters set beforehand have finished, each once.

A look sees the first so many raters who finished and whom the gates keep, whenever it is taken: it can be repeated
from the data, and nobody can choose its moment. Where the rule is met the campaign is closed; whoever is at the
screens finishes. Looks are taken by a thread of their own, never in the path of an answer.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

from sqlmodel import Session, col, func, select

from studio.mos.analysis.judgements import judgements
from studio.mos.analysis.quality import judge_alone
from studio.mos.analysis.stopping_rule import met
from studio.mos.rating.campaigns import running
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.looks import Look
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import System

_log = logging.getLogger(__name__)


class InterimLooks:
    """Looks at campaigns whose raters finish; safe to call from the writer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mos-looks")

    def close(self) -> None:
        """Finish the look that is being taken."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def somebody_finished(self, campaign_id: int) -> None:
        """Take the looks that are due now; after ``close`` nothing."""
        try:
            done = self._thread.submit(self._look, campaign_id)
        except RuntimeError:  # it was closed; the next rater who finishes finds the look still due
            return
        done.add_done_callback(_complain)

    def _look(self, campaign_id: int) -> None:
        while True:
            with self._store.read() as session:
                campaign = session.get(Campaign, campaign_id)
                seen = None if campaign is None else due_look(session, campaign)
            if seen is None:
                return
            self._store.write_now(lambda session, seen=seen: _keep(session, seen))
            if seen.met:
                return


def due_look(session: Session, campaign: Campaign) -> Look | None:
    """What the first look sees that is due and was not taken; None where none is."""
    run = running(session, campaign)
    rule = run.config.stop
    taken = set(session.exec(select(Look.raters).where(Look.campaign_id == campaign.id)))
    wanted = next((n for n in rule.looks if n not in taken), None)
    if campaign.state != "open" or not rule.acts or wanted is None:
        return None
    finished = select(Rater.pseudonym).where(
        Rater.campaign_id == campaign.id, Rater.role == "panel", col(Rater.finished_at).is_not(None)
    )
    if session.exec(select(func.count()).select_from(finished.subquery())).one() < wanted:
        return None
    # Who is kept for agreeing with the others is chosen by the answers, and a test of those would not hold its level.
    kept = {j.pseudonym for j in judge_alone(session, campaign) if j.use != "fail"}
    names = [n for n in session.exec(finished.order_by(col(Rater.finished_at), col(Rater.id))) if n in kept]
    if len(names) < wanted:
        return None
    first = set(names[:wanted])
    answers = [a for a in judgements(session, run.id, everyone=True) if a.rater in first]
    system = dict(session.exec(select(System.id, System.name).where(System.campaign_id == campaign.id)).all())
    lacking = {frozenset(system[s] for s in u.systems) for u in run.units} - {frozenset(a.systems) for a in answers}
    if lacking:
        is_met, why = False, f"not every system was heard yet: {', '.join(sorted(min(lacking, key=sorted)))}"
    else:
        is_met, why = met(rule, run.kind.analyse(run.config, answers, seed=campaign.seed), wanted)
    return Look(campaign_id=run.id, raters=wanted, met=int(is_met), why=why, at=time.time())


def interim_looks(session: Session, campaign: Campaign) -> list[Look]:
    """The looks that were taken, in order."""
    return list(session.exec(select(Look).where(Look.campaign_id == campaign.id).order_by(col(Look.raters))).all())


def _keep(session: Session, seen: Look) -> None:
    """Keep a look unless another program took it meanwhile, and close the campaign where the rule was met."""
    known = select(Look.id).where(Look.campaign_id == seen.campaign_id, Look.raters == seen.raters)
    if session.exec(known).first() is not None:
        return
    session.add(Look(**seen.model_dump(exclude={"id"})))
    campaign = session.get(Campaign, seen.campaign_id)
    if seen.met and campaign is not None and campaign.state == "open":
        campaign.state = "closed"
        session.add(campaign)


def _complain(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a look at a stopping rule failed", exc_info=error)
