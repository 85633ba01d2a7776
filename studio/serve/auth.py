"""Authentication of raters, annotators and the owner by token, with rate limits.

The owner's browser signs in once, by the link that the server prints or with the token, and has a cookie from then on.
Pages of other sites cannot use it: requests with a foreign Origin are rejected, and it is a same-site cookie.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from studio.mos.service import ListeningTests
from studio.mos.store.access import Forbidden, RateLimit, Visitor
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.headers import COOKIE_PREFIX

SESSION_S = 30 * 86400
CALLS_BURST, CALLS_PER_S = 80, 20  # of one rater
JOINS_BURST, JOINS_PER_S = 400, 1  # of one network address, which a classroom may share


class TokenAuth:
    """Identifies callers. Raters are limited by token, network addresses by their invalid tokens."""

    def __init__(self, listening: ListeningTests) -> None:
        self._listening = listening
        self._calls = RateLimit(burst=CALLS_BURST, per_second=CALLS_PER_S)
        self._joins = RateLimit(burst=JOINS_BURST, per_second=JOINS_PER_S)

    def rater(self, request: HTTPConnection, token: str | None = None) -> int:
        """The rater of a token, by default that of the header. Raises Forbidden, TooMany."""
        with self.watched(request):
            rater = self._listening.access.rater_of(bearer(request) if token is None else token)
        self._calls.take(str(rater))
        return rater

    def caller(self, request: HTTPConnection) -> int | Visitor:
        """The rater, or a visitor who has not consented yet. Raises Forbidden, TooMany."""
        with self.watched(request):
            visitor = self._listening.access.visitor_of(bearer(request))
        if visitor is None:
            return self.rater(request)
        self._calls.take(visitor.identity)
        return visitor

    def annotator(self, request: HTTPConnection) -> tuple[str, int]:
        """An assignment's id and the index of the annotator in it. Raises Forbidden, TooMany."""
        with self.watched(request):
            annotator = self._listening.access.annotator_of(bearer(request))
        self._calls.take(f"annotator {annotator}")
        return annotator

    def annotator_token(self, assignment: str, number: int) -> str:
        """The token in the link of one annotator."""
        return self._listening.access.annotator_token(assignment, number)

    async def owner(self, request: Request) -> None:
        """Require the owner's token or cookie. Raises Forbidden, TooMany."""
        if await is_signed_in(self._listening, request):
            return
        with self.watched(request):
            await run_in_threadpool(self._listening.access.check_owner, bearer(request))

    async def sign_in(self, request: Request, token: str) -> str:
        """The cookie that signs the owner's browser in, as a header. Raises Forbidden, TooMany."""
        with self.watched(request):
            await run_in_threadpool(self._listening.access.check_owner, token)
        return session_cookie(request, await run_in_threadpool(self._listening.access.owner_session))

    async def greet(self, request: Request, campaign: str, key: str) -> dict[str, Any]:
        """What the page of a signed link shows first. Raises Forbidden, TooMany."""
        with self.watched(request):
            return await run_in_threadpool(self._listening.describe_link, campaign, key)

    def join(self, request: Request) -> None:
        """Count a new rater of a network address. Raises TooMany."""
        self._joins.take(address_of(request))

    @contextmanager
    def watched(self, request: HTTPConnection) -> Iterator[None]:
        """Count invalid tokens and links by network address."""
        with self._listening.access.limit_forgeries(address_of(request)):
            yield


async def is_owner(listening: ListeningTests, request: Request) -> bool:
    """Whether a request has the owner's token or cookie; the route itself counts invalid tokens."""
    if await is_signed_in(listening, request):
        return True
    try:
        await run_in_threadpool(listening.access.check_owner, bearer(request))
    except Forbidden:
        return False
    return True


async def is_signed_in(listening: ListeningTests, request: HTTPConnection) -> bool:
    """Whether a request has the owner's cookie."""
    value = owner_cookie(request)
    return bool(value) and await run_in_threadpool(listening.access.is_owner_session, value)


def owner_cookie(request: HTTPConnection) -> str:
    """The value of the owner's cookie, empty without one; for ``Access.is_owner_session``."""
    return request.cookies.get(_cookie_name(request), "")


def session_cookie(request: HTTPConnection, value: str) -> str:
    """The header that sets the owner's cookie; an empty value removes it. A script cannot read the cookie."""
    age_s = SESSION_S if value else 0
    secure = "; Secure" if request.url.scheme == "https" else ""
    path = request.scope.get("root_path") or "/"
    return f"{_cookie_name(request)}={value or 'out'}; Path={path}; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}"


def _cookie_name(request: HTTPConnection) -> str:
    """A browser sends a cookie to every port of a host, so the port is part of the name."""
    return f"{COOKIE_PREFIX}owner-{request.url.port or 0}"


def bearer(request: HTTPConnection) -> str:
    """The token of the Authorization header, empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
