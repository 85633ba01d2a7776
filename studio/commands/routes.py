"""Every route of the app, ours and Gradio's, for the fuzz benchmark."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from studio.bench.robustness.target import Routes
from studio.core.cards import Card
from studio.core.errors import Busy
from studio.core.load import EngineLoad
from studio.core.ports import SpeakRequest, Utterance
from studio.mos.service import open_listening_tests
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings
from studio.ui.app import mount


class _NoEngine:
    """An engine without voices, for an app that is not served."""

    def cards(self) -> Sequence[Card]:
        return []

    def open(self, request: SpeakRequest) -> Utterance:
        raise Busy("there is no voice", "start the app")

    def is_loaded(self, voice: str) -> bool:
        return False

    def free_slots(self) -> int:
        return 0

    def drain(self) -> None:
        pass

    def load(self) -> EngineLoad:
        return EngineLoad(slots=0, speaking=0)

    def close(self) -> None:
        pass


def all_routes() -> Routes:
    """The schema of our routes, and method and path of all others."""
    with tempfile.TemporaryDirectory() as folder:
        engine, settings = _NoEngine(), ServeSettings(traces_folder=Path(folder) / "traces")
        listening = open_listening_tests("", Path(folder))
        try:
            app = mount(create_app(engine, settings, listening=listening), engine, settings, listening)
            inner: Any = app.routes[-1]
            while hasattr(inner, "_app") or hasattr(inner, "app"):
                inner = getattr(inner, "_app", None) or inner.app
                if hasattr(inner, "routes"):
                    break
            return Routes(app.openapi(), sorted(set(_listed(inner))))
        finally:
            listening.close()


def _listed(app: Any) -> Iterator[tuple[str, str]]:
    for route in app.routes:
        if hasattr(route, "original_router"):
            yield from _listed(route.original_router)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", None) or ())
