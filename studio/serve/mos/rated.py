"""The sounds of a listening test for the Inspect page, with their ratings: for the owner alone."""

from collections.abc import Callable
from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from studio.core.traces.trace import Trace, open_trace
from studio.inspection.opening import recording
from studio.mos.analysis.rated_sound import find_sound, rated_sound
from studio.mos.service import Listening
from studio.serve.mos.door import Door
from studio.serve.refusals import private_json
from studio.serve.traces.inspection import Attention, Views

_Name = Annotated[str, Query(max_length=400)]


def add_rated(app: FastAPI, listening: Listening, door: Door, views: Views, attention: Attention) -> None:
    """Add the routes below ``/mos/owner/campaigns/{name}/sound``; a script and a system name the sound.

    They are looked at after the token, so that who has none learns nothing.
    """
    below = "/mos/owner/campaigns/{name}/sound"

    def opened(name: str, script: str, system: str) -> Callable[[], Trace]:
        """Opens the sound's trace, else the clip that raters heard with its text."""

        def work() -> Trace:
            with listening.store.read() as session:
                found = find_sound(session, name, script, system)
            if found.trace is not None and (path := listening.clips.trace_path(found.trace)).is_file():
                return open_trace(path)
            return recording(*listening.clips.read(found.clip_sha), found.text)

        return work

    @app.get(below + "/view")
    async def view(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        await door.owner(request)
        return await run_in_threadpool(views.packed, opened(name, script, system))

    @app.get(below + "/prosody")
    async def prosody(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        await door.owner(request)

        def sound() -> tuple[np.ndarray, int]:
            trace = opened(name, script, system)()
            return trace.pcm, trace.rate_hz

        return await run_in_threadpool(views.prosody, sound)

    @app.get(below + "/attention")
    async def attend(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        await door.owner(request)
        return await attention.answer(request, opened(name, script, system))

    @app.get(below + "/ratings")
    async def ratings(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        await door.owner(request)

        def work() -> dict[str, object]:
            with listening.store.read() as session:
                return rated_sound(session, name, script, system)

        return private_json(await run_in_threadpool(work))
