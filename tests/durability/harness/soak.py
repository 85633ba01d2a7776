"""Ordinary use for a long time: voices speak, a rater answers; the server's resources must not grow."""

import itertools
import json
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from durability.harness.pulse import pulse
from durability.harness.served import MonitoredServer, Resources, plainly, served
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from studio.bench.durability import SOAK_TARGET_MIB, SoakSetting
from studio.bench.mos.site import make_site, rater_process
from studio.core.clips import wav_bytes
from studio.core.files import MAX_TEXTS_BYTES, read_bounded
from studio.measure.latency import percentiles

ENOUGH = 500  # fewest utterances for a slope
_WARM_SHARE = 0.25  # share of samples during which caches fill
_PIECE_CHARS = 4  # characters per edit
_PATIENCE_S = 60.0
_PAGES = ("", "rate", "inspect", "compare", "library", "library/entries", "health")


@dataclass
class _Heard:
    """Totals of all listeners."""

    utterances: int = 0
    audio_s: float = 0.0
    stalls: int = 0
    problems: list[str] = field(default_factory=list[str])
    traces: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))  # tokens of the newest
    visits: Counter[str] = field(default_factory=Counter[str])  # by status
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class _Sample:
    at_s: float
    utterances: int
    held: Resources


def bench_soak(setting: SoakSetting) -> dict[str, Any]:
    """Utterances, answers, memory per 1,000 utterances and other resources; ``failures`` names what grew.

    Raises:
        PageFailed: the app did not start.
        NeedsPackage: the system does not report a process's resources.
    """
    lines = read_bounded(setting.texts, MAX_TEXTS_BYTES).decode("utf-8").splitlines()
    texts = [line.partition("|")[2] or line for line in lines if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        site = make_site(Path(folder) / "site", items=40, systems=4, clip_s=2.0, trials=20, quota=10_000)
        with served(site, Path(folder), setting.command) as server:
            heard, over = _Heard(), threading.Event()
            arguments = [(setting, texts, server, number, heard, over) for number in range(setting.live)]
            hands = [threading.Thread(target=_listener, args=one) for one in arguments]
            visits = [(server, site.owner, number, heard, over) for number in range(setting.visitors)]
            hands += [threading.Thread(target=visit, args=one) for one in visits]
            rater = rater_process(site, server.url, count=1, think_s=(0.5, 1.5), seed=setting.seed, endless=True)
            with pulse(server.url) as health_ms, rater as (_, log):
                for hand in hands:
                    hand.start()
                until_s = time.monotonic() + _PATIENCE_S  # the rater's process starts in seconds on a busy machine
                while not (heard.utterances and log.read().acknowledged) and time.monotonic() < until_s:
                    time.sleep(0.1)
                samples = _watch(setting, server, heard)
                over.set()
                for hand in hands:
                    hand.join(_PATIENCE_S)
            answers, trouble = len(log.read().acknowledged), server.trouble()
            heard.problems += log.problems
    out = _figures(setting, heard, samples, health_ms) | {"answers": answers, "log": trouble[:20]}
    out["failures"] = _failures(out, heard)
    return out


def _watch(setting: SoakSetting, server: MonitoredServer, heard: _Heard) -> list[_Sample]:
    """Sample the resources until the time is over."""
    began_s, samples = time.monotonic(), list[_Sample]()
    while (at_s := time.monotonic() - began_s) < 60.0 * setting.minutes:
        samples.append(_Sample(at_s, heard.utterances, server.resources()))
        time.sleep(setting.every_s)
    return samples


def _listener(
    setting: SoakSetting,
    texts: Sequence[str],
    server: MonitoredServer,
    number: int,
    heard: _Heard,
    over: threading.Event,
) -> None:
    """Type texts on one socket, and play everything at once."""
    address, turn = server.url.replace("http", "ws", 1) + "ws/speak", number
    while not over.is_set():
        try:
            with connect(address, proxy=None, max_size=None) as ws:
                while not over.is_set():
                    _speak(ws, turn, texts[turn % len(texts)], setting.wpm, heard)
                    turn += setting.live
        except (WebSocketException, OSError, EOFError) as error:
            with heard.lock:
                heard.problems.append(f"a socket ended: {error!r:.200}")
            over.wait(1.0)


def visit(server: MonitoredServer, owner: str, number: int, heard: _Heard, over: threading.Event) -> None:
    """Open pages, the newest traces and the library, upload sounds and keep utterances, one after the other."""
    rng = np.random.default_rng(number)
    headers = {"Authorization": f"Bearer {owner}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=_PATIENCE_S) as http:
        for turn in itertools.count():
            sound = wav_bytes(rng.integers(-3000, 3000, 48_000, np.int16), 24_000)
            calls: list[tuple[str, str, dict[str, Any]]] = [("GET", page, {}) for page in _PAGES]
            with heard.lock:
                tokens = list(heard.traces)
            if tokens:
                token = tokens[turn % len(tokens)]
                calls += [("GET", f"traces/{token}.{what}", {}) for what in ("view", "prosody", "wav", "trace")]
                calls += [("GET", f"compare/view?trace={token}&trace={tokens[-1]}", {})]
                calls += [("POST", "library/keep", {"json": {"trace": token}})]
            calls += [("POST", path, {"content": sound}) for path in ("inspect/open", "library/files")]
            for method, path, body in calls:
                if over.is_set():
                    return
                try:
                    answer = http.request(method, path, **body)
                except httpx.HTTPError as error:
                    with heard.lock:
                        heard.problems.append(f"{method} {path}: {error!r}"[:200])
                    continue
                with heard.lock:
                    heard.visits[str(answer.status_code)] += 1
                    if answer.status_code == 500:
                        heard.problems.append(f"{method} {path}: 500")


def _speak(ws: ClientConnection, number: int, text: str, wpm: float, heard: _Heard) -> None:
    say = {"utterance": number}
    ws.send(json.dumps({"type": "open", "source": "keyboard", "credit_ms": 1000, "seed": number} | say))
    wait_s, at, rate_hz = 60.0 / (wpm * 6.0) * _PIECE_CHARS, 0, 24_000
    due_s, until_s = time.monotonic(), time.monotonic() + _PATIENCE_S
    ended = False
    while time.monotonic() < until_s:
        if at < len(text) and time.monotonic() >= due_s:
            piece = text[at : at + _PIECE_CHARS]
            ws.send(json.dumps({"type": "edit", "at": at, "insert": piece} | say))
            at, due_s = at + len(piece), due_s + wait_s
        elif at >= len(text) and not ended:
            ws.send(json.dumps({"type": "end"} | say))
            ended = True
        try:
            said = ws.recv(timeout=wait_s if not ended else 1.0)
        except TimeoutError:
            continue
        if isinstance(said, bytes):
            sample = int.from_bytes(said[16:24], "little") + (len(said) - 24) // 2
            ws.send(json.dumps({"type": "played", "sample": sample} | say))
            continue
        event = json.loads(said)
        with heard.lock:
            if event["type"] == "wait" and event["reason"] in ("compute", "network"):
                heard.stalls += 1
            elif event["type"] == "ended":
                heard.audio_s += event["samples"] / rate_hz
            elif event["type"] in ("failed", "error"):
                heard.problems.append(f"utterance {number}: {event['code']}: {event['message']}"[:200])
            elif event["type"] == "trace":
                heard.utterances += 1
                if event["trace_url"]:
                    heard.traces.append(Path(event["trace_url"]).stem)
        if event["type"] in ("trace", "error"):
            return
    with heard.lock:
        heard.problems.append(f"utterance {number} did not end")


def _figures(
    setting: SoakSetting, heard: _Heard, samples: Sequence[_Sample], health_ms: Sequence[float]
) -> dict[str, Any]:
    warm = samples[round(_WARM_SHARE * len(samples)) :] or samples
    utterances = np.array([one.utterances for one in warm], float)
    memory = np.array([one.held.memory_mib for one in warm])
    grows = float(np.polyfit(utterances, memory, 1)[0]) if len(np.unique(utterances)) > 1 else 0.0
    third = max(1, len(warm) // 3)

    def held_most(part: Sequence[_Sample]) -> dict[str, int]:
        return {name: max(getattr(one.held, name) for one in part) for name in ("threads", "descriptors")}

    def said(one: _Sample) -> dict[str, Any]:
        return {"at_s": round(one.at_s), "utterances": one.utterances} | plainly(one.held)

    return {
        "minutes": setting.minutes,
        "live": setting.live,
        "utterances": heard.utterances,
        "audio_s": round(heard.audio_s, 1),
        "stalls": heard.stalls,
        "visits": dict(heard.visits),
        "problems": heard.problems[:20],
        "memory_mib_per_1000": 1000.0 * grows,
        "first": plainly(warm[0].held) | {"most": held_most(warm[:third])},
        "last": plainly(warm[-1].held) | {"most": held_most(warm[-third:])},
        "health_ms": percentiles(health_ms, (50, 99)),
        "samples": [said(one) for one in samples],
        "over_time": [said(one) for one in samples[:: max(1, len(samples) // 10)]] if setting.visitors else [],
    }


def _failures(out: Mapping[str, Any], heard: _Heard) -> list[str]:
    """Failures as sentences."""
    found = [*heard.problems[:20], *(f"in the log: {line}" for line in out["log"])]
    for name in ("threads", "descriptors"):
        first, last = out["first"]["most"][name], out["last"]["most"][name]
        if last > first + 2:
            found.append(f"{last} {name} towards the end, {first} at first")
    if out["utterances"] >= ENOUGH and out["memory_mib_per_1000"] > SOAK_TARGET_MIB:
        found.append(f"{out['memory_mib_per_1000']:.2f} MiB more for every 1,000 utterances")
    if not out["utterances"] or not out["answers"]:
        found.append("no utterance was spoken, or no rater answered")
    return found
