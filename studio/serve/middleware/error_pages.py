"""Middleware that shows an error as a page where a browser opens the address itself."""

import html
import json
import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Pages whose addresses were sent to people: a link to the studio would tell a rater whose systems are rated.
_SENT_PATHS = re.compile(r"/(?:rate|annotate|annotation|mos)(?:/.*)?", re.ASCII)
_MAX_BYTES = 16 * 1024  # of an error that becomes a page
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Not available</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 32rem; margin: 18vh auto; padding: 0 1.25rem }}
h1 {{ font-size: 1.6rem; line-height: 1.2 }}
</style>
<h1>This page is not available</h1>
<p>{reason}</p>
{link}</html>
"""


class ErrorPagesMiddleware:
    """ASGI middleware: a page with the reason in place of an error as JSON or text, for requests that accept HTML.

    Programs and the pages' own scripts accept anything, so they get the error as it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _accepts_page(scope["headers"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None  # of an error whose body is not complete
        body = b""

        async def send_page(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_plain_error(message):
                start = message
                return
            if start is None:
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body", False):
                return
            page = _page(scope, body)
            kept = [pair for pair in start["headers"] if pair[0].lower() not in (b"content-type", b"content-length")]
            headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(page)).encode())]
            await send({**start, "headers": [*kept, *headers]})
            await send({"type": "http.response.body", "body": page})

        await self._app(scope, receive, send_page)


def _accepts_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


def _is_plain_error(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    is_plain = headers.get(b"content-type", b"").startswith((b"application/json", b"text/plain"))
    return start["status"] >= 400 and is_plain and int(headers.get(b"content-length", _MAX_BYTES + 1)) <= _MAX_BYTES


def _page(scope: Scope, body: bytes) -> bytes:
    root = scope.get("root_path", "")
    is_sent = _SENT_PATHS.fullmatch(scope["path"].removeprefix(root))
    link = "" if is_sent else f'<p><a href="{html.escape(root)}/">Open the first page</a></p>\n'
    reason = _reason(body.decode("utf-8", "replace")).strip()
    sentence = f"{reason[:1].upper()}{reason[1:]}".rstrip(".") + "."
    return _PAGE.format(reason=html.escape(sentence), link=link).encode()


def _reason(text: str) -> str:
    """The message of an error as ``{"code", "message"}`` or FastAPI's ``{"detail"}``; the text itself otherwise."""
    try:
        error = json.loads(text)
    except ValueError:
        return text
    reason = error.get("message", error.get("detail")) if isinstance(error, dict) else None
    return reason if isinstance(reason, str) else text
