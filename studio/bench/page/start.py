"""How soon the app's page answers, and how much memory one utterance takes."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from studio.bench.material import read_texts
from studio.bench.page.browser import app_process, wait_for
from studio.bench.settings import StartSetting
from studio.core.errors import NeedsPackage
from studio.measure.latency import percentiles
from studio.measure.report import print_table

_MIB = 1024.0  # kB, as the kernel counts


def bench_start(setting: StartSetting) -> dict[str, Any]:
    """Seconds from the start of the process until the page is served, and the process's memory in MiB.

    Raises:
        PageFailed: the app did not answer.
        NeedsPackage: this system does not tell a process's memory.
    """
    answers_s: list[float] = []
    memory: dict[str, float] = {}
    for _ in range(setting.starts):
        with app_process(setting.command) as (process, url):
            began_s = time.monotonic()
            wait_for(process, url)
            answers_s.append(time.monotonic() - began_s)
            if len(answers_s) == setting.starts:
                memory["idle_mib"] = _memory_mib(process.pid, "VmRSS")
                memory["audio_s"] = _speak(url, read_texts(setting.text, 1)[0])
                memory["peak_mib"] = _memory_mib(process.pid, "VmHWM")
    out = {"starts": setting.starts, "answers_s": percentiles(answers_s) | {"first": answers_s[0]}, "memory": memory}
    if not setting.quiet:
        show(out)
    return out


def _memory_mib(pid: int, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise NeedsPackage("this system does not tell a process's memory in /proc", "measure on Linux") from error
    return next(int(line.split()[1]) / _MIB for line in lines if line.startswith(f"{field}:"))


def _speak(url: str, text: str) -> float:
    """Speak a text as a client that stores the sound would; answers its seconds."""
    samples, rate_hz = 0, 1
    with connect(url.replace("http", "ws", 1) + "ws/speak", max_size=None) as ws:
        ws.send(json.dumps({"type": "open", "utterance": 1, "credit_ms": 60000}))
        ws.send(json.dumps({"type": "text", "utterance": 1, "text": text}))
        ws.send(json.dumps({"type": "end", "utterance": 1}))
        for message in ws:
            if isinstance(message, bytes):
                continue
            said = json.loads(message)
            rate_hz = said.get("rate_hz", rate_hz)
            if said["type"] == "ended":
                samples = said["samples"]
                break
    return samples / rate_hz


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    answers, memory = out["answers_s"], out["memory"]
    rows = [
        ["until the page answers: first start", round(answers["first"], 2), "s"],
        [f"until the page answers: median of {out['starts']}", round(answers["p50"], 2), "s"],
        ["memory, idle", round(memory["idle_mib"]), "MiB"],
        [f"memory, highest while {memory['audio_s']:.0f} s are spoken", round(memory["peak_mib"]), "MiB"],
    ]
    print_table("Start and memory of the app", ("", "", ""), rows)
