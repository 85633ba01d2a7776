"""Listening tests as one object: the calls that the routes, the pages and the command line make.

Neither torch nor gradio nor a web framework is known here. What changes something goes through the store's writer and
answers a future, resolved when it is on disk.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlmodel import Session, select

from studio.core import durable
from studio.core.cards import Card
from studio.core.errors import BadFile
from studio.core.folders import data_folder
from studio.mos.analysis.interim_looks import InterimLooks
from studio.mos.campaign.names import check_name
from studio.mos.campaign.titles import system_titles
from studio.mos.kinds.registry import kind_of
from studio.mos.rating import sittings, takes
from studio.mos.rating.answers import take_answer
from studio.mos.rating.campaigns import Running, find, running
from studio.mos.rating.dealing import is_full
from studio.mos.rating.entering import enter_next, furthest
from studio.mos.rating.screens import at_the_door, shown
from studio.mos.rating.sounds import RaterSounds
from studio.mos.store.access import Access, Forbidden, Visitor
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Faults, Store
from studio.mos.store.tables.answers import AnswerCreate, AnswerPublic
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import System

LADDER = "/arena"  # the public page of every arena that is open
_SEEN_STEP_S = 60.0  # how exactly it is known when a rater was last there: a write less for every screen


class Listening:
    """A studio's listening tests: one store, one folder of clips, one set of keys."""

    def __init__(self, store: Store, clips: ClipFolder) -> None:
        self.store = store
        self.clips = clips
        self.access = Access(store)
        self.interim_looks = InterimLooks(store)
        self.cards: Callable[[], Sequence[Card]] = tuple  # of the voices of a server, by which systems have titles
        self._running: dict[int, Running] = {}
        self.sounds = RaterSounds(store, clips, self.access, self._rater)

    def close(self) -> None:
        """Finish what is being written and let go of the files."""
        self.interim_looks.close()
        self.store.close()

    # what a rater's browser asks

    def greet(self, campaign: str, key: str) -> dict[str, Any]:
        """What a link shows before anybody joined. Raises BadOption, Forbidden."""
        with self.store.read() as session:
            row, role = self._linked(session, campaign, key)
            config = self.run_of(session, row).config
        return {
            "title": config.texts.title,
            "language": config.texts.language,
            "open": row.state == "open" or role == "preview",
            "preview": role == "preview",
        }

    def join(self, campaign: str, key: str, who: str, panel: dict[str, str], device: dict[str, Any]) -> dict[str, Any]:
        """Come to a sitting or go on with it; ``who`` says who it is (a panel's id, or a code of ours).

        Nothing is written: of somebody new everything is in the token, until they agree; what they are ``shown`` is
        in the answer, one call less where a crowd comes in.

        Raises:
            BadOption, Forbidden: there is no such link.
            NotOpen: the campaign takes nobody new.
        """
        with self.store.read() as session:
            row, role = self._linked(session, campaign, key)
            identity = self.access.identity(_id(row), role, who)
            rater = sittings.known(session, _id(row), identity)
            if rater is not None:
                rater = furthest(session, rater)
                return {"token": self.access.rater_token(_id(rater)), "stage": rater.stage}
            sittings.check_open(session, _id(row), role)
            visitor, run = Visitor(_id(row), role, identity, panel, device), self.run_of(session, row)
            seen = at_the_door(session, run, self._door(session, run, visitor))
        return {"token": self.access.visitor_token(visitor), "stage": seen["stage"], "shown": seen}

    def door(self, visitor: Visitor) -> dict[str, Any]:
        """What a visitor is shown. Raises Forbidden, NotOpen."""
        with self.store.read() as session:
            run = self._run_of_visitor(session, visitor)
            sittings.check_open(session, run.id, visitor.role)
            return at_the_door(session, run, self._door(session, run, visitor))

    def consent(self, visitor: Visitor, stage: str, data: dict[str, Any]) -> "Future[dict[str, Any]]":
        """Take what a visitor answered; who agrees is a rater from then on and gets the token of one.

        Raises (from the future): NotThisStage, NotOpen, BadMessage, TooMany.
        """

        def work(session: Session) -> dict[str, Any]:
            run = self._run_of_visitor(session, visitor)
            rater = sittings.known(session, run.id, visitor.identity)  # a call that is sent again changes nothing
            if rater is None and self._door(session, run, visitor) == "full":
                return at_the_door(session, run, "full")
            rater = rater or sittings.consent(session, run, visitor, stage, data)
            if rater is None:
                return at_the_door(session, run, "refused")
            sittings.go_on(session, run, rater)
            return self._shown(session, rater, run, holds=None)

        return self.store.write(work)

    def stage(self, rater_id: int, stage: str, data: dict[str, Any]) -> "Future[dict[str, Any]]":
        """Take what was done at a stage; answers what comes next. Raises NotThisStage, NotOpen, BadMessage."""

        def work(session: Session) -> dict[str, Any]:
            rater, run = self._rater(session, rater_id)
            sittings.pass_stage(session, run, rater, stage, data)
            return self._shown(session, rater, run, holds=rater_id)

        return self.store.write(work)

    def next(self, rater_id: int) -> "Future[dict[str, Any]]":
        """Where the rater is and what to show; a trial is marked as issued. Raises NotOpen.

        Who is done with one part of a sitting is shown the next one, and gets the token for it.
        """

        def work(session: Session) -> dict[str, Any]:
            rater, run = self._rater(session, rater_id)
            sittings.check_may_begin(session, rater)
            sittings.go_on(session, run, rater)
            return self._shown(session, rater, run, holds=rater_id)

        return self.store.write(work)

    def answer(self, rater_id: int, answer: AnswerCreate) -> "Future[AnswerPublic]":
        """Take an answer; the future is resolved when it is on disk. Raises Forbidden, BadAnswer."""

        finished: list[int] = []

        def work(session: Session) -> AnswerPublic:
            rater, run = self._rater(session, rater_id)
            taken = take_answer(session, run, rater, answer)
            if taken.voices:
                titles = self.titles(session, run.id)
                taken = taken.model_copy(update={"titles": [titles[name] for name in taken.voices]})
            if rater.stage in ("comments", "done") and taken.counted and rater.role == "panel" and run.config.stop.acts:
                finished.append(run.id)
            return taken

        def look(done: "Future[AnswerPublic]") -> None:
            if finished and done.exception() is None:
                self.interim_looks.somebody_finished(finished[0])

        taken = self.store.write(work, soon=True)
        taken.add_done_callback(look)
        return taken

    def part(self, rater_id: int, trial: str, slot: int) -> takes.Part:
        """What is to speak a slot of a live screen. Raises Forbidden, NotThisStage, BadMessage."""
        with self.store.read() as session:
            rater, run = self._rater(session, rater_id)
            found = takes.part(session, rater, trial, slot)
            return replace(found, max_chars=run.config.arena.max_chars) if run.kind.standing else found

    def note_miss(self, rater_id: int, trial: str, slot: int, why: takes.Miss, late_ms: float | None) -> "Future[bool]":
        """Note a play of a live screen that came to nothing; whether the screen may be skipped. Raises as ``part``."""

        def work(session: Session) -> bool:
            return takes.note_miss(session, self._rater(session, rater_id)[0], trial, slot, why, late_ms)

        return self.store.write(work, soon=True)

    def keep_take(self, rater_id: int, made: takes.Made, trace: bytes) -> "Future[None]":
        """Keep what a voice said on a live screen; resolved when it is on disk. Raises as ``takes.keep_take`` does."""
        address = self.clips.add_trace(trace)

        def work(session: Session) -> None:
            rater, run = self._rater(session, rater_id)
            script = self.access.script_of(run.id, made.typing.text()) if run.kind.standing else ""
            takes.keep_take(session, rater, made, address, script)

        kept: Future[None] = Future()  # resolved last, so that whoever waits finds no trace of a take that is none

        def settle(written: "Future[None]") -> None:
            error = written.exception()
            try:
                if error is not None:
                    self.clips.drop_trace(address)
            finally:
                kept.set_result(None) if error is None else kept.set_exception(error)

        self.store.write(work, soon=True).add_done_callback(settle)
        return kept

    def withdraw(self, rater_id: int) -> "Future[None]":
        """The rater leaves the test."""

        def work(session: Session) -> None:
            sittings.withdraw(session, furthest(session, self._rater(session, rater_id)[0]))

        return self.store.write(work)

    # what its owner asks

    def links(self, campaign: str) -> dict[str, str]:
        """The paths that raters and lookers-on open, by role, and of an arena its ladder's. Raises BadOption."""
        with self.store.read() as session:
            row = find(session, campaign)
        number = _id(row)
        test = self.access.link_id(number)
        found = {
            name: f"/rate?{urlencode({'test': test, 'key': self.access.link_key(number, role)})}"
            for name, role in (("rater", "panel"), ("preview", "preview"))
        }
        return found | ({"ladder": LADDER} if kind_of(row.kind).standing else {})

    # shared

    def titles(self, session: Session, campaign_id: int) -> dict[str, str]:
        """What visitors are told a campaign's systems are, by name."""
        return system_titles(session.exec(select(System).where(System.campaign_id == campaign_id)), self.cards())

    def run_of(self, session: Session, campaign: Campaign) -> Running:
        """What a campaign has to show; kept while it is open, for nothing of it changes then."""
        found = self._running.get(_id(campaign))
        if found is None:
            found = running(session, campaign)
            if campaign.state == "open":
                self._running[_id(campaign)] = found
        return found

    def _linked(self, session: Session, name: str, key: str) -> tuple[Campaign, str]:
        """A link's campaign and role. To a stranger a campaign that is not there looks like one with another key.

        Args:
            name: what links call the campaign; links of before say its own name.
        """
        check_name(name)
        ids = {self.access.link_id(found): found for found in session.exec(select(Campaign.id)) if found is not None}
        row = session.get(Campaign, ids[name]) if name in ids else None
        row = row or session.exec(select(Campaign).where(Campaign.name == name)).first()
        role = self.access.role_of_link(_id(row) if row else 0, key)
        assert row is not None, "no campaign has the id 0, so no key fits it"
        return row, role

    def _shown(self, session: Session, rater: Rater, run: Running, holds: int | None) -> dict[str, Any]:
        """What a rater is to be shown, in the part of the sitting that they have come to.

        Args:
            holds: the rater whose token the browser has; with any other answer there is a token.
        """
        rater, run = self._rater(session, _id(enter_next(session, rater, run, partial(self.run_of, session))))
        out, new = shown(session, run, rater, partial(self.access.clip_key, _id(rater)))
        if new is not None or time.time() - rater.seen_at > _SEEN_STEP_S:
            sittings.note_seen(session, _id(rater), new)
        return out if rater.id == holds else out | {"token": self.access.rater_token(_id(rater))}

    def _door(self, session: Session, run: Running, visitor: Visitor) -> str:
        """What waits for a visitor: the consent, or that all places are taken (a preview uses none)."""
        return "full" if visitor.role == "panel" and is_full(session, run) else "consent"

    def _run_of_visitor(self, session: Session, visitor: Visitor) -> Running:
        campaign = session.get(Campaign, visitor.campaign_id)
        if campaign is None:
            raise Forbidden("this sitting is not known", "open the test's link again")
        return self.run_of(session, campaign)

    def _rater(self, session: Session, rater_id: int) -> tuple[Rater, Running]:
        rater = session.get(Rater, rater_id)
        if rater is None:
            raise Forbidden("this sitting is not known", "open the test's link again")
        known = self._running.get(rater.campaign_id)
        if known is not None:
            return rater, known
        campaign = session.get(Campaign, rater.campaign_id)
        assert campaign is not None, "a rater belongs to a campaign"
        return rater, self.run_of(session, campaign)

    def forget_running(self) -> None:
        """Look again at every campaign: one was opened, closed or changed."""
        self._running.clear()


def open_listening(database: str, data: Path, faults: Faults | None = None) -> Listening:
    """The listening tests of a database and a data folder, both made where they are not there yet.

    Args:
        database: its address; empty for ``studio.sqlite`` in the data folder.
        data: holds the clips; for its owner alone.

    Raises:
        BadOption: the address is none.
        BadFile: the folder cannot be made, or the database not be opened.
    """
    root = data_folder(data)
    try:
        durable.make_folder(root)
        if not database:
            file = root / "studio.sqlite"
            file.touch(mode=0o600)  # SQLite gives its other files the same rights
            database = f"sqlite:///{file}"
    except OSError as error:
        raise BadFile(f"the data folder {data} cannot be used: {error}", "give another --data") from error
    return Listening(Store(database, faults), ClipFolder(root / "clips"))


def _id(row: Campaign | Rater) -> int:
    assert row.id is not None, "rows from the database have ids"
    return row.id
