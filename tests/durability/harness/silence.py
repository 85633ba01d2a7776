"""Silence in an utterance of some 12 s while other connections of the same address load the server."""

import json
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durability.harness.http_floods import http_flood
from durability.harness.pulse import pulse
from durability.harness.served import MonitoredServer, served
from websockets.sync.client import ClientConnection, connect

from studio.bench.durability import HEALTH_TARGET_MS, SILENCE_TARGET_MS, FloodSetting
from studio.bench.mos.site import make_site
from studio.bench.page.inspect import write_repeated
from studio.core.packets import unpack_packet
from studio.core.traces.trace import open_trace
from studio.measure.latency import percentiles

_TOKEN = "minutes-of-speech-----"  # an id of the trace store: 22 characters
_PATIENCE_S = 120.0
_REPORT_S = 0.05  # as the page's player


@dataclass(frozen=True)
class HttpFlood:
    """Requests for ``paths`` in turn; ``connections`` None is the setting's number."""

    paths: tuple[str, ...]
    connections: int | None = None
    pipelined: int = 1


_TRACE = f"/traces/{_TOKEN}"
HTTP_FLOODS: Mapping[str, HttpFlood | None] = {
    "none": None,
    "views of a trace": HttpFlood((f"{_TRACE}.view",)),
    "level and pitch": HttpFlood((f"{_TRACE}.prosody",)),
    "attention": HttpFlood((f"{_TRACE}.attention",)),
    "as-heard downloads": HttpFlood((f"{_TRACE}.wav?as_heard=true",)),
    "comparisons": HttpFlood((f"/compare/view?trace={_TOKEN}&trace={_TOKEN}",)),
    "/rate": HttpFlood(("/rate",)),
    "/rate, 16 connections": HttpFlood(("/rate",), 16),
    "all pages": HttpFlood(("/", "/inspect", "/compare", "/rate", "/annotate", "/engine")),
    "40 pipelined pages": HttpFlood(("/rate",), 100, 40),
    "scripts": HttpFlood(("/theme.css", "/studio-assets/none/live/live.js", "/static/img/logo.svg")),
    "lists of voices": HttpFlood(("/inspect/voices", "/api/voices", "/v1/voices", "/v1/models", "/v1/audio/voices")),
    "rejected utterances": HttpFlood(
        tuple(
            f"/v1/audio/speech {json.dumps({'voice': 'wren', 'input': 'one'} | wrong)}"
            for wrong in ({"voice": "nobody"}, {"speed": 99}, {"input": "x" * 5000}, {"response_format": "mid"})
        )
    ),
    "unknown addresses": HttpFlood(("/nothing", "/traces/none.view", "/mos/none")),
}


def bench_flood(setting: FloodSetting) -> dict[str, Any]:
    """Silence, delay of the first sound and ``/health`` during each flood; ``failures`` as sentences.

    Raises PageFailed: the app did not start, or does not speak.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = make_site(folder / "site", items=2, systems=2, clip_s=0.5, trials=2, quota=10)
        with served(site, folder, setting.command) as server:
            spoken = listen(server, setting.text)
            with urllib.request.urlopen(server.url + spoken["trace_url"], timeout=_PATIENCE_S) as answer:
                (folder / "spoken.trace").write_bytes(answer.read())
            trace = open_trace(folder / "spoken.trace")
            write_repeated(trace, 60.0 * setting.minutes, folder / "traces" / _TOKEN)
            floods = {
                name: _measure(setting, server, kind)
                for name, kind in HTTP_FLOODS.items()
                if not setting.kinds or name in setting.kinds
            }
    out: dict[str, Any] = {"connections": setting.connections, "minutes": setting.minutes, "floods": floods}
    out["failures"] = [
        f"{name}: {what} of {one[key]:.0f} ms"
        for name, one in floods.items()
        for key, what, target in (
            ("silence_ms", "silence", SILENCE_TARGET_MS),
            ("health_p99_ms", "p99 of /health", HEALTH_TARGET_MS),
        )
        if one[key] > target
    ]
    return out


def _measure(setting: FloodSetting, server: MonitoredServer, kind: HttpFlood | None) -> dict[str, Any]:
    answers: dict[str, int] = {}
    with pulse(server.url) as health_ms:
        if kind is None:
            heard = listen(server, setting.text)
        else:
            connections = kind.connections or setting.connections
            with http_flood(server.port, kind.paths, connections, kind.pipelined) as answers:
                time.sleep(setting.lead_s)
                heard = listen(server, setting.text)
    health = percentiles(health_ms, (50, 99))
    return {
        "audio_s": heard["audio_s"],
        "first_ms": heard["first_ms"],
        "silence_ms": heard["silence_ms"],
        "longest_ms": heard["longest_ms"],
        "health_p50_ms": health["p50"],
        "health_p99_ms": health["p99"],
        "answers": answers,
    }


def listen(server: MonitoredServer, text: str) -> dict[str, Any]:
    """Speak a text over the socket, and play it from the first packet on.

    ``silence_ms`` is the sum and ``longest_ms`` the longest of the pauses in which the player has nothing to play.
    """
    url = f"ws://127.0.0.1:{server.port}/ws/speak"
    with connect(url, proxy=None, max_size=None, open_timeout=_PATIENCE_S, close_timeout=1.0) as ws:
        rate_hz = json.loads(ws.recv(_PATIENCE_S))["voices"][0]["sample_rate_hz"]
        ws.send(json.dumps({"type": "open", "utterance": 1, "source": "stream"}))
        for message in ({"type": "text", "text": text}, {"type": "end"}):
            ws.send(json.dumps(message | {"utterance": 1}))
        return _play(ws, rate_hz)


def _play(ws: ClientConnection, rate_hz: int) -> dict[str, Any]:
    began_s, first_s, runs_out_s, samples = time.perf_counter(), 0.0, 0.0, 0
    reported_s = began_s
    pauses_s: list[float] = []
    trace_url = ""
    while (now_s := time.perf_counter()) < began_s + _PATIENCE_S:
        message = None
        with suppress(TimeoutError):
            message = ws.recv(0.1)
        now_s = time.perf_counter()
        if isinstance(message, bytes):
            first_s = first_s or now_s
            if runs_out_s and now_s > runs_out_s:
                pauses_s.append(now_s - runs_out_s)
            count = len(unpack_packet(message).pcm)
            runs_out_s, samples = max(runs_out_s, now_s) + count / rate_hz, samples + count
        elif message is not None and (event := json.loads(message))["type"] in ("trace", "failed", "error"):
            trace_url = event.get("trace_url", "")
            break
        if first_s and now_s - reported_s >= _REPORT_S:
            reported_s = now_s
            played = samples - max(0, round((runs_out_s - now_s) * rate_hz))
            ws.send(json.dumps({"type": "played", "utterance": 1, "sample": played}))
    if not trace_url:  # it failed, or is still silent
        pauses_s.append(max(0.0, now_s - (runs_out_s or began_s)))
    return {
        "trace_url": trace_url,
        "audio_s": samples / rate_hz,
        "first_ms": 1000.0 * ((first_s or now_s) - began_s),
        "silence_ms": 1000.0 * sum(pauses_s),
        "longest_ms": 1000.0 * max(pauses_s, default=0.0),
    }
