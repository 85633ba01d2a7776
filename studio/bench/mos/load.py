"""Hundreds of concurrent raters over HTTP: response times, and no lost or duplicated answers."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from studio.bench.mos.server import PROGRAM, bare_server
from studio.bench.mos.settings import MosLoadSetting
from studio.bench.mos.site import BenchSite, audit_site, make_site, postgresql_server, rater_process
from studio.bench.page.browser import START_S, PageFailed, app_process, own_command, wait_for
from studio.core.terminal import print_line
from studio.measure.latency import percentiles
from studio.measure.report import print_table

TARGET_MS = 150.0  # p95 of an answer
NEXT_TARGET_MS = 300.0  # p95 of the next trial, while all raters join within a second
_KILL_EVERY_S = 10.0  # shortest time between two kills
_POLL_S = 0.1


def bench_mos_load(setting: MosLoadSetting) -> dict[str, Any]:
    """Percentiles of every call, and the audit of acknowledged answers; ``failures`` are messages.

    Raises:
        PageFailed: the server did not start, or a killed replica did not come back in time.
    """
    quota = 2 * setting.raters * setting.trials // (setting.items * setting.systems) + 1  # never full
    kills = list[float]()
    with tempfile.TemporaryDirectory() as folder, _database(setting) as database:
        site = make_site(
            Path(folder) / "site",
            items=setting.items,
            systems=setting.systems,
            clip_s=setting.clip_s,
            trials=setting.trials,
            quota=quota,
            url=database,
        )
        with _server(setting, site) as (url, command, process_id):
            settings = server_settings(url, site.owner)
            began_s = time.monotonic()
            with rater_process(
                site,
                url,
                count=setting.raters,
                think_s=setting.think_s,
                seed=setting.seed,
                spread_s=setting.spread_s,
            ) as (process, log):
                for _ in range(setting.kills):
                    kills.append(_kill(process_id, url, setting, process, began_s))
                status = process.wait(setting.timeout_s)
            duration_s = time.monotonic() - began_s
            counts = owner_get(url, site.owner, "campaigns")[0]
        log.read()
        report = audit_site(site, log.acknowledged)
    expected = setting.raters * setting.trials
    calls = {name: percentiles(log.took_ms.get(name, []), (50, 95, 99)) for name in ("answer", "next", "clip")}
    return {
        "server": shlex.join(command),
        "settings": settings,
        "raters": setting.raters,
        "trials": setting.trials,
        "spread_s": setting.spread_s,
        "replicas": setting.replicas,
        "kills_s": kills,
        "think_s": list(setting.think_s),
        "took_s": duration_s,
        "calls_per_s": sum(map(len, log.took_ms.values())) / duration_s,
        **{f"{name}_ms": percentiles_ms for name, percentiles_ms in calls.items()},
        "start_ms": percentiles([*log.took_ms.get("join", []), *log.took_ms.get("stage", [])], (50, 95, 99)),
        "acknowledged": len(log.acknowledged),
        "answers": report["answers"],
        "lost": len(report["lost"]),
        "doubled": len(report["doubled"]),
        "unacknowledged": len(report["unacknowledged"]),
        "retries": log.count.get("retry", 0),
        "told_to_wait": log.count.get("must wait", 0),
        "failures": [*log.problems, *_wrong(report, counts, setting, expected, status)],
    }


def _wrong(
    report: Mapping[str, Any], counts: Mapping[str, Any], setting: MosLoadSetting, expected: int, status: int
) -> list[str]:
    """Failures as messages."""
    failures = [f"{len(report[name])} answers {name}" for name in ("lost", "doubled", "unacknowledged") if report[name]]
    if (report["answers"], counts["answers"], counts["finished"]) != (expected, expected, setting.raters):
        failures.append(
            f"{report['answers']} answers of {expected} are there, {counts['answers']} count, "
            f"{counts['finished']} of {setting.raters} raters finished"
        )
    if report["integrity"] != "ok":
        failures.append(report["integrity"])
    if status:
        failures.append(f"the raters ended with status {status}")
    return failures


@contextmanager
def _database(setting: MosLoadSetting) -> Iterator[str]:
    """The URL of a new PostgreSQL database; empty for the site's SQLite file."""
    if not setting.postgresql:
        yield ""
        return
    with postgresql_server() as folder:
        yield f"postgresql+psycopg://studio@/postgres?host={folder}"


