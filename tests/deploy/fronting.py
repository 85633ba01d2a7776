"""A front before served fake engines, in one process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fakes import FakeEngine
from serve.serving import Served, Talk, eventually
from tones import Script

from studio.deploy.front import Front
from studio.deploy.members import Members
from studio.deploy.replica import add_load
from studio.serve.app import create_app
from studio.serve.server import DRAIN, bind_port, build_server
from studio.serve.settings import ServeSettings

KEY = "the key of the replicas"


class FakeReplica(Served):
    """A served fake engine that reports its load."""

    def __init__(self, folder: Path, places: int = 2, script: Script | None = None, **settings: Any) -> None:
        self._places = places
        super().__init__(folder, script, key=KEY, proxies=("127.0.0.1",), **settings)

    def make_app(self) -> Any:
        self.engine.places = self._places
        app = create_app(self.engine, self.settings)
        add_load(app, self.engine)
        return app

    @property
    def drain(self) -> Any:
        """What finishes its speech."""
        return getattr(self.app.state, DRAIN)

    def die(self) -> None:
        """End without a goodbye, as a killed process."""
        self._server.should_exit = True
        self._server.force_exit = True
        for one in self._server.servers:
            one.get_loop().call_soon_threadsafe(one.close)
        for one in self.connections:
            one.get_extra_info("socket")
            self._loop_of(one).call_soon_threadsafe(one.abort)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Answer nothing, with every connection open, as a process that hangs."""
        thaw = threading.Event()
        self._loop_of(self.connections[0]).call_soon_threadsafe(thaw.wait)
        try:
            yield
        finally:
            thaw.set()

    @staticmethod
    def _loop_of(transport: Any) -> Any:
        return transport._loop


class Fronted:
    """A front and its replicas by name."""

    def __init__(self, replicas: dict[str, FakeReplica], **settings: Any) -> None:
        self.replicas = replicas
        bound = bind_port(ServeSettings(port=0))
        self.port = bound.getsockname()[1]
        chosen = ServeSettings(port=self.port, drain_ms=0, **settings)
        self.members = Members(self._find, KEY)
        self._server = build_server(Front(chosen, self.members), chosen, loop="auto", is_front=True)
        self._thread = threading.Thread(target=self._server.run, args=([bound],), daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the front")
        self.until_known()

    async def _find(self) -> dict[str, str]:
        return {name: one.url for name, one in self.replicas.items()}

    def until_known(self) -> None:
        """Wait until every replica reports a load."""
        eventually(
            lambda: (
                self.members.by_name.keys() == self.replicas.keys()
                and all(one.load is not None for one in self.members.by_name.values())
            ),
            "the load of every replica",
        )

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> list[Any]:
        """Open connections of clients."""
        return [one.transport for one in self._server.server_state.connections if one.transport is not None]

    def talk(self, **kwargs: Any) -> Talk:
        """A new socket."""
        return Talk(f"ws://127.0.0.1:{self.port}/ws/speak", **{"max_size": None, "proxy": None, **kwargs})

    def speaking(self) -> dict[str, int]:
        """Utterances that hold a slot, by replica."""
        return {name: len(one.engine.speaking) for name, one in self.replicas.items()}

    @property
    def is_pacing(self) -> bool:
        """Whether requests rest beside speech."""
        return self._server.limits.is_speaking()

    def stop(self) -> None:
        """Stop the front."""
        self._server.should_exit = True
        self._thread.join(10.0)
        assert not self._thread.is_alive()


Fronting = Callable[..., Fronted]


@contextmanager
def fronting(folder: Path) -> Iterator[Fronting]:
    """A function that starts a front before as many replicas as are wanted."""
    with ExitStack() as closing:

        def start(
            count: int = 2, places: int = 2, script: Script | None = None, max_sockets: int = 64, **settings: Any
        ) -> Fronted:
            made = (FakeReplica(folder, places, script, max_sockets=max_sockets) for _ in range(count))
            replicas = {f"r{n}": one for n, one in enumerate(made)}
            for one in replicas.values():
                closing.callback(one.stop)
            fronted = Fronted(replicas, max_sockets=max_sockets, **settings)
            closing.callback(fronted.stop)
            return fronted

        yield start


__all__ = ["FakeEngine", "FakeReplica", "Fronted", "Fronting", "fronting"]
