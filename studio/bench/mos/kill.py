"""``kill -9`` while raters answer: what was acknowledged is there afterwards, and was on the disk before it was said.

Three checks. The server is killed at random moments, and the files it leaves are audited before the next one opens
them. At other random moments it is held still (SIGSTOP) and its files are copied, as a snapshot or a backup would.
And strace shows that every acknowledgement waits for a sync of the database's log, which no killing of a process can
show: what a process has written survives it, synced or not.
"""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from studio.bench.mos.load import server_settings
from studio.bench.mos.log import RaterLog, raters
from studio.bench.mos.server import BareServer, bare_server
from studio.bench.mos.site import Site, audit, copy_files, make_site
from studio.bench.mos.trace import synced_answers, tracer
from studio.bench.page.browser import PageFailed
from studio.core.errors import BadOption
from studio.measure.report import print_table

PLANTS = ("acknowledge-before-commit", "synchronous-off")
_SETTLE_S = 0.03  # for acknowledgements on their way into the raters' log
_PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class KillSetting:
    """How often to kill, and under what load.

    Attributes:
        kills: 0 leaves the killing out.
        life_s: the least and the most time from a server's first acknowledgement to its end.
        traced_s: how long raters go on under strace after the first acknowledgement; 0 leaves it out.
        plant: a fault that the run must find: of PLANTS, or none.
    """

    kills: int = 200
    raters: int = 24
    think_s: tuple[float, float] = (0.1, 0.6)
    life_s: tuple[float, float] = (0.0, 0.8)
    traced_s: float = 4.0
    seed: int = 0
    plant: str = ""
    quiet: bool = False


@dataclass
class _Found:
    """What the checks found; ``failures`` in words."""

    copies: int = 0
    kills: int = 0
    lost: set[str] = field(default_factory=set[str])
    doubled: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])

    def take(self, when: str, seen: Mapping[str, Any]) -> None:
        """Add what an audit says."""
        for name, known in (("lost", self.lost), ("doubled", self.doubled)):
            fresh = sorted(set(seen[name]) - known)
            known.update(fresh)
            if fresh:
                self.failures.append(f"{when}: {len(fresh)} answers {name}, of screens {', '.join(fresh[:3])}")
        if seen["integrity"] != "ok":
            self.failures.append(f"{when}: {seen['integrity']}")


def bench_mos_kill(setting: KillSetting) -> dict[str, Any]:
    """What was lost; ``failures`` is empty when nothing was and every acknowledgement was synced.

    Raises:
        BadOption: the plant is not known.
        NeedsPackage: strace is missing.
    """
    if setting.plant not in ("", *PLANTS):
        raise BadOption(f"there is no fault {setting.plant!r}", f"plant {' or '.join(PLANTS)}")
    found, log, settings, seen, traced = _Found(), RaterLog(Path(os.devnull)), {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        if setting.traced_s:
            traced = _traced(setting, _site(Path(folder) / "traced"))
            unsynced = traced["answers"] - traced["synced"]
            if not traced["answers"]:
                found.failures.append("strace saw no answer")
            if unsynced:
                found.failures.append(
                    f"strace: {unsynced} of {traced['answers']} acknowledgements did not wait for a sync"
                )
        if setting.kills:
            log, settings, seen = _killed(setting, _site(Path(folder) / "killed"), found)
            found.failures += log.problems
    out = {
        "plant": setting.plant,
        "kills": found.kills,
        "copies": found.copies,
        "raters": setting.raters,
        "acknowledged": len(log.acknowledged),
        "answers": seen.get("answers"),
        "lost": len(found.lost),
        "doubled": len(found.doubled),
        "integrity": seen.get("integrity"),
        "strace": traced,
        "settings": settings,
        "server": "python -m studio.bench.mos.server",
        "failures": found.failures,
    }
    if not setting.quiet:
        show(out)
    return out


def _site(folder: Path) -> Site:
    return make_site(folder, items=12, systems=2, clip_s=0.5, trials=12, quota=10_000)


def _killed(setting: KillSetting, site: Site, found: _Found) -> tuple[RaterLog, dict[str, str], dict[str, Any]]:
    """Kill and begin again until it was done often enough; the raters go on all the while."""
    rng = Random(setting.seed)
    with bare_server(site.folder, plant=setting.plant) as server:
        server.begin()
        settings = server_settings(server.url, site.owner)
        with raters(
            site, server.url, count=setting.raters, think_s=setting.think_s, seed=setting.seed, endless=True
        ) as (_, log):
            for number in range(setting.kills):
                if number:
                    server.begin()
                _life(setting, server, site, log, found, rng)
        seen = audit(site.file, log.read().acknowledged)
        found.take("at the end", seen)
    return log, settings, seen


def _life(setting: KillSetting, server: BareServer, site: Site, log: RaterLog, found: _Found, rng: Random) -> None:
    """One server's life: raters answer, it is held still and copied at one moment, and killed at another."""
    _wait_for_answer(log)
    life_s = rng.uniform(*setting.life_s)
    held_at_s = rng.uniform(0.0, life_s)
    time.sleep(held_at_s)
    with tempfile.TemporaryDirectory() as folder:
        with server.stopped():
            time.sleep(_SETTLE_S)
            told = list(log.read().acknowledged)
            copy = copy_files(site.file, Path(folder) / "held")
        time.sleep(life_s - held_at_s)
        server.kill()
        found.kills += 1
        found.copies += 1
        found.take(f"copy {found.copies}, of a server held still", audit(copy, told))
        told = log.read().acknowledged
        found.take(f"kill {found.kills}", audit(copy_files(site.file, Path(folder) / "killed"), told))


def _wait_for_answer(log: RaterLog) -> None:
    """Until one more answer is acknowledged. Raises PageFailed."""
    before, until_s = len(log.read().acknowledged), time.monotonic() + _PATIENCE_S
    while len(log.read().acknowledged) == before:
        if time.monotonic() > until_s:
            raise PageFailed(f"no answer was acknowledged within {_PATIENCE_S:g} s", "read what the server says")
        time.sleep(0.01)


def _traced(setting: KillSetting, site: Site) -> dict[str, int]:
    """Acknowledgements under strace, and how many of them waited for a sync."""
    out = site.folder / "strace.txt"
    with bare_server(site.folder, plant=setting.plant, wrapper=tracer(out)) as server:
        server.begin()
        with raters(site, server.url, count=4, think_s=(0.02, 0.1), seed=setting.seed, endless=True) as (_, log):
            _wait_for_answer(log)
            time.sleep(setting.traced_s)
    with out.open(encoding="utf-8", errors="replace") as lines:
        found = synced_answers(lines)
    return {"answers": found.answers, "synced": found.synced}


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows: list[list[object]] = [
        ["answers acknowledged", out["acknowledged"]],
        ["of them lost", out["lost"]],
        ["screens answered twice", out["doubled"]],
        ["copies of a server held still", out["copies"]],
        ["integrity_check at the end", out["integrity"]],
        ["acknowledged under strace", out["strace"].get("answers")],
        ["of them after a sync of the log", out["strace"].get("synced")],
        ["failures", len(out["failures"])],
    ]
    note = "SQLite: " + ", ".join(f"{name} {value}" for name, value in out["settings"].items())
    planted = f", with {out['plant']} planted" if out["plant"] else ""
    print_table(f"{out['kills']} times kill -9 under {out['raters']} raters{planted}", ("", ""), rows, note)
    for failure in out["failures"][:10]:
        print(failure)
