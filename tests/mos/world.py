"""Small campaigns with real sounds, and raters who use the calls behind the routes."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, text
from sqlmodel import Session, select

from studio.core.clips import to_int16
from studio.mos.campaign.config import CampaignConfig, Gates, Question, Texts
from studio.mos.campaign.manifest import ItemSpec, SystemSpec
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import create_campaign, find_campaign, set_state
from studio.mos.sessions.hearing_checks import environment_answers, headphone_answers
from studio.mos.sessions.stages import check_seed, count_tries
from studio.mos.store.clips import ClipFolder, StoredClip
from studio.mos.store.database import Store
from studio.mos.store.tables import (
    AnswerCreate,
    AnswerPublic,
    Campaign,
    ChoiceCreate,
    PlayCreate,
    Rater,
    ScoreCreate,
    Secret,
)

RATE_HZ = 16_000
CLIP_MS = 500.0
# For a test that does not depend on the database.
SQLITE_ONLY = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
SYSTEMS = ("zebrafinch", "nightjar")  # words used nowhere else, so that a leak is seen
NATURAL = Question("naturalness", "How natural?", 1, 5)
ACR = CampaignConfig(
    kind="acr",
    questions=[NATURAL],
    raters_per_stimulus=3,
    trials_per_sitting=4,
    gates=Gates(level=False),
    texts=Texts(title="Voices", consent="May we?", instructions="Listen.", consent_version=3),
)
AB = replace(ACR, kind="ab", questions=[], choices=["a", "b", "tie"])


def items_of(count: int, role: str = "test") -> list[ItemSpec]:
    """Scripts named after their role."""
    return [ItemSpec(f"{role}{i}", f"The {role} sentence {i}.", role) for i in range(count)]


class World:
    """Listening tests with campaigns in them."""

    def __init__(self, store: Store, clips: Path) -> None:
        self.store = store
        self.listening = ListeningTests(store, ClipFolder(clips))

    def campaign(
        self,
        config: CampaignConfig = ACR,
        name: str = "first",
        systems: Sequence[SystemSpec] = tuple(SystemSpec(s) for s in SYSTEMS),
        items: Sequence[ItemSpec] = tuple(items_of(4)),
        state: str = "open",
        seed: int = 7,
    ) -> str:
        """A campaign with a sound of half a second per script and system; returns its name."""
        clips = {(i.name, s.name): self.clip(i.name, s.name) for i in items for s in systems}
        self.store.write_now(lambda session: create_campaign(session, name, config, systems, items, clips, seed))
        if state != "draft":
            self.set_state(state, name)
        return name

    def set_state(self, state: str, name: str = "first") -> None:
        """Open or close a campaign."""
        self.store.write_now(lambda session: set_state(session, name, state).id)

    def clip(self, item: str, system: str) -> StoredClip:
        """A distinct tone, stored in the clip folder."""
        hz = 200.0 + sum(map(ord, item + system)) % 997
        pcm = to_int16(0.1 * np.sin(2 * np.pi * hz * np.arange(RATE_HZ // 2) / RATE_HZ))
        sha = self.listening.clips.add(pcm, RATE_HZ)
        return StoredClip(sha, RATE_HZ, len(pcm), sha, RATE_HZ, 0.0, -23.0, -23.0, -20.0)

    def link(self, name: str = "first", role: str = "panel") -> str:
        """The key in a campaign's link."""
        return self.listening.access.link_key(self.campaign_id(name), role)

    def campaign_id(self, name: str = "first") -> int:
        with self.store.read() as session:
            found = session.exec(select(Campaign.id).where(Campaign.name == name)).one()
        assert found is not None
        return found

    def read(self, work: Callable[..., Any], name: str = "first", *more: Any, **keys: Any) -> Any:
        """The result of ``work(session, campaign, ...)``, which must not be lazy."""
        with self.store.read() as session:
            return work(session, find_campaign(session, name), *more, **keys)

    def join(self, who: str, name: str = "first", role: str = "panel") -> "RaterSession":
        """Join by a link."""
        return self.sit(who, {"PROLIFIC_PID": who}, name, role)

    def begin(self, who: str, name: str = "first", role: str = "panel") -> "RaterSession":
        """Join, consent and read the instructions."""
        rater_session = self.join(who, name, role)
        rater_session.to_trials()
        return rater_session

    def sit(self, who: str, panel: dict[str, str], name: str = "first", role: str = "panel") -> "RaterSession":
        """Join with a panel's parameters; empty for a rater with a resume code."""
        device = {"screen": "1280x720"}
        joined = self.listening.join(name, self.link(name, role), who, panel, device)
        return RaterSession(self, joined["token"], joined["stage"])

    def all(self, table: Any) -> list[Any]:
        """Every row of a table."""
        with self.store.read() as session:
            return list(session.exec(select(table)).all())


