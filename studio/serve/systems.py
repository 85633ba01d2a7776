"""The owner's routes of other people's systems, below ``/systems``."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.core.systems import SupportsSystems
from studio.serve.auth import TokenAuth
from studio.serve.responses import StrictModel, private_json, read_body, takes

_Name = Annotated[str, Field(max_length=40)]
_Short = Annotated[str, Field(max_length=200)]


class SystemCreate(StrictModel):
    """The owner adds a system with an address; empty fields have their defaults."""

    name: _Name
    kind: _Name
    url: Annotated[str, Field(max_length=2000)]
    model: _Short = ""
    voice: _Short = ""
    key_env: _Short = ""
    dialect: _Short = ""
    licence: _Short = ""


class SystemName(StrictModel):
    """The owner tests or removes a system."""

    name: _Name


def add_systems(app: FastAPI, auth: TokenAuth, engine: SupportsSystems) -> None:
    """Add the routes."""
    routes = APIRouter(prefix="/systems", dependencies=[Depends(auth.owner)])

    @routes.get("")
    async def listed() -> Response:
        return private_json(await run_in_threadpool(_all, engine))

    @routes.post("", openapi_extra=takes(SystemCreate))
    async def add(request: Request) -> Response:
        body = await read_body(request, SystemCreate)
        values = {name: value for name, value in body.model_dump(exclude={"name"}).items() if value}
        await run_in_threadpool(engine.add_system, body.name, values)
        return private_json(await run_in_threadpool(_all, engine))

    @routes.post("/test", openapi_extra=takes(SystemName))
    async def test(request: Request) -> Response:
        body = await read_body(request, SystemName)
        return private_json(asdict(await run_in_threadpool(engine.test_system, body.name)))

    @routes.post("/remove", openapi_extra=takes(SystemName))
    async def remove(request: Request) -> Response:
        body = await read_body(request, SystemName)
        await run_in_threadpool(engine.remove_system, body.name)
        return private_json(await run_in_threadpool(_all, engine))

    app.include_router(routes)


def _all(engine: SupportsSystems) -> dict[str, Any]:
    return {"systems": [asdict(one) for one in engine.systems()], "kinds": [*engine.system_kinds()]}
