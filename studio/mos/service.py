"""Facade of the listening tests for HTTP routes, pages and the command line.

Independent of torch, gradio and web frameworks. Changes go through the store's writer and return a future, which
resolves once they are on disk.
"""

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
from studio.mos.analysis.stopping_rule import InterimLooks
from studio.mos.analysis.usable import replaced_raters
from studio.mos.campaign.config import campaign_config
from studio.mos.campaign.names import check_name
from studio.mos.campaign.voices import system_titles
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions import stages, takes
from studio.mos.sessions.answers import store_answer
from studio.mos.sessions.assignment import is_full
from studio.mos.sessions.campaigns import LoadedCampaign, find_campaign, load_campaign, open_arenas
from studio.mos.sessions.carry_over import current_part, enter_next_part, find_rater, is_part_finished
from studio.mos.sessions.stage_views import RaterSounds, stage_view, visitor_view
from studio.mos.store.access import Access, Forbidden, Visitor
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import AnswerCreate, AnswerPublic, Campaign, Rater, System, row_id

LADDER = "/arena"  # the public page of all open arenas


class ListeningTests:
    """A studio's listening tests: a store, a clip folder and access keys."""

    def __init__(self, store: Store, clips: ClipFolder) -> None:
        self.store = store
        self.clips = clips
        self.access = Access(store)
        self.interim_looks = InterimLooks(store)
        self.cards: Callable[[], Sequence[Card]] = tuple  # cards of a server's voices, for titles of systems
        self._running: dict[int, LoadedCampaign] = {}
        self.sounds = RaterSounds(store, clips, self.access, self._rater)

    def close(self) -> None:
        """Finish queued writes and release the files."""
        self.interim_looks.close()
        self.store.close()

    # calls of a rater's browser

    def describe_link(self, campaign: str, key: str) -> dict[str, Any]:
        """Public information about a link's campaign. Raises BadOption, Forbidden."""
        with self.store.read() as session:
            row, role = self._linked(session, campaign, key)
        config = campaign_config(row)  # not ``run_of``, which reads all stimuli of a campaign that is not open
        return {
            "title": config.texts.title,
            "language": config.texts.language,
            "open": row.state == "open" or role == "preview",
            "preview": role == "preview",
            "standing": kind_of(row.kind).is_standing,
        }

    def join(self, campaign: str, key: str, who: str, panel: dict[str, str], device: dict[str, Any]) -> dict[str, Any]:
        """Start or resume a session; ``who`` identifies the person (a panel's id, or a resume code).

        Writes nothing: a new visitor's data is in the token until they consent. Their first view is in the response
        (``shown``), which saves a call per rater. Raises BadOption, Forbidden: the link is invalid; NotOpen: the
        campaign accepts no new raters.
        """
        with self.store.read() as session:
            row, role = self._linked(session, campaign, key)
            identity = self.access.identity(row_id(row), role, who)
            rater = find_rater(session, row_id(row), identity)
            if rater is not None:
                rater = current_part(session, rater)
                return {"token": self.access.rater_token(row_id(rater)), "stage": rater.stage}
            stages.check_open(session, row_id(row), role)
            visitor, run = Visitor(row_id(row), role, identity, panel, device), self.run_of(session, row)
            seen = visitor_view(session, run, self._entry_stage(session, run, visitor))
        return {"token": self.access.visitor_token(visitor), "stage": seen["stage"], "shown": seen}

    def visitor_view(self, visitor: Visitor) -> dict[str, Any]:
        """The current view of a visitor. Raises Forbidden, NotOpen."""
        with self.store.read() as session:
            run = self._run_of_visitor(session, visitor)
            stages.check_open(session, run.id, visitor.role)
            return visitor_view(session, run, self._entry_stage(session, run, visitor))

    def consent(self, visitor: Visitor, stage: str, data: dict[str, Any]) -> "Future[int | dict[str, Any]]":
        """Process a visitor's consent. On agreement the visitor becomes a rater, whose id is the result for ``next``;
        otherwise the result is the last view, of a visitor who declined or for whom the test has no room.

        Raises (from the future): NotThisStage, NotOpen, BadMessage, TooMany.
        """

        def work(session: Session) -> int | dict[str, Any]:
            run = self._run_of_visitor(session, visitor)
            rater = find_rater(session, run.id, visitor.identity)  # a repeated call changes nothing
            if rater is None and self._entry_stage(session, run, visitor) == "full":
                return visitor_view(session, run, "full")
            rater = rater or stages.accept_consent(session, run, visitor, stage, data)
            return visitor_view(session, run, "refused") if rater is None else row_id(rater)

        return self.store.write(work)

    def stage(self, rater_id: int, stage: str, data: dict[str, Any]) -> "Future[None]":
        """Complete a stage; ``next`` has the following view. Raises NotThisStage, NotOpen, BadMessage."""

        def work(session: Session) -> None:
            rater, run = self._rater(session, rater_id)
            stages.complete_stage(session, run, rater, stage, data)

        return self.store.write(work)

    def next(self, rater_id: int, *, is_new: bool = False) -> "Future[dict[str, Any]]":
        """The rater's current view; records the first display of a trial. Blocks while it reads. Raises NotOpen.

        Where a view assigns nothing, it is read outside the writer's transaction, which then only records its display:
        writers of several processes wait for each other. After a finished part, the view and token are those of the
        next part.

        Args:
            is_new: the browser has no token of a rater yet; the view includes it.
        """
        holds = None if is_new else rater_id
        with self.store.read() as session:
            rater, run = self._rater(session, rater_id)
            if not is_new:
                stages.check_may_start(session, rater)
            if not run.kind.is_standing and not is_part_finished(rater):
                view, new = stage_view(session, run, rater, partial(self.access.clip_key, rater_id))
                return self._recorded(self._with_token(view, rater, holds), rater, new)

        def work(session: Session) -> dict[str, Any]:
            rater, run = self._rater(session, rater_id)
            stages.assign_next_battle(session, run, rater)
            return self._next_view(session, rater, run, holds)

        return self.store.write(work)

    def _recorded(self, view: dict[str, Any], rater: Rater, new: str | None) -> "Future[dict[str, Any]]":
        """The view, once its display is on disk; ``new`` is a trial that it shows for the first time."""
        if new is None and not stages.is_stale(rater):
            shown: Future[dict[str, Any]] = Future()
            shown.set_result(view)
            return shown

        def work(session: Session) -> dict[str, Any]:
            stages.record_seen(session, rater, new)
            return view

        return self.store.write(work)

    def answer(self, rater_id: int, answer: AnswerCreate) -> "Future[AnswerPublic]":
        """Store an answer; the future resolves once it is on disk. Raises Forbidden, BadAnswer."""

        finished: list[int] = []

        def work(session: Session) -> AnswerPublic:
            rater, run = self._rater(session, rater_id)
            receipt = store_answer(session, run, rater, answer)
            if receipt.voices:
                titles = self.titles(session, run.id)
                receipt = receipt.model_copy(update={"titles": [titles[name] for name in receipt.voices]})
            if (
                rater.stage in ("comments", "done")
                and receipt.counted
                and rater.role == "panel"
                and run.config.stop.is_active
            ):
                finished.append(run.id)
            return receipt

        def look(done: "Future[AnswerPublic]") -> None:
            if finished and done.exception() is None:
                self.interim_looks.on_rater_finished(finished[0])

        stored = self.store.write(work, soon=True)
        stored.add_done_callback(look)
        return stored

    def slot_voice(self, rater_id: int, trial: str, slot: int) -> takes.SlotVoice:
        """The voice of a slot of a live trial. Raises Forbidden, NotThisStage, BadMessage."""
        with self.store.read() as session:
            rater, run = self._rater(session, rater_id)
            voice = takes.slot_voice(session, rater, trial, slot)
            return replace(voice, max_chars=run.config.arena.max_chars) if run.kind.is_standing else voice

    def record_miss(
        self, rater_id: int, trial: str, slot: int, why: takes.Miss, late_ms: float | None
    ) -> "Future[bool]":
        """Record a failed play of a live trial; returns whether it may be skipped. Raises as ``slot_voice``."""

        def work(session: Session) -> bool:
            return takes.record_miss(session, self._rater(session, rater_id)[0], trial, slot, why, late_ms)

        return self.store.write(work, soon=True)

    def store_take(self, rater_id: int, take: takes.FinishedTake, trace: bytes) -> "Future[None]":
        """Store a take of a live trial; resolves once it is on disk. Raises as ``takes.store_take``."""
        address = self.clips.add_trace(trace)

        def work(session: Session) -> None:
            rater, run = self._rater(session, rater_id)
            script = self.access.script_of(run.id, take.typing.text()) if run.kind.is_standing else ""
            takes.store_take(session, rater, take, address, script)

        done: Future[None] = Future()  # resolved after cleanup, so that a failed take leaves no trace

        def settle(written: "Future[None]") -> None:
            error = written.exception()
            try:
                if error is not None:
                    self.clips.drop_trace(address)
            finally:
                done.set_result(None) if error is None else done.set_exception(error)

        self.store.write(work, soon=True).add_done_callback(settle)
        return done

    def withdraw(self, rater_id: int) -> "Future[None]":
        """Withdraw a rater from the test."""

        def work(session: Session) -> None:
            stages.withdraw(session, current_part(session, self._rater(session, rater_id)[0]))

        return self.store.write(work)

    # calls of the owner

    def links(self, campaign: str) -> dict[str, str]:
        """Paths of a campaign's links by role, and of an arena's ladder. Raises BadOption."""
        with self.store.read() as session:
            row = find_campaign(session, campaign)
        number = row_id(row)
        test = self.access.link_id(number)
        paths = {
            name: f"/rate?{urlencode({'test': test, 'key': self.access.link_key(number, role)})}"
            for name, role in (("rater", "panel"), ("preview", "preview"))
        }
        return paths | ({"ladder": LADDER} if kind_of(row.kind).is_standing else {})

    def newest_arena(self) -> str | None:
        """Path of the raters' link of the newest open arena; None while no arena is open."""
        with self.store.read() as session:
            name = next((row.name for row in open_arenas(session)), None)
        return None if name is None else self.links(name)["rater"]

    # shared

    def titles(self, session: Session, campaign_id: int) -> dict[str, str]:
        """Titles of a campaign's systems for visitors, by name."""
        return system_titles(session.exec(select(System).where(System.campaign_id == campaign_id)), self.cards())

    def run_of(self, session: Session, campaign: Campaign) -> LoadedCampaign:
        """Load a campaign; cached while it is open, since it does not change then."""
        run = self._running.get(row_id(campaign))
        if run is None:
            run = load_campaign(session, campaign)
            run.cache.replaced = partial(_replaced, row_id(campaign))
            if campaign.state == "open":
                self._running[row_id(campaign)] = run
        return run

    def _linked(self, session: Session, name: str, key: str) -> tuple[Campaign, str]:
        """A link's campaign and role. A missing campaign raises the same error as a wrong key.

        Args:
            name: the campaign's id in links; old links have its name.
        """
        check_name(name)
        ids = {
            self.access.link_id(number): number for number in session.exec(select(Campaign.id)) if number is not None
        }
        row = session.get(Campaign, ids[name]) if name in ids else None
        row = row or session.exec(select(Campaign).where(Campaign.name == name)).first()
        role = self.access.role_of_link(row_id(row) if row else 0, key)
        assert row is not None, "no campaign has the id 0, so no key fits it"
        return row, role

    def _next_view(self, session: Session, rater: Rater, run: LoadedCampaign, holds: int | None) -> dict[str, Any]:
        """A rater's view in their current part of the session."""
        rater, run = self._rater(session, row_id(enter_next_part(session, rater, run, partial(self.run_of, session))))
        view, new = stage_view(session, run, rater, partial(self.access.clip_key, row_id(rater)))
        stages.record_seen(session, rater, new)
        return self._with_token(view, rater, holds)

    def _with_token(self, view: dict[str, Any], rater: Rater, holds: int | None) -> dict[str, Any]:
        """A rater's view, with a token unless the browser holds that of this rater already."""
        return view if rater.id == holds else view | {"token": self.access.rater_token(row_id(rater))}

    def _entry_stage(self, session: Session, run: LoadedCampaign, visitor: Visitor) -> str:
        """A visitor's first stage: consent, or full if all quotas are filled (previews are exempt)."""
        return "full" if visitor.role == "panel" and is_full(session, run) else "consent"

    def _run_of_visitor(self, session: Session, visitor: Visitor) -> LoadedCampaign:
        campaign = session.get(Campaign, visitor.campaign_id)
        if campaign is None:
            raise Forbidden("this session is not known", "open the test's link again")
        return self.run_of(session, campaign)

    def _rater(self, session: Session, rater_id: int) -> tuple[Rater, LoadedCampaign]:
        rater = session.get(Rater, rater_id)
        if rater is None:
            raise Forbidden("this session is not known", "open the test's link again")
        known = self._running.get(rater.campaign_id)
        if known is not None:
            return rater, known
        campaign = session.get(Campaign, rater.campaign_id)
        assert campaign is not None, "a rater belongs to a campaign"
        return rater, self.run_of(session, campaign)

    def clear_campaign_cache(self) -> None:
        """Clear the cache after a campaign was opened, closed or changed."""
        self._running.clear()


