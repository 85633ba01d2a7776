"""The deployments of Ray Serve: replicas, and a cluster's fronts. Serve places and restarts them.

Sockets and requests do not pass through Ray: a front sends them to the address of a replica (ADR 0049).
"""

import asyncio
import contextlib
import hashlib
import threading
import time
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError

from studio.deploy.front import Front
from studio.deploy.hosting import Hosting
from studio.deploy.members import Members
from studio.deploy.replica import ReplicaServer
from studio.serve.server import bind_port, build_server, prepare_process
from studio.serve.settings import ServeSettings

NAMESPACE, APP = "studio", "studio"
_ANNOUNCE_S, _FORGET_S = 0.5, 5.0
_ANSWER_S = 30.0  # for an answer of the directory, whose process may still be starting
_KNOWN_S = 15.0  # for a front to notice a new replica


@ray.remote(num_cpus=0, max_restarts=-1)
class Directory:
    """Addresses of the replicas by name, without those that have not announced themselves for ``_FORGET_S``."""

    def __init__(self) -> None:
        self._seen = dict[str, tuple[str, float]]()
        self._asked_s = -_FORGET_S

    def announce(self, name: str, url: str) -> bool:
        """Register a replica at ``url``; returns whether a front asks for replicas."""
        self._seen[name] = url, time.monotonic()
        return time.monotonic() - self._asked_s < _FORGET_S

    def replicas(self) -> dict[str, str]:
        """The running replicas."""
        self._asked_s = time.monotonic()
        oldest_s = self._asked_s - _FORGET_S
        self._seen = {name: one for name, one in self._seen.items() if one[1] >= oldest_s}
        return {name: url for name, (url, _) in self._seen.items()}


def directory(key: str) -> Any:
    """The directory of the replicas with this key."""
    return Directory.options(  # pyright: ignore[reportAttributeAccessIssue]
        name=f"directory-{hashlib.sha256(key.encode()).hexdigest()[:16]}",
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
    ).remote()


def find_members(key: str) -> Members:
    """The replicas of this cluster, for a front."""
    here = directory(key)

    async def find() -> dict[str, str]:
        return await here.replicas.remote()

    return Members(find, key)


@serve.deployment(name="replica", health_check_period_s=1.0, health_check_timeout_s=10.0)
class Replica:
    """An engine process. ``proxies`` are the addresses of the fronts; see ``ReplicaServer``."""

    def __init__(self, hosting: Hosting, key: str, proxies: tuple[str, ...], drain_s: float) -> None:
        host = ray.util.get_node_ip_address()
        self._server = ReplicaServer(hosting, key, host, (*proxies, host), drain_s)
        self._name = serve.get_replica_context().replica_id.unique_id
        self._key, self._ended = key, threading.Event()
        if self._announce():  # Serve drains another replica as soon as this one is ready
            self._server.until_asked(_KNOWN_S)
        threading.Thread(target=self._keep_announcing, name="announce", daemon=True).start()

    def _announce(self) -> bool:
        with contextlib.suppress(RayError):  # the directory is restarting
            found = directory(self._key).announce.remote(self._name, self._server.url)
            return ray.get(found, timeout=_ANSWER_S)
        return False

    def _keep_announcing(self) -> None:
        while not self._ended.wait(_ANNOUNCE_S):
            self._announce()

    def check_health(self) -> None:
        """Called by Serve, which replaces a replica that raises."""
        self._server.check()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The input of ``studio.deploy.scaling.free_slots_policy``."""
        load = self._server.load()
        return {"busy": (load.places - load.free + load.waiting) / load.places}

    async def __del__(self) -> None:
        """Finish the utterances; called by Serve before it ends the process."""
        await asyncio.to_thread(self._server.stop)
        self._ended.set()


@serve.deployment(name="front", max_replicas_per_node=1, ray_actor_options={"num_cpus": 0.1})
class FrontServer:
    """A front at the settings' address, on a node of a cluster. ``replicas`` adds them to its application."""

    def __init__(self, settings: ServeSettings, key: str, replicas: Any) -> None:
        del replicas  # a handle: the front finds the replicas through the directory
        self._server = build_server(Front(settings, find_members(key)), settings, loop="auto", is_front=True)
        prepare_process()
        self._thread = threading.Thread(
            target=self._server.run, args=([bind_port(settings)],), name="front", daemon=True
        )
        self._thread.start()

    def check_health(self) -> None:
        """Called by Serve, which replaces a front that raises."""
        if not self._thread.is_alive():
            raise RuntimeError("the front's server has ended")

    async def __del__(self) -> None:
        self._server.should_exit = True
        await asyncio.to_thread(self._thread.join)


def replicas_of(hosting: Hosting, key: str, proxies: tuple[str, ...], drain_s: float, options: dict[str, Any]) -> Any:
    """The deployment of replicas, as an application; ``options`` are Serve's."""
    more = {"graceful_shutdown_timeout_s": drain_s + 15.0, "graceful_shutdown_wait_loop_s": 0.1}
    return Replica.options(**more, **options).bind(hosting, key, proxies, drain_s)
