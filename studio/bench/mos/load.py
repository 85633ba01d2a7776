"""Hundreds of raters at once over HTTP: how long they wait, and that nothing is lost or doubled."""

import json
import shlex
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.mos.log import raters
from studio.bench.mos.server import bare_server
from studio.bench.mos.site import Site, audit, make_site
from studio.bench.page.browser import own_command, running_app
from studio.measure.latency import percentiles
from studio.measure.report import print_table

TARGET_MS = 150.0  # p95 of an answer
NEXT_TARGET_MS = 300.0  # p95 of what is to be shown next, while everybody joins within a second


@dataclass(frozen=True, kw_only=True)
class LoadSetting:
    """Who comes, and to what.

    Attributes:
        think_s: the least and the most time between hearing and answering.
        bare: only the routes, without engine and page (studio.bench.mos.server); else ``studio app``.
        timeout_s: after so long the run has failed.
    """

    raters: int = 300
    trials: int = 12
    think_s: tuple[float, float] = (2.0, 8.0)
    items: int = 40
    systems: int = 4
    clip_s: float = 4.0
    seed: int = 0
    bare: bool = False
    timeout_s: float = 900.0
    quiet: bool = False


def bench_mos_load(setting: LoadSetting) -> dict[str, Any]:
    """Percentiles of every call, and what the database kept of what was acknowledged; ``failures`` says what is wrong.

    Raises:
        PageFailed: the server did not start.
    """
    quota = 2 * setting.raters * setting.trials // (setting.items * setting.systems) + 1  # nobody finds it full
    with tempfile.TemporaryDirectory() as folder:
        site = make_site(
            Path(folder) / "site",
            items=setting.items,
            systems=setting.systems,
            clip_s=setting.clip_s,
            trials=setting.trials,
            quota=quota,
        )
        with _server(setting, site) as (url, command):
            settings = server_settings(url, site.owner)
            began_s = time.monotonic()
            with raters(site, url, count=setting.raters, think_s=setting.think_s, seed=setting.seed) as (process, log):
                status = process.wait(setting.timeout_s)
            took_s = time.monotonic() - began_s
            counts = ask_owner(url, site.owner, "campaigns")[0]
        log.read()
        seen = audit(site.file, log.acknowledged)
    wanted = setting.raters * setting.trials
    calls = {name: percentiles(log.took_ms.get(name, []), (50, 95, 99)) for name in ("answer", "next", "clip")}
    out = {
        "server": shlex.join(command),
        "settings": settings,
        "raters": setting.raters,
        "trials": setting.trials,
        "think_s": list(setting.think_s),
        "took_s": took_s,
        "calls_per_s": sum(map(len, log.took_ms.values())) / took_s,
        **{f"{name}_ms": found for name, found in calls.items()},
        "start_ms": percentiles([*log.took_ms.get("join", []), *log.took_ms.get("stage", [])], (50, 95, 99)),
        "acknowledged": len(log.acknowledged),
        "answers": seen["answers"],
        "lost": len(seen["lost"]),
        "doubled": len(seen["doubled"]),
        "unacknowledged": len(seen["unacknowledged"]),
        "retries": log.count.get("retry", 0),
        "told_to_wait": log.count.get("told to wait", 0),
        "failures": [*log.problems, *_wrong(seen, counts, setting, wanted, status)],
    }
    if not setting.quiet:
        show(out)
    return out


def _wrong(
    seen: Mapping[str, Any], counts: Mapping[str, Any], setting: LoadSetting, wanted: int, status: int
) -> list[str]:
    """What is not as it must be, in words."""
    found = [f"{len(seen[name])} answers {name}" for name in ("lost", "doubled", "unacknowledged") if seen[name]]
    if (seen["answers"], counts["answers"], counts["finished"]) != (wanted, wanted, setting.raters):
        found.append(
            f"{seen['answers']} answers of {wanted} are there, {counts['answers']} count, "
            f"{counts['finished']} of {setting.raters} raters finished"
        )
    if seen["integrity"] != "ok":
        found.append(seen["integrity"])
    if status:
        found.append(f"the raters ended with status {status}")
    return found


@contextmanager
def _server(setting: LoadSetting, site: Site) -> Iterator[tuple[str, list[str]]]:
    if setting.bare:
        with bare_server(site.folder) as server:
            server.begin()
            yield server.url, ["python", "-m", "studio.bench.mos.server"]
        return
    command = [*own_command(), "--data", str(site.folder), "--database", site.database]
    with running_app(command) as url:
        yield url, ["studio", "app", "--data", "FOLDER", "--database", "sqlite:///FILE"]


def ask_owner(url: str, token: str, path: str) -> Any:
    """What an owner's route answers."""
    request = urllib.request.Request(f"{url}mos/owner/{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30.0) as answer:
        return json.loads(answer.read())


def server_settings(url: str, token: str) -> dict[str, str]:
    """The database settings of the running server, as it says itself (SQLite's belong to a connection)."""
    return ask_owner(url, token, "settings")


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows: list[list[object]] = []
    for key, name in (
        ("answer_ms", f"answer (p95 wanted: {TARGET_MS:g})"),
        ("next_ms", f"next (p95 wanted: {NEXT_TARGET_MS:g})"),
        ("clip_ms", "clip, each range"),
        ("start_ms", "join and stages"),
    ):
        rows.append([name, *(round(out[key][point], 1) for point in ("p50", "p95", "p99")), "ms"])
    rows.append(["answers acknowledged, kept", out["acknowledged"], out["answers"], None, ""])
    rows.append(["lost, doubled", out["lost"], out["doubled"], None, ""])
    title = (
        f"{out['raters']} raters x {out['trials']} trials, thinking {out['think_s'][0]:g} to {out['think_s'][1]:g} s, "
        f"{out['calls_per_s']:.0f} calls a second"
    )
    note = f"{out['server']}; " + ", ".join(f"{name} {value}" for name, value in out["settings"].items())
    print_table(title, ("", "p50", "p95", "p99", ""), rows, note)
    for failure in out["failures"][:10]:
        print(failure)