@contextmanager
def _server(setting: MosLoadSetting, site: BenchSite) -> Iterator[tuple[str, list[str], int]]:
    """Address, command as printed, and process of the server."""
    if setting.bare:
        with bare_server(site.folder) as server:
            server.begin()
            yield server.url, ["python", *PROGRAM], server.pid
        return
    replicas = ["--replicas", str(setting.replicas)] if setting.replicas else []
    command = [*own_command(), *replicas, "--data", str(site.folder), "--database", site.database]
    shown = "postgresql://..." if setting.postgresql else "sqlite:///FILE"
    with app_process(command) as (process, url):
        wait_for(process, url + "health")
        yield url, ["studio", "app", *replicas, "--data", "FOLDER", "--database", shown], process.pid


def _kill(app: int, url: str, setting: MosLoadSetting, raters: "subprocess.Popen[bytes]", began_s: float) -> float:
    """Kill the oldest replica once all of them run; returns the time, s since the raters began. Raises PageFailed."""
    time.sleep(_KILL_EVERY_S)
    until_s = time.monotonic() + START_S
    while _running(url) < setting.replicas:
        if time.monotonic() > until_s or raters.poll() is not None:
            raise PageFailed("a killed replica did not come back while raters answered", "give more --trials")
        time.sleep(_POLL_S)
    os.kill(_replica_processes(app)[0], signal.SIGKILL)
    return time.monotonic() - began_s


def _running(url: str) -> int:
    """Number of replicas that a front reports as ok."""
    with urllib.request.urlopen(f"{url}health", timeout=30.0) as answer:
        return sum(one["status"] == "ok" for one in json.loads(answer.read())["replicas"])


def _replica_processes(app: int) -> list[int]:
    """Processes of the replicas of ``studio app``, the oldest first."""
    parents, replicas = dict[int, int](), list[tuple[int, int]]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            if b"ServeReplica" in (folder / "cmdline").read_bytes():
                replicas.append((int(fields[19]), int(folder.name)))  # start time

    def is_below(process: int) -> bool:
        return process == app or (process in parents and is_below(parents[process]))

    return [process for _, process in sorted(replicas) if is_below(process)]


def owner_get(url: str, token: str, path: str) -> Any:
    """Response of an owner route."""
    request = urllib.request.Request(f"{url}mos/owner/{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30.0) as answer:
        return json.loads(answer.read())


def server_settings(url: str, token: str) -> dict[str, str]:
    """Database settings of the running server (SQLite's are per connection)."""
    return owner_get(url, token, "settings")


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = []
    for key, name in (
        ("answer_ms", f"answer (p95 target: {TARGET_MS:g})"),
        ("next_ms", f"next (p95 target: {NEXT_TARGET_MS:g})"),
        ("clip_ms", "clip, each range"),
        ("start_ms", "join and stages"),
    ):
        rows.append([name, *(round(out[key][point], 1) for point in ("p50", "p95", "p99")), "ms"])
    rows.append(["answers acknowledged, stored", out["acknowledged"], out["answers"], None, ""])
    rows.append(["lost, duplicated", out["lost"], out["doubled"], None, ""])
    if out.get("replicas"):
        rows.append(["replicas, times killed", out["replicas"], len(out["kills_s"]), None, ""])
    title = (
        f"{out['raters']} raters x {out['trials']} trials, thinking {out['think_s'][0]:g} to {out['think_s'][1]:g} s, "
        f"{out['calls_per_s']:.0f} calls a second"
    )
    note = f"{out['server']}; " + ", ".join(f"{name} {value}" for name, value in out["settings"].items())
    print_table(title, ("", "p50", "p95", "p99", ""), rows, note)
    for failure in out["failures"][:10]:
        print_line(failure)
