"""Deletion of sounds, scripts and systems of a draft, and of campaigns."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from sqlmodel import Session, col, delete, select

from studio.core.errors import BadOption
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.erasure import delete_rater, sweep_takes
from studio.mos.stimuli.building import require_draft
from studio.mos.store.tables import AssignmentMark, Campaign, Item, Look, Rater, Removal, Stimulus, System

log = logging.getLogger("studio.mos")


@dataclass(frozen=True)
class RemovalReport:
    """Number of deleted sounds and answers, and of remaining sounds.

    A campaign without sounds is deleted, unless it has systems or texts to synthesise.
    """

    sounds: int
    left: int
    answers: int = 0


def remove_sounds(
    listening: ListeningTests, name: str, item: str | None = None, system: str | None = None
) -> RemovalReport:
    """Delete the sounds of a script, of a system, or their one common sound from a draft.

    A script or system without sounds is deleted, too. Preview raters are erased, since they saw the deleted sounds.
    Raises BadOption: it is not a draft, or has no such sound.
    """
    if item is None and system is None:
        raise BadOption("nothing was named", "name a script, a system, or both for their one sound")

    def work(session: Session) -> tuple[RemovalReport, list[str]]:
        campaign = require_draft(session, name)
        wanted = select(Stimulus).where(Stimulus.campaign_id == campaign.id)
        if item is not None:
            wanted = wanted.where(Stimulus.item_id == _named(session, campaign, Item, item))
        if system is not None:
            wanted = wanted.where(Stimulus.system_id == _named(session, campaign, System, system))
        gone = session.exec(wanted).all()
        if not gone:
            raise BadOption(f"{system!r} does not say {item!r} in {name!r}", "name a sound that is there")
        dropped = delete_raters(session, campaign)[1]
        for row in gone:
            session.delete(row)
        session.flush()
        for table, column, ids in (
            (Item, Stimulus.item_id, {row.item_id for row in gone}),
            (System, Stimulus.system_id, {row.system_id for row in gone}),
        ):
            silent = ~col(table.id).in_(select(column).where(Stimulus.campaign_id == campaign.id))
            session.exec(delete(table).where(col(table.id).in_(ids), silent))
        left = len(session.exec(select(Stimulus.id).where(Stimulus.campaign_id == campaign.id)).all())
        planned = [session.exec(select(t.id).where(t.campaign_id == campaign.id)).first() for t in (Item, System)]
        if not left and planned == [None, None]:
            _delete_rows(session, campaign)
        dropped += [row.trace for row in gone if row.trace]
        return RemovalReport(len(gone), left), unreferenced(session, dropped)

    return finish_removal(listening, *listening.store.write_now(work))


def delete_campaign(listening: ListeningTests, name: str, *, only_draft: bool = False) -> RemovalReport:
    """Delete a campaign that is not open, with all raters and answers.

    Raises BadOption: it does not exist, is open, or with ``only_draft`` is not a draft.
    """

    def work(session: Session) -> tuple[RemovalReport, list[str]]:
        campaign = require_draft(session, name) if only_draft else find_campaign(session, name)
        if campaign.state == "open":
            raise BadOption(f"{name!r} is open, and raters are at it", "`studio campaign close` it first")
        answers, dropped = delete_raters(session, campaign)
        rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
        _delete_rows(session, campaign)
        dropped += [row.trace for row in rows if row.trace]
        return RemovalReport(len(rows), 0, answers), unreferenced(session, dropped)

    return finish_removal(listening, *listening.store.write_now(work))


def finish_removal(listening: ListeningTests, removed: RemovalReport, traces: list[str]) -> RemovalReport:
    """Delete unreferenced files after a commit; errors are logged, since the change is already stored."""
    listening.clear_campaign_cache()
    for trace in traces:
        try:
            listening.clips.drop_trace(trace)
        except OSError as error:
            log.error("the trace %s is not needed any more and cannot be deleted: %s", trace, error)
    with suppress(OSError):
        sweep_takes(listening.clips)
    listening.store.truncate_log()
    return removed


def _named(session: Session, campaign: Campaign, table: type[Item] | type[System], name: str) -> int | None:
    known = dict(session.exec(select(table.name, table.id).where(table.campaign_id == campaign.id)).all())
    if name not in known:
        what = "script" if table is Item else "system"
        raise BadOption(f"{campaign.name!r} has no {what} {name!r:.80}", f"there are {', '.join(sorted(known)[:20])}")
    return known[name]


def delete_raters(session: Session, campaign: Campaign) -> tuple[int, list[str]]:
    """Delete all raters of a campaign; returns the number of counted answers, and the traces of their takes."""
    answers, dropped = 0, list[str]()
    for pseudonym in session.exec(select(Rater.pseudonym).where(Rater.campaign_id == campaign.id)).all():
        gone, typed = delete_rater(session, campaign, pseudonym)
        answers, dropped = answers + gone, dropped + typed
    session.flush()
    return answers, dropped


def _delete_rows(session: Session, campaign: Campaign) -> None:
    for table in (Stimulus, Item, System, Look, Removal, AssignmentMark):
        session.exec(delete(table).where(col(table.campaign_id) == campaign.id))
    session.exec(delete(Campaign).where(col(Campaign.id) == campaign.id))


def unreferenced(session: Session, traces: list[str]) -> list[str]:
    """The traces that no stimulus references."""
    session.flush()
    named = set(session.exec(select(Stimulus.trace).where(col(Stimulus.trace).in_(traces))))
    return [trace for trace in traces if trace not in named]
