"""``kill -9`` while raters answer: acknowledged answers must survive, and must be synced before the acknowledgement.

Three checks: the server is killed at random times, and its files are audited before the next start. At other random
times it is stopped (SIGSTOP) and its files are copied, as a snapshot or a backup would. And strace shows that every
acknowledgement waits for a sync of the database's log; killing a process cannot show this, because its writes survive
without a sync.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from durability.harness.planted_server import program

from studio.bench.durability import MosKillSetting
from studio.bench.mos.load import server_settings
from studio.bench.mos.server import PROGRAM, BareServer, bare_server
from studio.bench.mos.site import BenchSite, RaterLog, audit, copy_files, make_site, rater_process
from studio.bench.page.browser import PageFailed
from studio.core.errors import BadOption, NeedsPackage

PLANTS = ("acknowledge-before-commit", "synchronous-off")
_SETTLE_S = 0.03  # for acknowledgements in transit to the raters' log
_PATIENCE_S = 60.0


@dataclass
class _KillFindings:
    """Results of the checks; ``failures`` are messages."""

    copies: int = 0
    kills: int = 0
    lost: set[str] = field(default_factory=set[str])
    doubled: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])

    def take(self, when: str, report: Mapping[str, Any]) -> None:
        """Add the result of an audit."""
        for name, known in (("lost", self.lost), ("doubled", self.doubled)):
            added = sorted(set(report[name]) - known)
            known.update(added)
            if added:
                self.failures.append(f"{when}: {len(added)} answers {name}, trials {', '.join(added[:3])}")
        if report["integrity"] != "ok":
            self.failures.append(f"{when}: {report['integrity']}")


def bench_mos_kill(setting: MosKillSetting) -> dict[str, Any]:
    """Lost and duplicated answers; ``failures`` is empty if there are none and every acknowledgement was synced.

    Raises:
        BadOption: an unknown fault to plant.
        NeedsPackage: strace is missing.
    """
    if setting.plant not in ("", *PLANTS):
        raise BadOption(f"there is no fault {setting.plant!r}", f"plant {' or '.join(PLANTS)}")
    findings, log, settings, last_audit, sync_counts = _KillFindings(), RaterLog(Path(os.devnull)), {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        if setting.traced_s:
            sync_counts = _run_traced(setting, _site(Path(folder) / "traced"))
            unsynced = sync_counts["answers"] - sync_counts["synced"]
            if not sync_counts["answers"]:
                findings.failures.append("strace saw no answer")
            if unsynced:
                findings.failures.append(
                    f"strace: {unsynced} of {sync_counts['answers']} acknowledgements did not wait for a sync"
                )
        if setting.kills:
            log, settings, last_audit = _run_kills(setting, _site(Path(folder) / "killed"), findings)
            findings.failures += log.problems
    return {
        "plant": setting.plant,
        "kills": findings.kills,
        "copies": findings.copies,
        "raters": setting.raters,
        "acknowledged": len(log.acknowledged),
        "answers": last_audit.get("answers"),
        "lost": len(findings.lost),
        "doubled": len(findings.doubled),
        "integrity": last_audit.get("integrity"),
        "strace": sync_counts,
        "settings": settings,
        "server": f"python {' '.join(PROGRAM)}",
        "failures": findings.failures,
    }


def _site(folder: Path) -> BenchSite:
    return make_site(folder, items=12, systems=2, clip_s=0.5, trials=12, quota=10_000)


def _run_kills(
    setting: MosKillSetting, site: BenchSite, findings: _KillFindings
) -> tuple[RaterLog, dict[str, str], dict[str, Any]]:
    """Kill and restart the server while raters answer."""
    rng = Random(setting.seed)
    with bare_server(site.folder, program=program(setting.plant)) as server:
        server.begin()
        settings = server_settings(server.url, site.owner)
        with rater_process(
            site, server.url, count=setting.raters, think_s=setting.think_s, seed=setting.seed, endless=True
        ) as (_, log):
            for number in range(setting.kills):
                if number:
                    server.begin()
                _run_until_kill(setting, server, site, log, findings, rng)
        last_audit = audit(site.file, log.read().acknowledged)
        findings.take("at the end", last_audit)
    return log, settings, last_audit


def _run_until_kill(
    setting: MosKillSetting, server: BareServer, site: BenchSite, log: RaterLog, findings: _KillFindings, rng: Random
) -> None:
    """One server process: copied at a random time while stopped, and killed at another."""
    _wait_for_answer(log)
    life_s = rng.uniform(*setting.life_s)
    copy_at_s = rng.uniform(0.0, life_s)
    time.sleep(copy_at_s)
    with tempfile.TemporaryDirectory() as folder:
        with server.stopped():
            time.sleep(_SETTLE_S)
            acknowledged = list(log.read().acknowledged)
            copy = copy_files(site.file, Path(folder) / "held")
        time.sleep(life_s - copy_at_s)
        server.kill()
        findings.kills += 1
        findings.copies += 1
        findings.take(f"copy {findings.copies}, of a paused server", audit(copy, acknowledged))
        acknowledged = log.read().acknowledged
        findings.take(f"kill {findings.kills}", audit(copy_files(site.file, Path(folder) / "killed"), acknowledged))


def _wait_for_answer(log: RaterLog) -> None:
    """Wait for the next acknowledged answer. Raises PageFailed."""
    before, until_s = len(log.read().acknowledged), time.monotonic() + _PATIENCE_S
    while len(log.read().acknowledged) == before:
        if time.monotonic() > until_s:
            raise PageFailed(f"no answer was acknowledged within {_PATIENCE_S:g} s", "see the server's output")
        time.sleep(0.01)


def _run_traced(setting: MosKillSetting, site: BenchSite) -> dict[str, int]:
    """Number of acknowledgements under strace, and of those that waited for a sync."""
    out = site.folder / "strace.txt"
    with bare_server(site.folder, program=program(setting.plant), wrapper=strace_command(out)) as server:
        server.begin()
        with rater_process(site, server.url, count=4, think_s=(0.02, 0.1), seed=setting.seed, endless=True) as (_, log):
            _wait_for_answer(log)
            time.sleep(setting.traced_s)
    with out.open(encoding="utf-8", errors="replace") as lines:
        counts = count_synced(lines)
    return {"answers": counts.answers, "synced": counts.synced}


_CALLS = "recvfrom,recvmsg,read,sendto,sendmsg,write,pwrite64,fdatasync,fsync"
_LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<call>\w+)\((?P<fd>\d+)<(?P<file>[^>]*)>(?P<rest>.*)$")
_UNFINISHED = " <unfinished ...>"


def strace_command(out: Path) -> list[str]:
    """Command prefix that runs a server under strace. Raises NeedsPackage."""
    if shutil.which("strace") is None:
        raise NeedsPackage("tracing system calls needs strace, which is not installed", "apt-get install strace")
    return ["strace", "-f", "-q", "-y", "-s", "32", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(out)]


@dataclass
class SyncCounts:
    """Acknowledged answers, and those whose acknowledgement waited for a sync of their data."""

    answers: int = 0
    synced: int = 0


@dataclass
class _PendingAnswer:
    """A received answer, and which of its writes and syncs were seen."""

    written: bool = False
    syncing: set[str] = field(default_factory=set[str])
    synced: bool = False


def count_synced(lines: Iterable[str]) -> SyncCounts:
    """Parse strace's output (``strace_command``): lines are in the order of events; a blocking call takes two lines."""
    counts = SyncCounts()
    pending: dict[str, _PendingAnswer] = {}
    blocked: dict[str, tuple[str, str, str]] = {}
    for line in lines:
        parts = _LINE.match(line)
        if parts is None:
            continue
        pid, rest = parts["pid"], parts["rest"]
        resumed = _RESUMED.match(rest)
        if resumed is not None:
            if pid in blocked:
                call, fd, file = blocked.pop(pid)
                _exit_call(pending, pid, call, fd, file, resumed["rest"])
            continue
        match = _CALL.match(rest)
        if match is None:
            continue
        call, fd, file = match["call"], match["fd"], match["file"]
        _enter_call(counts, pending, pid, call, fd, file, match["rest"])
        if rest.endswith(_UNFINISHED):
            blocked[pid] = (call, fd, file)
        else:
            _exit_call(pending, pid, call, fd, file, match["rest"])
    return counts


def _enter_call(
    counts: SyncCounts, pending: dict[str, _PendingAnswer], pid: str, call: str, fd: str, file: str, text: str
) -> None:
    """A sync covers what was written before it; an acknowledgement is synced if the sync ended before it."""
    if call in ("fdatasync", "fsync") and file.endswith("-wal"):
        for one in pending.values():
            if one.written:
                one.syncing.add(pid)
    if call in ("sendto", "sendmsg", "write") and '"HTTP/1.1 ' in text and fd in pending:
        one = pending.pop(fd)
        counts.answers += 1
        counts.synced += one.synced


def _exit_call(pending: dict[str, _PendingAnswer], pid: str, call: str, fd: str, file: str, text: str) -> None:
    if call in ("recvfrom", "recvmsg", "read") and '"POST /mos/answer' in text:
        pending[fd] = _PendingAnswer()
    if call == "pwrite64" and file.endswith("-wal"):
        for one in pending.values():
            one.written = True
    if call in ("fdatasync", "fsync") and file.endswith("-wal"):
        for one in pending.values():
            one.synced |= pid in one.syncing and text.rstrip().endswith("= 0")
            one.syncing.discard(pid)
