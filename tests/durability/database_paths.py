"""Write paths into the database of listening tests, and uploads to drafts."""

import json
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from durability.write_paths import WritePath, recording
from mos.world import ACR, SystemSpec, World
from sqlalchemy import create_engine, text
from sqlmodel import select

from studio.core.sound_files import read_mono
from studio.mos.campaign.config import campaign_config, from_json
from studio.mos.import_export.merge import merge_from
from studio.mos.service import open_listening_tests
from studio.mos.stimuli.editing import change_settings, new_draft
from studio.mos.store import migrations
from studio.mos.store.database import Store
from studio.mos.store.sqlite_files import copy_database
from studio.mos.store.tables import Answer, Campaign, Trial
from studio.serve.mos.draft_audio import DraftSounds


class _InDatabase(WritePath):
    reads_when_full = False  # SQLite makes files beside a database with a log

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listening = open_listening_tests("", root)

    def close(self) -> None:
        self.listening.close()

    @classmethod
    def names(cls, root: Path, statement: Any) -> set[str]:
        opened = open_listening_tests("", root, may_be_read_only=True)
        with closing(opened) as listening, listening.store.read() as session:
            assert session.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
            return {str(one) for one in session.exec(statement)}


class Answers(_InDatabase):
    """Answers of raters, a new one for each."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.world = World(self.listening.store, root / "clips")
        self.world.listening = self.listening
        with self.listening.store.read() as session:
            is_new = session.exec(select(Campaign.id)).first() is None
        if is_new:
            self.world.campaign(replace(ACR, raters_per_stimulus=1000))

    def prepare(self, number: int) -> None:
        self.rater = self.world.join(f"P{number}")
        self.shown = self.rater.to_trials() if self.rater.joined_at == "consent" else self.rater.next()

    def save(self, number: int) -> str:
        self.rater.answer(self.shown)
        return str(self.shown["trial"]["trial"])

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return cls.names(root, select(Trial.id).join(Answer))


class Drafts(_InDatabase):
    """Drafts of listening tests."""

    def save(self, number: int) -> str:
        with self.listening.store.read() as session:  # on a retry it may exist, although it was not acknowledged
            known = session.exec(select(Campaign.id).where(Campaign.name == f"d{number}")).first()
        if known is None:
            new_draft(self.listening, f"d{number}", "incremental-mos")
        return f"d{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return cls.names(root, select(Campaign.name))


class Settings(_InDatabase):
    """Settings of a draft, each replacing the previous ones."""

    replaces = "title {}"

    def prepare(self, number: int) -> None:
        if number == 0:
            new_draft(self.listening, "d", "incremental-mos")

    def save(self, number: int) -> str:
        with self.listening.store.read() as session:
            config = campaign_config(session.exec(select(Campaign)).one())
        texts = replace(config.texts, title=f"title {number}")
        change_settings(self.listening, "d", replace(config, texts=texts))
        return texts.title

    @classmethod
    def read(cls, root: Path) -> set[str]:
        (config,) = cls.names(root, select(Campaign.config))
        return {from_json(json.loads(config)).texts.title}


class Uploads(_InDatabase):
    """Sounds that an owner uploaded for a draft."""

    is_locked = False

    def prepare(self, number: int) -> None:
        if number == 0:
            new_draft(self.listening, "d", "incremental-mos")

    def save(self, number: int) -> str:
        DraftSounds(self.listening).store("d", "system", f"item{number}.wav", recording(number, frames=22))
        return f"item{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        files = [*(root / "uploads/d/system").glob("*.wav")]
        assert all(len(read_mono(file)[0]) for file in files)
        return {file.stem for file in files}


class Merges(_InDatabase):
    """Campaigns of another studio, with their clips."""

    def prepare(self, number: int) -> None:
        other = self.root.parents[2] / "other" / str(number)  # on a working disk
        if not other.exists():
            with closing(open_listening_tests("", other)) as listening:
                World(listening.store, other / "clips").campaign(name=f"c{number}", systems=[SystemSpec(f"s{number}")])
        self.other = other / "studio.sqlite"

    def save(self, number: int) -> str:
        merge_from(self.listening, str(self.other))
        return f"c{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(open_listening_tests("", root, may_be_read_only=True)) as listening:
            found = set[str]()
            with listening.store.read() as session:
                for campaign in session.exec(select(Campaign)):
                    rows = session.execute(
                        text("SELECT clip_sha FROM stimulus WHERE campaign_id = :id"), {"id": campaign.id}
                    ).scalars()
                    assert all(listening.clips.read(sha)[1] for sha in rows)
                    found.add(campaign.name)
            return found


class Migrations(WritePath):
    """Databases of an earlier schema, each migrated to the newest one."""

    reads_when_full = False

    def file(self, number: int) -> Path:
        return self.root / f"old{number}.sqlite"

    def prepare(self, number: int) -> None:
        if not self.file(number).exists():
            engine = create_engine(f"sqlite:///{self.file(number)}")
            with engine.begin() as connection:
                migrations.migrate(connection, to=1)
                connection.execute(
                    text("INSERT INTO campaign (name, kind, state, seed, config, created_at) "
                         "VALUES (:name, 'ab', 'draft', 1, '{}', 1.0)"),
                    {"name": f"c{number}"},
                )  # fmt: skip
            engine.dispose()

    def save(self, number: int) -> str:
        Store(f"sqlite:///{self.file(number)}").close()
        return f"c{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        found = set[str]()
        for file in root.glob("old*.sqlite"):
            with tempfile.TemporaryDirectory() as folder:
                copy_database(file, copy := Path(folder) / "old.sqlite")
                connection = sqlite3.connect(copy)
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                found |= {name for (name,) in connection.execute("SELECT name FROM campaign")}
                connection.close()
        return found


DATABASE_PATHS: tuple[type[WritePath], ...] = (Answers, Drafts, Settings, Uploads, Merges, Migrations)
