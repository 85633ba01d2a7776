"""Taking things out again: a sound, a script or a system of a draft, or a whole campaign."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from sqlmodel import Session, col, delete, select

from studio.core.errors import BadOption
from studio.mos.making.building import draft_of
from studio.mos.rating.campaigns import find
from studio.mos.rating.forgetting import delete_rater, sweep_takes
from studio.mos.service import Listening
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.looks import Look
from studio.mos.store.tables.raters import Rater, Removal
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import Deal

log = logging.getLogger("studio.mos")


@dataclass(frozen=True)
class Removed:
    """What went: how many sounds and answers, and how many sounds are left.

    With the last of them goes the campaign, unless it has systems or texts that are still to be spoken.
    """

    sounds: int
    left: int
    answers: int = 0


def remove_sounds(listening: Listening, name: str, item: str | None = None, system: str | None = None) -> Removed:
    """Take a script's sounds out of a draft, or a system's, or the one sound of both.

    A script or system that has no sound left by that goes, too. Who only looked at the draft is forgotten, for they
    were shown what is no more.

    Raises:
        BadOption: it is no draft, or holds no such sound.
    """
    if item is None and system is None:
        raise BadOption("nothing was named", "name a script, a system, or both for their one sound")

    def work(session: Session) -> tuple[Removed, list[str]]:
        campaign = draft_of(session, name)
        wanted = select(Stimulus).where(Stimulus.campaign_id == campaign.id)
        if item is not None:
            wanted = wanted.where(Stimulus.item_id == _named(session, campaign, Item, item))
        if system is not None:
            wanted = wanted.where(Stimulus.system_id == _named(session, campaign, System, system))
        gone = session.exec(wanted).all()
        if not gone:
            raise BadOption(f"{system!r} does not say {item!r} in {name!r}", "name a sound that is there")
        dropped = forget_raters(session, campaign)[1]
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
        return Removed(len(gone), left), unnamed(session, dropped)

    return swept(listening, *listening.store.write_now(work))


def delete_campaign(listening: Listening, name: str, *, only_draft: bool = False) -> Removed:
    """Delete a campaign that is not open, with its raters and all their answers.

    Raises:
        BadOption: there is none of this name, it is open, or with ``only_draft`` it is no draft.
    """

    def work(session: Session) -> tuple[Removed, list[str]]:
        campaign = draft_of(session, name) if only_draft else find(session, name)
        if campaign.state == "open":
            raise BadOption(f"{name!r} is open, and raters are at it", "`studio campaign close` it first")
        answers, dropped = forget_raters(session, campaign)
        rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
        _delete_rows(session, campaign)
        dropped += [row.trace for row in rows if row.trace]
        return Removed(len(rows), 0, answers), unnamed(session, dropped)

    return swept(listening, *listening.store.write_now(work))


def swept(listening: Listening, removed: Removed, traces: list[str]) -> Removed:
    """Delete the files that no row names after a change that is committed: what cannot be deleted fails no call."""
    listening.forget_running()
    for trace in traces:
        try:
            listening.clips.drop_trace(trace)
        except OSError as error:
            log.error("the trace %s is not needed any more and cannot be deleted: %s", trace, error)
    with suppress(OSError):
        sweep_takes(listening.clips)
    listening.store.empty_log()
    return removed


def _named(session: Session, campaign: Campaign, table: type[Item] | type[System], name: str) -> int | None:
    known = dict(session.exec(select(table.name, table.id).where(table.campaign_id == campaign.id)).all())
    if name not in known:
        what = "script" if table is Item else "system"
        raise BadOption(f"{campaign.name!r} has no {what} {name!r:.80}", f"there are {', '.join(sorted(known)[:20])}")
    return known[name]


def forget_raters(session: Session, campaign: Campaign) -> tuple[int, list[str]]:
    """How many counted answers went with all raters of a campaign, and the traces of what they typed."""
    answers, dropped = 0, list[str]()
    for pseudonym in session.exec(select(Rater.pseudonym).where(Rater.campaign_id == campaign.id)).all():
        gone, typed = delete_rater(session, campaign, pseudonym)
        answers, dropped = answers + gone, dropped + typed
    session.flush()
    return answers, dropped


def _delete_rows(session: Session, campaign: Campaign) -> None:
    for table in (Stimulus, Item, System, Look, Removal, Deal):
        session.exec(delete(table).where(col(table.campaign_id) == campaign.id))
    session.exec(delete(Campaign).where(col(Campaign.id) == campaign.id))


def unnamed(session: Session, traces: list[str]) -> list[str]:
    """Those of the traces that no stimulus names any more."""
    session.flush()
    named = set(session.exec(select(Stimulus.trace).where(col(Stimulus.trace).in_(traces))))
    return [trace for trace in traces if trace not in named]
