"""Messages of ``studio app`` at its start: addresses, key, and access."""

import socket
from dataclasses import dataclass, replace

from studio.core.addresses import is_loopback
from studio.core.errors import BadOption
from studio.serve.middleware.auth import EVERY_ADDRESS, new_key
from studio.serve.settings import ENV_PREFIX, ServeSettings

_OPEN = (
    "Open to every client that can reach port {port}: it can speak with every voice, take all slots, and fetch a trace "
    "whose address it knows. Listening tests still require a rater's link or the owner's access key."
)
_BY_NAME = "Others may reach it as {names}: unless its proxy authenticates them, set a key (" + ENV_PREFIX + "KEY)."
_KEY_KNOWN = f"It requires the key of {ENV_PREFIX}KEY or of the settings file: /?key=... opens it."


@dataclass(frozen=True)
class Welcome:
    """Links to a studio, and its access."""

    settings: ServeSettings  # with the required key, if any
    links: tuple[str, ...]  # for a browser; they contain a generated key, but not a given one
    words: str = ""  # a warning, may be empty


def welcome(settings: ServeSettings, *, is_open: bool) -> Welcome:
    """Access of a studio: one that other machines can reach requires a key, unless --open is given.

    Raises:
        BadOption: both a key and --open.
    """
    if settings.key and is_open:
        raise BadOption("--open requires no key, but a key is set", f"leave out --open or {ENV_PREFIX}KEY")
    links = _public_links(settings) or tuple(
        f"http://{name}:{settings.port}{settings.root_path}/" for name in _names(settings.host)
    )
    if settings.key:
        return Welcome(settings, links, _KEY_KNOWN)
    if is_loopback(settings.host):
        names = ", ".join(settings.allowed_hosts)
        return Welcome(settings, links, _BY_NAME.format(names=names) if names and not is_open else "")
    if is_open:
        return Welcome(settings, links, _OPEN.format(port=settings.port))
    key = new_key()
    words = "This link grants access; raters' links need no key."
    return Welcome(replace(settings, key=key), tuple(f"{link}?key={key}" for link in links), words)


def owner_link(link: str, code: str) -> str:
    """A link of ``Welcome`` that also signs the browser in as the owner."""
    return f"{link}{'&' if '?' in link else '?'}owner={code}"


def _public_links(settings: ServeSettings) -> tuple[str, ...]:
    """Addresses behind a proxy, which terminates TLS; the server's own one lacks the prefix that the proxy strips."""
    names = [name for name in settings.allowed_hosts if "*" not in name] if settings.proxies else []
    return tuple(f"https://{name}{settings.root_path}/" for name in names)


def _names(host: str) -> list[str]:
    """Host names for links; a wildcard address gives two."""
    if host in EVERY_ADDRESS:
        return ["127.0.0.1", *_own_address()]
    return [f"[{host}]" if ":" in host else host]


def _own_address() -> list[str]:
    """This machine's address on the network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # not the address of any machine (RFC 5737)
        except OSError:
            return []
        address = probe.getsockname()[0]
    return [] if is_loopback(address) else [address]
