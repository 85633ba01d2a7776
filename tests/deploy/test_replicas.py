"""Replicas on Ray Serve: real processes on loopback, killed and replaced."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from serve.serving import Talk, eventually

from studio.bench.page.browser import free_port
from studio.bench.settings import ReplicasSetting
from studio.bench.speed.replicas import Site, running_site
from studio.core.errors import BadOption

pytestmark = [pytest.mark.slow, pytest.mark.timeout(800)]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def site(voices: Path) -> Iterator[Site]:
    """Two replicas with one slot each."""
    with running_site(ReplicasSetting(replicas=2, places=1, sockets=8, device="cpu", voices=voices)) as site:
        yield site


def talk(site: Site) -> Talk:
    """A socket through the front."""
    return Talk(site.url.replace("http", "ws", 1) + "/ws/speak", max_size=None, proxy=None, close_timeout=0.5)


class Listener:
    """Reads a socket until its utterance has ended; a client that reads nothing is disconnected."""

    def __init__(self, socket: Talk) -> None:
        self.last: dict = {}
        self.at_s = 0.0
        self._socket = socket
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.last.get("type") not in ("trace", "error"):
            heard = self._socket.hear(PATIENCE_S, check=False)
            if isinstance(heard, dict) and heard["type"] in ("ended", "failed"):
                self.end, self.at_s = heard, time.monotonic()
            self.last = heard if isinstance(heard, dict) else self.last

    def until_end(self) -> dict:
        """The last event."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.end


def test_a_killed_replica_fails_its_utterance_and_others_go_on(site: Site) -> None:
    with talk(site) as one, talk(site) as two:
        for each in (one, two):
            assert each.open(credit_ms=60_000)["type"] == "ready"  # at both replicas
            each.say("text", text="The kettle is on the stove and ")
            each.until("word_start")
        listeners = [Listener(each) for each in (one, two)]
        name, pid = sorted(site.pids().items())[0]
        os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        eventually(lambda: any(each.at_s for each in listeners), "the end of one of the two")
        lost, other = sorted(listeners, key=lambda each: not each.at_s)
        end = lost.until_end()
        assert (end["type"], end["code"]) == ("failed", "replica_lost")
        assert lost.at_s - killed_s < 2.0
        socket_of_other = (one, two)[listeners.index(other)]
        socket_of_other.say("text", text="it will boil soon.")
        socket_of_other.say("end")
        assert other.until_end()["type"] == "ended"
    with talk(site) as again:
        assert again.open()["type"] == "ready"
    eventually(lambda: len(site.pids()) == 2 and name not in site.pids(), "another replica", PATIENCE_S)


def test_a_rolling_drain_loses_no_utterance(site: Site) -> None:
    site.until_ready(2)
    before = site.pids()
    with talk(site) as one:
        one.open(credit_ms=60_000)
        one.say("text", text="This sentence began before the drain ")
        one.until("word_start")
        listener = Listener(one)
        moving = threading.Thread(target=site.redeploy, daemon=True)
        moving.start()
        eventually(lambda: site.pids().keys() - before.keys(), "a new replica", PATIENCE_S)
        one.say("text", text="and it ends when its writer wants it to.")
        one.say("end")
        assert listener.until_end()["type"] == "ended"
        moving.join(PATIENCE_S)
        assert not moving.is_alive()
        assert one.open(2)["type"] == "ready"  # on the same socket
    eventually(lambda: not site.pids().keys() & before.keys(), "the end of the old ones", PATIENCE_S)


def test_ray_listens_on_loopback_only(site: Site) -> None:
    import ray

    gcs = ray.get_runtime_context().gcs_address
    assert gcs.startswith("127.0.0.1:")
    assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.1"}
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", int(gcs.rpartition(":")[2])))  # another address of this machine


def test_serve_runs_fronts_and_replicas_of_a_config_file(
    site: Site, voices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import serve

    from studio.commands.cluster import Arguments, application

    with pytest.raises(BadOption, match="STUDIO_REPLICA_KEY"):
        application(Arguments(networks=("127.0.0.0/8",), data=tmp_path))
    port = free_port()
    monkeypatch.setenv("STUDIO_REPLICA_KEY", "the key between the two")
    monkeypatch.setenv("STUDIO_SERVE_PORT", str(port))
    monkeypatch.setenv("STUDIO_SERVE_TRACES_FOLDER", str(tmp_path / "traces"))
    config = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "serve.yaml").read_text(encoding="utf-8"))
    here = {"networks": ["127.0.0.0/8"], "data": tmp_path, "database": "", "device": "cpu"}
    given = config["applications"][0]["args"] | here
    options = {"ray_actor_options": {"num_cpus": 0.1}}
    app = application(Arguments(**given, voices=voices, replica_options=options))
    serve.run(app, name="cluster", route_prefix=None)
    with Talk(f"ws://127.0.0.1:{port}/ws/speak", max_size=None, proxy=None) as talk:
        assert talk.open()["type"] == "ready"
    serve.delete("cluster")
    with socket.socket() as probe:
        eventually(lambda: probe.connect_ex(("127.0.0.1", port)) != 0, "the end of the front", PATIENCE_S)