@dataclass
class RaterSession:
    """A person with a browser: a visitor first, a rater with another token after consent."""

    world: World
    token: str
    joined_at: str

    @property
    def rater_id(self) -> int:
        """Raises Forbidden for a visitor."""
        return self.world.listening.access.rater_of(self.token)

    def next(self) -> dict[str, Any]:
        visitor = self.world.listening.access.visitor_of(self.token)
        if visitor is not None:
            return self.world.listening.visitor_view(visitor)
        shown = self.world.listening.next(self.rater_id).result(30)
        self.token = shown.pop("token", self.token)  # each part of a session has its own rater
        return shown

    def send(self, stage: str, **data: Any) -> dict[str, Any]:
        visitor = self.world.listening.access.visitor_of(self.token)
        if visitor is None:
            self.world.listening.stage(self.rater_id, stage, data).result(30)
            return self.next()
        agreed = self.world.listening.consent(visitor, stage, data).result(30)
        if not isinstance(agreed, int):
            return agreed
        shown = self.world.listening.next(agreed, is_new=True).result(30)
        self.token = shown.pop("token")
        return shown

    def agree(self) -> "RaterSession":
        """Give consent as a visitor; does nothing for a rater."""
        if self.world.listening.access.visitor_of(self.token) is not None:
            self.send("consent", agreed=True, version=3)
        return self

    def row(self) -> Rater:
        with self.world.store.read() as session:
            found = session.get(Rater, self.rater_id)
        assert found is not None
        return found

    def to_trials(self) -> dict[str, Any]:
        """Pass consent and instructions, usually up to the first screen."""
        return self.agree().send("instructions")

    def headphones(self, kind: str, wrong: int = 0) -> list[int]:
        """Answers to the current check, some of them wrong."""
        with self.world.store.read() as session:
            rater = session.get(Rater, self.rater_id)
            assert rater is not None
            right = headphone_answers(kind, check_seed(rater, count_tries(session, rater, "headphones")))
        return [(a + 1) % 3 if i < wrong else a for i, a in enumerate(right)]

    def environment(self, wrong: int = 0) -> list[int]:
        """Answers to the environment test, some of them wrong."""
        with self.world.store.read() as session:
            rater = session.get(Rater, self.rater_id)
            assert rater is not None
            right = environment_answers(check_seed(rater, count_tries(session, rater, "environment")))
        return [2 if i < wrong else a for i, a in enumerate(right)]

    def answer(self, shown: dict[str, Any], value: Any = 4, heard_ms: float = CLIP_MS) -> AnswerPublic:
        return self.world.listening.answer(self.rater_id, reply(shown, value, heard_ms)).result(30)

    def trials(self, value: Any = 4) -> Iterator[dict[str, Any]]:
        """All remaining screens, each answered after it was yielded."""
        while (shown := self.next())["stage"] == "trials":
            yield shown
            self.answer(shown, value)

    def finish(self, value: Any = 4) -> list[dict[str, Any]]:
        """From the first screen to the end; returns the screens."""
        screens = list(self.trials(value))
        self.send("comments", comment="none")
        return screens


def reply(shown: dict[str, Any], value: Any = 4, heard_ms: float = CLIP_MS) -> AnswerCreate:
    """An answer to a screen: ``value`` for every question of every sound, or as the choice."""
    trial, screen = shown["trial"], shown["screen"]
    judged = [s["slot"] for s in trial["slots"] if s["place"] == "candidate"]
    return AnswerCreate(
        trial=trial["trial"],
        scores=[ScoreCreate(question=q["id"], slot=s, value=value) for q in screen["questions"] for s in judged],
        choices=[ChoiceCreate(question="preference", outcome=value)] if screen["choices"] else [],
        plays=[PlayCreate(slot=s["slot"], plays=1, heard_ms=heard_ms) for s in trial["slots"]],
        response_ms=1500.0,
    )


def keep(name: str, value: str = "x") -> Callable[[Session], str]:
    """A write of one row; returns its name."""

    def work(session: Session) -> str:
        session.add(Secret(name=name, value=value))
        return name

    return work


def names(url: str) -> set[str]:
    """The names that another connection sees."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = set(connection.execute(text("SELECT name FROM secret")).scalars())
    engine.dispose()
    return found


def hold(store: Store) -> threading.Event:
    """Block the writer until the event is set, so that later writes wait and share a commit."""
    busy, go_on = threading.Event(), threading.Event()

    def work(_session: Session) -> None:
        busy.set()
        go_on.wait(20)

    store.write(work)
    assert busy.wait(10)
    return go_on
