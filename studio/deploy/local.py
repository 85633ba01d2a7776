"""Several replicas on one machine: ``studio app --replicas N``."""

import logging
import math
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from studio.core.errors import BadOption, needs

if TYPE_CHECKING:
    from studio.deploy.hosting import Hosting

OBJECT_STORE_BYTES = 100 * 2**20  # nothing large passes through Ray
_LOOPBACK = ("127.0.0.1",)
_CPUS_BESIDE_GPU = 0.1


def check_ray() -> None:
    """Raises NeedsPackage: the extra ``scale`` is not installed."""
    with needs("replicas need Ray Serve", "scale"):
        from importlib.util import find_spec

        if find_spec("ray") is None:
            raise ImportError("ray")


@contextmanager
def local_ray() -> Generator[None]:
    """Ray on this machine only, until this process ends.

    Ray runs code from anyone who can reach it, so it listens on loopback and requires a token known only to its
    processes.
    """
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # selects loopback, on Linux as well
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    import ray
    from ray import serve

    logging.getLogger("ray").setLevel(logging.WARNING)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    folder = tempfile.mkdtemp(prefix="ray-")  # a short path, for the Unix sockets in it
    try:
        ray.init(
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=folder,
            configure_logging=False,
        )
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def deploy(hosting: "Hosting", count: int, key: str, drain_s: float) -> None:
    """Start replicas in ``local_ray``, or replace the running ones one by one. Returns when they are ready.

    Raises BadOption: there are GPUs, but fewer than replicas.
    """
    import ray
    from ray import serve

    from studio.deploy.cluster import APP, replicas_of

    resources = ray.cluster_resources()
    gpus = 0 if hosting.device == "cpu" else int(resources.get("GPU", 0))
    if gpus and count > gpus:
        raise BadOption(f"{count} replicas need a GPU each", f"there are {gpus}; or give --device cpu")
    # Shares for one more replica, so that a replacement fits. Ray counts CPUs in hundredths.
    share = math.floor(100.0 * resources.get("CPU", 1.0) / (count + 1)) / 100.0
    cpus = _CPUS_BESIDE_GPU if gpus else min(float(hosting.threads), share)
    options = {
        "num_replicas": count,
        "ray_actor_options": {"num_cpus": cpus, "num_gpus": 1 if gpus else 0},
    }
    serve.run(replicas_of(hosting, key, _LOOPBACK, drain_s, options), name=APP, route_prefix=None)


def run_replicas(hosting: "Hosting", count: int, bound: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until interrupted, with a front in this process."""
    from studio.deploy.front import Front
    from studio.serve.server import run

    key = secrets.token_urlsafe(32)
    with local_ray():
        from studio.deploy.cluster import find_members  # imports Ray, which reads its environment

        deploy(hosting, count, key, hosting.settings.replica_drain_ms / 1000.0)
        run(Front(hosting.settings, find_members(key)), hosting.settings, bound, on_ready, loop="auto")
