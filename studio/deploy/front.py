"""The front: one address for several replicas. It neither synthesises nor stores anything.

A socket stays with a replica (``relay``, ``forwarding.tunnel``). Speech requests go to a replica with a free slot,
those for rating pages and traces to any, and other requests of a browser always to the same one, which has its state.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

import studio
from studio.core.packets import PROTOCOL
from studio.deploy.forwarding import BAD_TARGET, forward, path_of, refuse, tunnel
from studio.deploy.load import LOAD_PATH, Load
from studio.deploy.members import KEY_HEADER, Member, Members
from studio.deploy.relay import SpeakRelay
from studio.serve.middleware.addresses import network_of
from studio.serve.middleware.auth import ADAPTER_PATHS, PATHS_WITHOUT_KEY, HostOriginMiddleware, KeyMiddleware
from studio.serve.server import DRAIN, Drain
from studio.serve.settings import ServeSettings

_SPEAK = "/ws/speak"
_START_S = 5.0  # longest wait for the first replica's answer before clients are accepted
_KEEP_S = 2.0  # lifetime of an unused connection: less than the 5 s after which a replica closes it
_NO_LOAD = Load(pid=0, places=0, free=0, waiting=0, step_share=0.0, is_draining=False)
_METRICS_S = 2.0
_log = logging.getLogger("studio.deploy")


class _Refusing:
    """Stands in for the engine: ``Drain`` tells it to refuse utterances."""

    def __init__(self) -> None:
        self.is_closing = False

    def drain(self) -> None:
        """Accept no more sockets."""
        self.is_closing = True


class Front:
    """ASGI app. Key, Host and Origin are checked here; the replicas require a key that only fronts have.

    Attributes:
        state: for ``studio.serve.server``.
    """

    def __init__(self, settings: ServeSettings, members: Members) -> None:
        self._members = members
        self._relays = set[SpeakRelay]()
        self._closing = _Refusing()
        drain = Drain(self._closing, settings.drain_ms / 1000.0)
        drain.watch(self._relays)
        self.state = SimpleNamespace(**{DRAIN: drain})
        app: Any = self._route
        if settings.key:
            app = KeyMiddleware(app, settings.key, settings.port, shared_cookie(members.key, settings.key))
        self._guarded = HostOriginMiddleware(app, settings)
        self._began_s = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._guarded(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_S)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout, auto_decompress=False
        ) as self._session:
            watching = asyncio.create_task(self._members.watch())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._members.until_one_answers(), _START_S)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            watching.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path_of(scope).startswith("/"):
            await self._refuse_target(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._serve_socket(WebSocket(scope, receive, send), path)
        elif path == "/health":
            await self._health()(scope, receive, send)
        elif path == "/metrics":
            await (await self._metrics())(scope, receive, send)
        else:
            await forward(scope, receive, send, self._order(scope, path), self._session, self._members.key)

    @staticmethod
    async def _refuse_target(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(BAD_TARGET)
        else:
            await BAD_TARGET(scope, receive, send)

    async def _serve_socket(self, websocket: WebSocket, path: str) -> None:
        if self._closing.is_closing:  # not for the limit of sockets: a full replica may close an idle one for a new one
            await refuse(websocket, 503)
        elif path == LOAD_PATH:
            await refuse(websocket, 404)  # only for fronts
        elif path != _SPEAK:
            await tunnel(websocket, (one for one, _ in self._roomy()), self._members.key)
        else:
            relay = SpeakRelay(websocket, self._members)
            self._relays.add(relay)
            try:
                await relay.run()
            finally:
                self._relays.discard(relay)

    def _order(self, scope: Scope, path: str) -> Iterable[tuple[Member, bool]]:
        """The replicas to ask in order, each with whether an utterance may wait there."""
        if path.startswith(ADAPTER_PATHS) and not path.startswith("/gradio_api/"):
            return self._roomy()
        if PATHS_WITHOUT_KEY.fullmatch(path) or path.startswith("/traces/"):
            found = self._members.shuffled()
        else:
            found = self._members.by_address(network_of(scope["client"][0] if scope["client"] else ""))
        return ((one, True) for one in found)

    def _roomy(self) -> Iterator[tuple[Member, bool]]:
        """Replicas with a free slot, where no utterance may wait; then the one with the shortest queue."""
        for one in self._members.with_room():
            yield one, False
        last = self._members.shortest_queue()
        if last is not None:
            yield last, True

    def _health(self) -> Response:
        replicas = [_state(one) for one in sorted(self._members.by_name.values(), key=lambda one: one.name)]
        is_there = any(one["status"] == "ok" for one in replicas)
        facts = {
            "status": "ok" if is_there else "no_replica",
            "version": studio.__version__,
            "protocol": PROTOCOL,
            "places_free": sum(max(0, one.free) for one in self._members.by_name.values()),
            "replicas": replicas,
            "uptime_s": round(time.monotonic() - self._began_s, 1),
        }
        return JSONResponse(facts, 200 if is_there else 503)

    async def _metrics(self) -> Response:
        members = [*self._members.by_name.values()]
        texts = await asyncio.gather(*(self._metrics_of(one) for one in members))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_MetricsOfReplicas({one.name: text for one, text in zip(members, texts, strict=True)}))
        ProcessCollector(namespace="studio_front", registry=registry)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def _metrics_of(self, member: Member) -> str:
        timeout = aiohttp.ClientTimeout(total=_METRICS_S)
        try:
            async with self._session.get(
                f"{member.url}/metrics", headers={KEY_HEADER: self._members.key}, timeout=timeout
            ) as response:
                return (await response.read()).decode() if response.status == 200 else ""
        except (aiohttp.ClientError, OSError, TimeoutError):
            return ""


class _MetricsOfReplicas(Collector):
    """The metrics of all replicas, labelled with the replicas' names."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        """Every metric once, with the samples of all replicas."""
        found = dict[str, Metric]()
        for name, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                one = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                one.samples += [sample._replace(labels={**sample.labels, "replica": name}) for sample in family.samples]
        yield from found.values()


def _state(member: Member) -> dict[str, Any]:
    load = member.load
    if load is None:
        load, status = _NO_LOAD, "unreachable"
    else:
        status = "draining" if load.is_draining else "ok"
    shown = {"places": load.places, "waiting": load.waiting, "step_share": round(load.step_share, 3)}
    free = load.free if member.fresh_load() is not None else 0
    return {"name": member.name, "status": status, "places_free": free} | shown


def shared_cookie(replica_key: str, key: str) -> str:
    """The value of the cookie for ``key``, equal at all fronts with both keys; a new key invalidates it."""
    return hmac.new(replica_key.encode(), b"cookie of the fronts\0" + key.encode(), hashlib.sha256).hexdigest()
