"""What a caller says of itself, cut down to what is used here before anybody reads it.

Python before 3.11.10 takes quadratic time for a cookie of backslashes (CVE-2024-7592), on the event loop; so cookies
are read here, by splitting, and whatever stands behind sees only our own.
"""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

COOKIES = "studio-"  # what the names of our own begin with
_OWN = re.compile(rf"{COOKIES}[A-Za-z0-9-]{{1,80}}=[A-Za-z0-9_-]{{1,200}}", re.ASCII)
_MOST_COOKIES = 20
# Where the server thinks it stands is decided by Host, by ``root_path`` and by the proxies that the settings name.
_NOT_BELIEVED = re.compile(rb"x-forwarded-.*|forwarded|x-gradio-server|x-direct-url")


class OwnHeaders:
    """ASGI middleware, the outermost: of a request's cookies ours alone go on, in one header; of forwarding nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = {**scope, "headers": _cut(scope["headers"])}
        await self._app(scope, receive, send)


def _cut(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    kept = [one for one in headers if one[0] != b"cookie" and not _NOT_BELIEVED.fullmatch(one[0])]
    cookies = own_cookies([value.decode("latin-1") for name, value in headers if name == b"cookie"])
    if cookies:
        kept.append((b"cookie", "; ".join(f"{name}={value}" for name, value in cookies.items()).encode("ascii")))
    return kept


def own_cookies(headers: list[str]) -> dict[str, str]:
    """Names and values of the cookies that are ours; linear in what was sent."""
    pairs = (pair.strip(" \t") for header in headers for pair in header.split(";"))
    ours = [pair for pair in pairs if _OWN.fullmatch(pair)][:_MOST_COOKIES]
    return dict(pair.split("=", 1) for pair in ours)
