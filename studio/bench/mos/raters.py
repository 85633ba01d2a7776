"""Simulated raters over plain HTTP, as a separate process: ``python -m studio.bench.mos.raters PLAN.json``.

Each makes the requests of a browser: join, consent, instructions, level, then next, clip by ranges, think, answer.
Failed requests are repeated unchanged; acknowledged answers are logged at once, one line each. Only the standard
library is used, so that the server dominates the measurement.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

FIRST_BYTES = 65_536  # first range of a clip; the rest is a second one
RETRY_S = 0.05
LOST = 502  # a front's answer if the replica has ended during the request; the page repeats the request as well
PATIENCE_S = 120.0


@dataclass(frozen=True)
class RaterRunPlan:
    """Parameters of a run."""

    host: str
    port: int
    campaign: str
    key: str
    log: str
    raters: int
    think_s: tuple[float, float]  # range of the time between hearing a clip and answering
    spread_s: float = 1.0  # time within which all raters start
    seed: int = 0
    endless: bool = False  # replace finished raters by new ones until the process ends

    def write(self, path: Path) -> Path:
        """Write the plan for the process."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


class RaterConnection:
    """Keep-alive connection of one rater, reopened when the server closes it."""

    def __init__(self, plan: RaterRunPlan, log: int) -> None:
        self._plan, self._log = plan, log
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.token = ""

    async def json(self, what: str, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any], float]:
        """Status, JSON and duration in milliseconds of a call."""
        data = b"" if body is None else json.dumps(body).encode()
        status, _, response, took_ms = await self.call(what, method, path, data)
        return status, json.loads(response), took_ms

    async def call(
        self, what: str, method: str, path: str, body: bytes = b"", extra: str = ""
    ) -> tuple[int, dict[str, str], bytes, float]:
        """Status, headers, body and duration in milliseconds of a call; retried while the server is down or busy."""
        head = f"{method} /mos/{path} HTTP/1.1\r\nHost: {self._plan.host}:{self._plan.port}\r\n{extra}"
        if self.token:
            head += f"Authorization: Bearer {self.token}\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        began_s = time.perf_counter()
        while True:
            try:
                status, headers, response = await self._exchange(request)
            except (OSError, asyncio.IncompleteReadError):
                self._streams = None
                self.log({"what": "retry", "call": what})
                if time.perf_counter() - began_s > PATIENCE_S:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            took_ms = (time.perf_counter() - began_s) * 1000.0
            if status == LOST:
                self.log({"what": "retry", "call": what})
                await asyncio.sleep(RETRY_S)
                continue
            if status not in (429, 503):
                return status, headers, response, took_ms
            self.log({"what": "must wait", "call": what, "status": status})
            await asyncio.sleep(float(headers.get("retry-after", "1")))

    async def _exchange(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection(self._plan.host, self._plan.port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            writer.close()
            self._streams = None
        return int(head[0].split()[1]), headers, body

    def log(self, line: dict[str, Any]) -> None:
        """Write a line unbuffered."""
        os.write(self._log, json.dumps({"at": time.time(), **line}).encode() + b"\n")


class SimulatedRater:
    """One rater from joining to the last page."""

    def __init__(self, plan: RaterRunPlan, number: int, log: int) -> None:
        self._plan, self._number = plan, number
        self._rng = Random(f"{plan.seed}|{number}")
        self._wire = RaterConnection(plan, log)
        self._acknowledged: set[str] = set()
        self._sent = 0

    async def take_test(self) -> None:
        """Complete the whole test."""
        panel = {"PROLIFIC_PID": f"bench-{self._plan.seed}-{self._number}", "STUDY_ID": "bench"}
        link = {"campaign": self._plan.campaign, "key": self._plan.key, "panel": panel, "device": {"bench": True}}
        joined = await self._timed("join", "POST", "join", link)
        self._wire.token = joined["token"]
        screen = joined.get("shown") or await self._next()
        while True:
            match screen.get("stage"):
                case "trials":
                    await self._trial(screen["trial"])
                    screen = await self._next()
                case "consent":
                    screen = await self._pass("consent", {"agreed": True, "version": screen["version"]})
                case "instructions" | "level" as stage:
                    screen = await self._pass(stage, {})
                case "comments":
                    screen = await self._pass("comments", {"comment": "none"})
                case "done":
                    return
                case _:
                    self._problem(f"rater {self._number} was shown {screen}")
                    return

    async def _next(self) -> Any:
        return await self._timed("next", "GET", "next")

    async def _pass(self, stage: str, data: dict[str, Any]) -> Any:
        """Complete a stage; returns the next one, from the response or, after a repeated request, by asking for it."""
        response = await self._timed("stage", "POST", "stage", {"stage": stage, "data": data}, sent_twice=409)
        self._wire.token = response.get("token", self._wire.token)  # consent replaces the token
        return response if "stage" in response else await self._next()

    async def _trial(self, trial: dict[str, Any]) -> None:
        name = trial["trial"]
        if name in self._acknowledged:
            self._problem(f"trial {name} was presented again after its answer was acknowledged")
        plays = [
            {"slot": slot["slot"], "plays": 1, "heard_ms": await self._hear(slot["url"])} for slot in trial["slots"]
        ]
        think_s = self._rng.uniform(*self._plan.think_s)
        await asyncio.sleep(think_s)
        self._sent += 1
        comment = f"{self._number}-{self._sent}"
        scores = {question: self._rng.randint(1, 5) for question in ("naturalness", "coherence")}
        answer = {
            "trial": name,
            "scores": [{"question": q, "slot": 0, "value": v} for q, v in scores.items()],
            "plays": plays,
            "response_ms": think_s * 1000.0,
            "comment": comment,
        }
        status, response, took_ms = await self._wire.json("answer", "POST", "answer", answer)
        if status == 200:
            self._acknowledged.add(name)
            self._wire.log({"what": "answer", "ms": took_ms, "trial": name, "comment": comment, "scores": scores})
        else:
            self._problem(f"an answer to trial {name} was refused with {status}: {response}")

    async def _hear(self, url: str) -> float:
        """Fetch a clip by ranges; returns its duration in ms."""
        first = await self._range(url, f"0-{FIRST_BYTES - 1}")
        size = int(first[0].rpartition("/")[2])
        data = first[1] + ((await self._range(url, f"{FIRST_BYTES}-"))[1] if size > FIRST_BYTES else b"")
        if len(data) != size or not data.startswith(b"RIFF"):
            self._problem(f"a clip came with {len(data)} bytes of {size}")
            return 0.0
        return 1000.0 * (size - 44) / 2 / int.from_bytes(data[24:28], "little")

    async def _range(self, url: str, wanted: str) -> tuple[str, bytes]:
        extra = f"Range: bytes={wanted}\r\n"
        status, headers, data, took_ms = await self._wire.call("clip", "GET", url, extra=extra)
        if status != 206:
            self._problem(f"a clip was refused with {status}: {data[:200]!r}")
            return "/0", b""
        self._wire.log({"what": "clip", "ms": took_ms})
        return headers["content-range"], data

    async def _timed(self, what: str, method: str, path: str, body: Any = None, sent_twice: int = 200) -> Any:
        status, response, took_ms = await self._wire.json(what, method, path, body)
        if status not in (200, sent_twice):
            self._problem(f"{what} was refused with {status}: {response}")
        self._wire.log({"what": what, "ms": took_ms})
        return response

    def _problem(self, message: str) -> None:
        self._wire.log({"what": "problem", "message": message})


async def run(plan: RaterRunPlan) -> None:
    """Run all raters."""
    log = os.open(plan.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    rng = Random(plan.seed)

    async def run_rater(number: int, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await SimulatedRater(plan, number, log).take_test()
        while plan.endless:
            number += plan.raters
            await SimulatedRater(plan, number, log).take_test()

    await asyncio.gather(*(run_rater(number, rng.uniform(0.0, plan.spread_s)) for number in range(plan.raters)))


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    asyncio.run(run(RaterRunPlan(**{**plan, "think_s": tuple(plan["think_s"])})))
