"""The door of the listening tests: bodies are bounded and strict, callers are known, and nobody calls too often."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from studio.core.errors import BadMessage
from studio.mos.service import Listening
from studio.mos.store.access import Forbidden, Limit, Visitor
from studio.mos.store.json_columns import write_json
from studio.serve.door.addresses import address_of

CALLS_BURST, CALLS_PER_S = 80, 20  # of one rater
JOINS_BURST, JOINS_PER_S = 400, 1  # of one network address, which a whole class may share
MAX_DEVICE_CHARS = 3000  # of JSON: until somebody agrees it travels in the header of every call

Model = TypeVar("Model", bound=BaseModel)
PanelId = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^|\x00-\x1f]+$")]
Fact = Annotated[str, Field(max_length=300)] | bool | int | float | None


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Panel(_Strict):
    """Who a recruiting panel says somebody is."""

    PROLIFIC_PID: PanelId | None = None
    STUDY_ID: PanelId | None = None
    SESSION_ID: PanelId | None = None


class JoinCreate(_Strict):
    """A rater begins or comes back."""

    campaign: str = Field(max_length=80)
    key: str = Field(max_length=64)
    panel: Panel = Field(default_factory=Panel)
    code: str | None = Field(default=None, max_length=40)
    device: dict[Annotated[str, Field(max_length=40)], Fact] = Field(default_factory=dict, max_length=32)

    @field_validator("device")
    @classmethod
    def _fits(cls, device: dict[str, Any]) -> dict[str, Any]:
        if len(write_json(device)) > MAX_DEVICE_CHARS:
            raise ValueError(f"has more than {MAX_DEVICE_CHARS} characters")
        return device


class StageCreate(_Strict):
    """A rater did what a stage asks; what ``data`` holds depends on the stage."""

    stage: str = Field(max_length=40)
    data: dict[str, Any] = Field(default_factory=dict, max_length=32)

    @field_validator("data")
    @classmethod
    def _can_be_kept(cls, data: dict[str, Any]) -> dict[str, Any]:
        write_json(data)
        return data


class StateCreate(_Strict):
    """An owner opens or closes a campaign."""

    state: Literal["open", "closed"]


class UtteranceCreate(_Strict):
    """An owner adds an utterance to a draft, by the token of its trace; with ``template`` the draft is made first.

    ``sure`` adds it also where the draft was whole and would not be any more.
    """

    trace: str = Field(max_length=40)
    template: str | None = Field(default=None, max_length=40)
    sure: bool = False


class SoundRemove(_Strict):
    """An owner takes out of a draft a script, a system, or the one sound of both."""

    item: str | None = Field(default=None, max_length=80)
    system: str | None = Field(default=None, max_length=80)


class Door:
    """Tells who calls. Raters are limited by their token, addresses only where what they bring is wrong."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._calls = Limit(burst=CALLS_BURST, per_second=CALLS_PER_S)
        self._joins = Limit(burst=JOINS_BURST, per_second=JOINS_PER_S)

    def rater(self, request: HTTPConnection, token: str | None = None) -> int:
        """The rater who calls, by the header's token or by one that came otherwise. Raises Forbidden, TooMany."""
        with self.watched(request):
            rater = self._listening.access.rater_of(bearer(request) if token is None else token)
        self._calls.take(str(rater))
        return rater

    def caller(self, request: HTTPConnection) -> int | Visitor:
        """The rater who calls, or a visitor who has not agreed yet. Raises Forbidden, TooMany."""
        with self.watched(request):
            visitor = self._listening.access.visitor_of(bearer(request))
        if visitor is None:
            return self.rater(request)
        self._calls.take(visitor.identity)
        return visitor

    def annotator(self, request: HTTPConnection) -> tuple[str, int]:
        """The assignment that somebody came for, and which of its annotators it is. Raises Forbidden, TooMany."""
        with self.watched(request):
            found = self._listening.access.annotator_of(bearer(request))
        self._calls.take(f"annotator {found}")
        return found

    def annotator_token(self, assignment: str, number: int) -> str:
        """What the link of one annotator of an assignment ends with."""
        return self._listening.access.annotator_token(assignment, number)

    async def owner(self, request: Request) -> None:
        """Raises Forbidden or TooMany unless the owner calls."""
        with self.watched(request):
            await run_in_threadpool(self._listening.access.check_owner, bearer(request))

    async def greet(self, request: Request, campaign: str, key: str) -> dict[str, Any]:
        """What a link shows. Raises Forbidden, TooMany."""
        with self.watched(request):
            return await run_in_threadpool(self._listening.greet, campaign, key)

    def join(self, request: Request) -> None:
        """Raises TooMany where one network address sends too many raters."""
        self._joins.take(address_of(request))

    @contextmanager
    def watched(self, request: HTTPConnection) -> Iterator[None]:
        """Count what is forged by the address that it comes from."""
        with self._listening.access.watched(address_of(request)):
            yield


async def is_owner(listening: Listening, request: Request) -> bool:
    """Whether a request brings the owner's token; who forges one is counted by the route, which is asked next."""
    try:
        await run_in_threadpool(listening.access.check_owner, bearer(request))
    except Forbidden:
        return False
    return True


def bearer(request: HTTPConnection) -> str:
    """The token of the Authorization header, empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """What a route says in its schema (``openapi_extra``) of the body that it reads by ``read_body``."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _whole(schema, schema)}}}}


def _whole(part: Any, schema: dict[str, Any]) -> Any:
    """A schema whose references are replaced by what they name."""
    if isinstance(part, list):
        return [_whole(one, schema) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _whole(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    return {name: _whole(one, schema) for name, one in part.items() if name != "$defs"}


async def read_body(request: Request, model: type[Model]) -> Model:
    """The body of a request, bounded before, as what it should be.

    Raises:
        BadMessage: it is no JSON, or a field is missing, unknown or not allowed.
    """
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the message"
        raise BadMessage(f"{where[:100]}: {first['msg'][:200]}", "reload the page and try again") from error