def _replaced(campaign_id: int, session: Session) -> set[int]:
    campaign = session.get(Campaign, campaign_id)
    return set() if campaign is None else replaced_raters(session, campaign)


def open_listening_tests(database: str, data: Path, *, may_be_read_only: bool = False) -> ListeningTests:
    """Open the listening tests of a database and a data folder; both are created if missing.

    Raises BadOption: the URL is invalid; BadFile: the folder cannot be created, or the database cannot be opened.

    Args:
        database: URL; empty for ``studio.sqlite`` in the data folder.
        data: folder of the clips; private to its owner.
        may_be_read_only: open a database that cannot be written, too; changes raise Unavailable.
    """
    root = data_folder(data)
    try:
        durable.make_folder(root)
        if not database:
            file = root / "studio.sqlite"
            if not file.exists():
                file.touch(mode=0o600)  # SQLite copies the mode to its other files
            database = f"sqlite:///{file}"
    except OSError as error:
        raise BadFile(f"the data folder {data} cannot be used: {error}", "give another --data") from error
    store = Store(database)
    if store.is_read_only and not may_be_read_only:
        store.close()
        raise BadFile(
            f"the database of {data} cannot be written",
            "make room on its disk, and see who may write the folder and its files",
        )
    return ListeningTests(store, ClipFolder(root / "clips"))
