"""A listening test of its own in a temporary folder for the load and kill benches, and the audit of what it kept."""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studio.mos.campaign.config import CampaignConfig, Question, Texts
from studio.mos.campaign.draft import ItemSpec, SystemSpec
from studio.mos.rating.campaigns import create, set_state
from studio.mos.service import open_listening
from studio.mos.store.clips import StoredClip

CAMPAIGN = "bench"
RATE_HZ = 24_000
_QUESTIONS = (
    Question("naturalness", "How natural does the speech sound?", 1, 5),
    Question("coherence", "How well does it hold together?", 1, 5),
)


@dataclass(frozen=True)
class Site:
    """An open campaign: where it lies and what gets in.

    Attributes:
        key: of the raters' link.
        owner: the owner's token.
    """

    folder: Path
    key: str
    owner: str

    @property
    def file(self) -> Path:
        """The database."""
        return self.folder / "studio.sqlite"

    @property
    def database(self) -> str:
        """The database's address."""
        return f"sqlite:///{self.file}"


@dataclass(frozen=True)
class Acknowledged:
    """An answer that a client was told is safe; its comment is like no other one's."""

    trial: str
    comment: str
    scores: dict[str, int]


def make_site(folder: Path, *, items: int, systems: int, clip_s: float, trials: int, quota: int) -> Site:
    """An open ACR campaign of two questions whose clips are noise; whoever comes is given ``trials`` screens."""
    listening = open_listening("", folder)
    try:
        rng = np.random.default_rng(0)
        samples = round(clip_s * RATE_HZ)
        names = [f"system {s}" for s in range(systems)]
        scripts = [ItemSpec(f"item {i}", f"The sentence of number {i}.") for i in range(items)]
        clips: dict[tuple[str, str], StoredClip] = {}
        for script in scripts:
            for name in names:
                sha = listening.clips.add(rng.integers(-3000, 3000, samples, np.int16), RATE_HZ)
                clips[script.name, name] = StoredClip(sha, RATE_HZ, samples, sha, RATE_HZ, 0, -26, -26, -20)
        config = CampaignConfig(
            kind="acr",
            questions=list(_QUESTIONS),
            raters_per_stimulus=quota,
            trials_per_sitting=trials,
            texts=Texts(consent="This is a bench.", instructions="Listen, then score."),
        )

        def make(session: Any) -> int:
            number = create(session, CAMPAIGN, config, [SystemSpec(n) for n in names], scripts, clips, seed=1)
            set_state(session, CAMPAIGN, "open")
            return number

        number = listening.store.write_now(make)
        owner = listening.access.first_token
        assert owner is not None, "the folder is new"
        return Site(folder, listening.access.link_key(number, "panel"), owner)
    finally:
        listening.close()


def copy_files(file: Path, to: Path) -> Path:
    """Copy a SQLite database as it lies there, with its log and its index; answers the copy."""
    to.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        part = file.with_name(file.name + suffix)
        if part.is_file():
            shutil.copyfile(part, to / part.name)
    return to / file.name


def audit(file: Path, acknowledged: Iterable[Acknowledged]) -> dict[str, Any]:
    """Hold a database against what clients were told.

    Returns:
        ``answers``; ``lost`` (acknowledged and not there, or there with other marks), ``doubled`` (a screen that was
        answered more than once), ``unacknowledged`` (there, but nobody was told): lists of screens; ``integrity``:
        "ok", or what SQLite finds wrong.
    """
    told = {(one.trial, one.comment): one.scores for one in acknowledged}
    connection = sqlite3.connect(file)
    try:
        integrity = "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check"))
        rows = connection.execute(
            "SELECT a.trial_id, a.comment, json_group_object(s.question, s.value) FROM answer a "
            "JOIN score s ON s.answer_id = a.id GROUP BY a.id"
        ).fetchall()
    except sqlite3.DatabaseError as error:
        integrity, rows = str(error), []
    finally:
        connection.close()
    kept = {(trial, comment): json.loads(scores) for trial, comment, scores in rows}
    times = Counter(trial for trial, _, _ in rows)
    return {
        "answers": len(rows),
        "lost": sorted({trial for (trial, comment), scores in told.items() if kept.get((trial, comment)) != scores}),
        "doubled": sorted(trial for trial, count in times.items() if count > 1),
        "unacknowledged": sorted({trial for trial, _ in kept.keys() - told.keys()}),
        "integrity": integrity,
    }
