"""Middleware that shows an error as a page if a browser opened the address itself."""

import html
import json
import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Pages whose links were sent to people: a link to the studio would tell a rater whose systems are rated.
_SENT_PATHS = re.compile(r"/(?:rate|annotate|annotation|mos)(?:/.*)?", re.ASCII)
_MAX_BYTES = 16 * 1024  # larger errors are passed on unchanged
# Colours and fonts of the pages (ui/widgets/tokens.css), for pages that load no other file.
STYLE = """<style>
:root { color-scheme: light; --paper: #f6f5f1; --panel: #ffffff; --ink: #16202b; --muted: #5a6672; --line: #dfe1de;
  --accent: #0b6bcb; --accent-ink: #ffffff }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --paper: #0d1117; --panel: #151b24; --ink: #eceff3; --muted: #9aa7b5; --line: #2a333f;
    --accent: #6db3ff; --accent-ink: #06172a }
}
body { max-inline-size: 32rem; margin: 18vh auto; padding: 0 20px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 "Segoe UI", Inter, Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif }
h1 { font-size: 26px; line-height: 1.25; letter-spacing: -.02em }
p { color: var(--muted) }
form, label { display: flex; flex-wrap: wrap; gap: 8px; align-items: center }
input, button, a { box-sizing: border-box; min-block-size: 40px; padding: 8px 14px; border: 1px solid var(--line);
  border-radius: 10px; font: inherit }
input { inline-size: 13rem; background: var(--panel); color: inherit }
button, a { display: inline-block; background: var(--accent); border-color: var(--accent); color: var(--accent-ink);
  font-weight: 600; text-decoration: none; cursor: pointer }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
</style>
"""
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Not available</title>
{style}<main>
<h1>This page is not available</h1>
<p>{reason}</p>
{link}</main>
</html>
"""


class ErrorPagesMiddleware:
    """ASGI middleware: for requests that accept HTML, turns an error in JSON or text into a page with its reason.

    Programs and the pages' own scripts do not ask for HTML, so they get the error unchanged.
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
    return _PAGE.format(style=STYLE, reason=html.escape(sentence), link=link).encode()


def _reason(text: str) -> str:
    """The message of an error as ``{"code", "message"}`` or FastAPI's ``{"detail"}``; the text itself otherwise."""
    try:
        error = json.loads(text)
    except ValueError:
        return text
    reason = error.get("message", error.get("detail")) if isinstance(error, dict) else None
    return reason if isinstance(reason, str) else text
