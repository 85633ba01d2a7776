"""Listening test in a temporary folder for the load and kill benches: campaign, raters, audit, PostgreSQL server."""

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import create_engine, text

from studio.bench.mos.raters import RaterRunPlan
from studio.core.errors import NeedsPackage, StudioError
from studio.mos.campaign.config import CampaignConfig, Question, Texts
from studio.mos.campaign.manifest import ItemSpec, SystemSpec
from studio.mos.service import open_listening_tests
from studio.mos.sessions.campaigns import create_campaign, set_state
from studio.mos.store.clips import StoredClip

CAMPAIGN = "bench"
RATE_HZ = 24_000
_SCORES = "SELECT a.id, a.trial_id, a.comment, s.question, s.value FROM answer a JOIN score s ON s.answer_id = a.id"
_QUESTIONS = (
    Question("naturalness", "How natural does the speech sound?", 1, 5),
    Question("coherence", "How well does it hold together?", 1, 5),
)


@dataclass(frozen=True)
class BenchSite:
    """An open campaign."""

    folder: Path
    key: str  # of the raters' link
    owner: str  # the owner's token
    url: str = ""  # of a PostgreSQL database; empty for the SQLite file

    @property
    def file(self) -> Path:
        """Database file."""
        return self.folder / "studio.sqlite"

    @property
    def database(self) -> str:
        """Database URL."""
        return self.url or f"sqlite:///{self.file}"


@dataclass(frozen=True)
class AcknowledgedAnswer:
    """An acknowledged answer; its comment is unique."""

    trial: str
    comment: str
    scores: dict[str, int]


def make_site(
    folder: Path, *, items: int, systems: int, clip_s: float, trials: int, quota: int, url: str = ""
) -> BenchSite:
    """Create and open an ACR campaign of two questions with noise clips, ``trials`` trials per rater."""
    with closing(open_listening_tests(url, folder)) as listening:
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

        def open_campaign(session: Any) -> int:
            number = create_campaign(session, CAMPAIGN, config, [SystemSpec(n) for n in names], scripts, clips, seed=1)
            set_state(session, CAMPAIGN, "open")
            return number

        number = listening.store.write_now(open_campaign)
        owner = listening.access.first_token
        assert owner is not None, "the folder is new"
        return BenchSite(folder, listening.access.link_key(number, "panel"), owner, url)


def copy_files(file: Path, to: Path) -> Path:
    """Copy a SQLite database with its log and index; returns the copy."""
    to.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        part = file.with_name(file.name + suffix)
        if part.is_file():
            shutil.copyfile(part, to / part.name)
    return to / file.name


def audit(file: Path, acknowledged: Iterable[AcknowledgedAnswer]) -> dict[str, Any]:
    """Compare a SQLite database with the acknowledged answers.

    Returns:
        ``answers``; ``lost`` (acknowledged but missing or different), ``doubled`` (trials answered repeatedly),
        ``unacknowledged`` (stored but not acknowledged): lists of trials; ``integrity``: "ok", or SQLite's message.
    """
    connection = sqlite3.connect(file)
    try:
        integrity = "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check"))
        rows = connection.execute(_SCORES).fetchall()
    except sqlite3.DatabaseError as error:
        integrity, rows = str(error), []
    finally:
        connection.close()
    return _compared(rows, acknowledged) | {"integrity": integrity}


def audit_site(site: BenchSite, acknowledged: Iterable[AcknowledgedAnswer]) -> dict[str, Any]:
    """``audit`` of a site's database; PostgreSQL needs no integrity check."""
    if not site.url:
        return audit(site.file, acknowledged)
    engine = create_engine(site.url)
    try:
        with engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(text(_SCORES))]
    finally:
        engine.dispose()
    return _compared(rows, acknowledged) | {"integrity": "ok"}


def _compared(rows: Iterable[tuple[Any, ...]], acknowledged: Iterable[AcknowledgedAnswer]) -> dict[str, Any]:
    expected = {(one.trial, one.comment): one.scores for one in acknowledged}
    stored: dict[tuple[str, str], dict[str, int]] = {}
    trials = dict[int, str]()
    for number, trial, comment, question, value in rows:
        stored.setdefault((trial, comment), {})[question] = value
        trials[number] = trial
    counts = Counter(trials.values())
    return {
        "answers": len(trials),
        "lost": sorted(
            {trial for (trial, comment), scores in expected.items() if stored.get((trial, comment)) != scores}
        ),
        "doubled": sorted(trial for trial, count in counts.items() if count > 1),
        "unacknowledged": sorted({trial for trial, _ in stored.keys() - expected.keys()}),
    }


class RaterLog:
    """Incremental reader of the raters' log; incomplete lines are ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self.acknowledged: list[AcknowledgedAnswer] = []
        self.problems: list[str] = []
        self.took_ms: dict[str, list[float]] = {}
        self.count: dict[str, int] = {}

    def read(self) -> "RaterLog":
        """Read new lines."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))
        return self

    def _take(self, line: dict[str, Any]) -> None:
        what = line["what"]
        self.count[what] = self.count.get(what, 0) + 1
        if "ms" in line:
            self.took_ms.setdefault(what, []).append(line["ms"])
        if what == "answer":
            self.acknowledged.append(AcknowledgedAnswer(line["trial"], line["comment"], line["scores"]))
        if what == "problem":
            self.problems.append(line["message"])


@contextmanager
def rater_process(
    site: BenchSite,
    url: str,
    *,
    count: int,
    think_s: tuple[float, float],
    seed: int,
    endless: bool = False,
    spread_s: float = 1.0,
) -> Iterator[tuple[subprocess.Popen[bytes], RaterLog]]:
    """Run raters on a site's campaign in a separate process, terminated at the end of the block."""
    host, _, port = url.removeprefix("http://").strip("/").partition(":")
    log = site.folder / f"raters-{seed}.jsonl"
    log.touch()
    plan = RaterRunPlan(host, int(port), CAMPAIGN, site.key, str(log), count, think_s, spread_s, seed, endless)
    command: Sequence[str] = [
        sys.executable,
        "-m",
        "studio.bench.mos.raters",
        str(plan.write(log.with_suffix(".plan.json"))),
    ]
    with subprocess.Popen(command, env={**os.environ}) as process:
        try:
            yield process, RaterLog(log)
        finally:
            process.terminate()


def programs() -> Path | None:
    """The folder of the newest installed server: Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgresql_server(*, is_durable: bool = True) -> Iterator[Path]:
    """The socket folder of a running server, removed afterwards.

    PostgreSQL refuses to run as root, so root starts it as user postgres. Raises NeedsPackage, StudioError.

    Args:
        is_durable: a commit waits for the disk.
    """
    where = programs()
    if where is None:
        raise NeedsPackage("there is no PostgreSQL server", "install one: on Debian, apt install postgresql")
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="mos-", dir="/tmp"))  # a socket's path has at most 107 characters
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"

    def call(program: str, *args: str) -> None:
        command = [*user, str(where / program), "-D", str(data), *args]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise StudioError(f"{program} failed: {done.stderr.strip()}", "see whether another user may start it")

    try:
        call("initdb", "-U", "studio", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-h '' -k {folder} -c max_connections=60{'' if is_durable else ' -F'}"
        call("pg_ctl", "-w", "-l", str(folder / "log"), "start", "-o", options)
        try:
            yield folder
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
