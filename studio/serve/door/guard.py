"""The door: who may call this server. Any page a user has open could drive a loopback server otherwise.

Host must be a name of this server, which refuses DNS rebinding (a foreign name that resolves to 127.0.0.1);
Origin, when a browser sends one, must be the page's own host or one that the settings allow.
"""

import ipaddress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from studio.settings import ENV_PREFIX, ServeSettings

LOOPBACK_NAMES = ("localhost", "localhost.localdomain")
EVERY_ADDRESS = ("0.0.0.0", "::", "")


class Guard:
    """ASGI middleware that answers 403 to strangers, on routes and sockets alike."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = refuse(scope["headers"], self.settings)
        if not refusal:
            await self.app(scope, receive, send)
            return
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        if kind != "http.response" and kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[:100]})
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": f"{kind}.start", "status": 403, "headers": headers})
        await send({"type": f"{kind}.body", "body": refusal.encode()})


def refuse(headers: list[tuple[bytes, bytes]], settings: ServeSettings) -> str:
    """Why a request is refused and which setting would allow it; empty when it may pass."""
    hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not host_allowed(hosts[0], settings):
        return _told("Host", ", ".join(hosts), "allowed_hosts", "the name this server is called by")
    for origin in (value.decode("latin-1").lower() for name, value in headers if name == b"origin"):
        if not origin_allowed(origin, hosts[0], settings):
            return _told("Origin", origin, "allowed_origins", "the page's origin")
    return ""


def _told(header: str, value: str, setting: str, what: str) -> str:
    shown = value[:200] or "(none)"
    where = f"{setting} in [serve] of the settings file or in {ENV_PREFIX}{setting.upper()}"
    return f"{header} {shown!r} is not allowed here. If you run this server and mean it, add {what} to {where}.\n"


def host_allowed(host: str, settings: ServeSettings) -> bool:
    """Whether a Host header, port and all, names this server."""
    name = _name_of(host)
    if not name:
        return False
    allowed = tuple(one.lower() for one in settings.allowed_hosts)
    if name in (*LOOPBACK_NAMES, settings.host.lower()) or _matches(name, allowed):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # An address cannot be rebound: only names can. So a server that listens everywhere may be called by any of its own.
    return address.is_loopback or settings.host in EVERY_ADDRESS


def _matches(name: str, allowed: tuple[str, ...]) -> bool:
    return any(one in ("*", name) or (one.startswith("*.") and name.endswith(one[1:])) for one in allowed)


def _name_of(host: str) -> str:
    """The host of ``host[:port]``, without the brackets of IPv6; empty when it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises when it is no number
    except ValueError:
        return ""
    plain = parts.netloc == host and not parts.username and parts.path == ""
    return (parts.hostname or "") if plain else ""


def origin_allowed(origin: str, host: str, settings: ServeSettings) -> bool:
    """Whether a page of ``origin`` may talk to the server that it called ``host``."""
    allowed = tuple(one.lower().rstrip("/") for one in settings.allowed_origins)
    if "*" in allowed or origin in allowed:
        return True
    scheme, _, netloc = origin.partition("://")
    default_port = {"http": ":80", "https": ":443"}.get(scheme)
    return default_port is not None and netloc.removesuffix(default_port) == host.removesuffix(default_port)
