"""What ``studio app`` says when it starts: where it answers, with which key, and what is open to whom."""

import socket
from dataclasses import dataclass, replace

from studio.core.errors import BadOption
from studio.serve.door.guard import EVERY_ADDRESS
from studio.serve.door.key import is_loopback, new_key
from studio.settings import ENV_PREFIX, ServeSettings

_OPEN = (
    "Open to everybody who can reach port {port}: they can speak with every voice, take all places, and fetch a trace "
    "whose address they know. Listening tests still want a rater's link or the owner's token."
)
_BY_NAME = (
    "Others may reach it as {names}: unless the proxy before it asks them, give it a key (" + ENV_PREFIX + "KEY)."
)
_KEY_KNOWN = f"It wants the key of {ENV_PREFIX}KEY or of the settings file: /?key=... opens it."


@dataclass(frozen=True)
class Welcome:
    """How a studio can be reached.

    Attributes:
        settings: with the key that it wants, where it wants one.
        links: what to open in a browser; a key that was made now is in them, a key that was given is not.
        words: what else has to be said; may be empty.
    """

    settings: ServeSettings
    links: tuple[str, ...]
    words: str = ""


def welcome(settings: ServeSettings, *, is_open: bool) -> Welcome:
    """Who may come in: a studio that others can reach wants a key, unless it is open on purpose.

    Raises:
        BadOption: it has a key and is to be open.
    """
    if settings.key and is_open:
        raise BadOption("--open asks nobody for a key, and there is one", f"leave out --open or {ENV_PREFIX}KEY")
    links = tuple(f"http://{name}:{settings.port}{settings.root_path}/" for name in _names(settings.host))
    if settings.key:
        return Welcome(settings, links, _KEY_KNOWN)
    if is_loopback(settings.host):
        names = ", ".join(settings.allowed_hosts)
        return Welcome(settings, links, _BY_NAME.format(names=names) if names and not is_open else "")
    if is_open:
        return Welcome(settings, links, _OPEN.format(port=settings.port))
    key = new_key()
    words = "Whoever has this link gets in; raters with theirs need no key."
    return Welcome(replace(settings, key=key), tuple(f"{link}?key={key}" for link in links), words)


def _names(host: str) -> list[str]:
    """The host as addresses show it: one that means every address of this machine by two of them."""
    if host in EVERY_ADDRESS:
        return ["127.0.0.1", *_own_address()]
    return [f"[{host}]" if ":" in host else host]


def _own_address() -> list[str]:
    """The address by which others on the network reach this machine; nothing is sent to find it out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # of no machine (RFC 5737)
        except OSError:
            return []
        found = probe.getsockname()[0]
    return [] if is_loopback(found) else [found]
