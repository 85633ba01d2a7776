"""Headers that tell browsers what an answer may do: nothing, unless it is a page that says more of itself."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.settings import ServeSettings

POLICY = b"content-security-policy"
_NOTHING = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"


class SafeHeaders:
    """ASGI middleware: every answer says what it is, who may frame it, and that its address stays here.

    Raters' links and the link with the key are addresses: no other site hears them as referrers.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app = app
        origins = " ".join(settings.allowed_origins)
        self._framers = f"frame-ancestors 'self' {origins}".strip() if origins else "frame-ancestors 'none'"
        self._headers = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
        ]
        if not origins:  # it knows no list: where foreign pages may frame ours, the policy alone says which
            self._headers.append((b"x-frame-options", b"DENY"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._with(message.get("headers", ()))}
            await send(message)

        await self._app(scope, receive, told)

    def _with(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        ours = {name for name, _ in self._headers}
        kept = [(name, value) for name, value in headers if name.lower() not in ours]
        said = next((value for name, value in kept if name.lower() == POLICY), _NOTHING.encode())
        kept = [(name, value) for name, value in kept if name.lower() != POLICY]
        is_page = any(value.startswith(b"text/html") for _, value in kept)
        if is_page and not any(name.lower() == b"cache-control" for name, _ in kept):
            kept.append((b"cache-control", b"private, no-cache"))
        return [*kept, *self._headers, (POLICY, said + b"; " + self._framers.encode())]
