"""One engine process behind the fronts: its app on its own port, its load reports, and draining."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from studio.core.errors import StudioError
from studio.core.ports import Engine, EngineLoad
from studio.deploy.hosting import Hosting, opened_app
from studio.deploy.load import LOAD_PATH, Load
from studio.mos.store.access import RateLimit
from studio.serve.app import SupportsStuck
from studio.serve.server import DRAIN, Drain, bind_port, build_server, prepare_process

SOCKETS_PER_S = 1000
START_S = 300.0  # to start the engine and the server; a busy machine takes minutes to load torch
_QUIET_S = 1.0  # without an utterance after every front knows of the drain: then none is on its way
_POLL_S = 0.02
_WINDOW_S = 0.5  # in which the time of a step is measured
_STOP_S = 6.0  # longest time for the server to stop


class LoadReporter:
    """The load of an engine, with the time of its steps in the last ``_WINDOW_S``.

    Attributes:
        fronts: the fronts' sockets, each with whether it has been told of the drain.
    """

    def __init__(self, engine: Any, drain: Drain) -> None:
        self._engine, self._drain = engine, drain
        self.fronts = dict[object, bool]()
        self._past: deque[tuple[float, EngineLoad]] = deque()
        self._frame_ms = {card.name: 1000.0 * card.frame_samples / card.sample_rate_hz for card in engine.cards()}

    def report(self) -> Load:
        """The current load."""
        now_s, load = time.monotonic(), self._engine.load()
        while len(self._past) > 1 and self._past[1][0] <= now_s - _WINDOW_S:
            self._past.popleft()
        self._past.append((now_s, load))
        free = self._engine.free_slots()
        is_stuck = isinstance(self._engine, SupportsStuck) and bool(self._engine.stuck())
        return Load(
            pid=os.getpid(),
            places=load.slots,
            free=0 if is_stuck else free,
            waiting=load.waiting,
            step_share=step_share(self._past[0][1], load, self._frame_ms),
            is_draining=self._drain.is_announced,
        )


def step_share(before: EngineLoad, after: EngineLoad, frame_ms: dict[str, float]) -> float:
    """Time of an engine step over the duration of its frame; the largest one among voices that ran in between."""
    was = {(one.voice, one.name): (sum(one.runs.values()), sum(one.ms.values())) for one in before.modules}
    runs, ms = dict[str, int](), dict[str, float]()
    for one in after.modules:
        old_runs, old_ms = was.get((one.voice, one.name), (0, 0.0))
        runs[one.voice] = max(runs.get(one.voice, 0), sum(one.runs.values()) - old_runs)
        ms[one.voice] = ms.get(one.voice, 0.0) + sum(one.ms.values()) - old_ms
    shares = [ms[name] / count / frame_ms[name] for name, count in runs.items() if count and name in frame_ms]
    return max(shares, default=0.0)


def add_load(app: FastAPI, engine: Engine) -> LoadReporter:
    """Add the socket that reports the load of ``engine``."""
    reporter = LoadReporter(engine, getattr(app.state, DRAIN))

    @app.websocket(LOAD_PATH)
    async def load(websocket: WebSocket) -> None:
        await websocket.accept()
        reporter.fronts[websocket] = False
        try:
            while True:
                await websocket.receive_text()
                report = reporter.report()
                await websocket.send_text(json.dumps(asdict(report)))
                reporter.fronts[websocket] = report.is_draining
        except WebSocketDisconnect:
            pass
        finally:
            del reporter.fronts[websocket]

    return reporter


class ReplicaServer:
    """The server of one replica, in a thread.

    Args:
        key: required by every route; only fronts have it.
        host: address to bind, at any free port.
        proxies: addresses of the fronts.
        drain_s: how long its utterances may go on once it drains.

    Raises:
        StudioError: the engine or the storage cannot be opened.
    """

    def __init__(self, hosting: Hosting, key: str, host: str, proxies: Sequence[str], drain_s: float) -> None:
        self._drain_s = drain_s
        self._bound = bind_port(replace(hosting.settings, host=host, port=0))
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._bound.getsockname()[1]}"
        self._hosting = replace(hosting, settings=replace(hosting.settings, key=key, proxies=tuple(proxies)))
        self._server: Any = None
        self._drain: Drain | None = None
        self._reporter: LoadReporter | None = None
        self._error: BaseException | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._thread.start()
        self._is_ready.wait(START_S)
        self.check()

    def _run(self) -> None:
        try:
            with opened_app(self._hosting, self._add_load) as (app, _):
                prepare_process()
                self._drain = getattr(app.state, DRAIN)
                self._server = build_server(app, self._hosting.settings)
                self._server.on_ready = self._is_ready.set
                self._server.limits.upgrades = RateLimit(SOCKETS_PER_S, SOCKETS_PER_S)  # the fronts limit clients
                self._server.run(sockets=[self._bound])
        except BaseException as error:  # noqa: BLE001 - raised by ``check``
            self._error = error
        finally:
            self._is_ready.set()

    def _add_load(self, app: FastAPI, engine: Engine) -> None:
        self._reporter = add_load(app, engine)

    def until_asked(self, timeout_s: float) -> None:
        """Return when a front has connected to ask for the load, or after the timeout."""
        until_s = time.monotonic() + timeout_s
        while self._reporter is not None and not self._reporter.fronts and time.monotonic() < until_s:
            time.sleep(_POLL_S)

    def load(self) -> Load:
        """The current load."""
        assert self._reporter is not None, "set before the server is ready"
        return self._reporter.report()

    def check(self) -> None:
        """Raises StudioError: the server is not running."""
        if self._error is not None:
            raise self._error
        if not self._thread.is_alive() or self._server is None:
            raise StudioError("the replica's server is not running", "its log has the cause")

    def drain(self) -> None:
        """Announce to the fronts that it drains; return when the running utterances have ended, or at the deadline."""
        if self._drain is None or self._reporter is None:
            return
        self._drain.is_announced = True
        until_s = quiet_s = time.monotonic()
        until_s += self._drain_s
        while (now_s := time.monotonic()) < until_s and now_s - quiet_s < _QUIET_S:
            if self._drain.is_speaking() or not all([*self._reporter.fronts.values()]):
                quiet_s = now_s
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Drain, then stop the server, which finishes committed words for a moment."""
        self.drain()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(_STOP_S)
