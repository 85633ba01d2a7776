"""The client for threads."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, Self

from studio.client.messages import (
    URL,
    Messages,
    ServerGone,
    connection_errors,
    connection_settings,
    opening,
    socket_url,
)
from studio.core.errors import needs
from studio.core.events import Event


class Utterance(Messages[None]):
    """One utterance on a socket of its own: text may be sent from one thread while another iterates over the events.

    Iterating yields events to the last one (``Ended`` or ``Failed``). Raises Refused, after which it may go on, and
    ServerGone. Sound that is not played counts as played when it has been received; with ``plays`` call ``played``.
    """

    def __init__(self, socket: Any, plays: bool) -> None:
        super().__init__(plays)
        self._socket = socket

    def put(self, kind: str, **fields: Any) -> None:
        with connection_errors():
            self._socket.send(self.encode(kind, fields))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while self.needs_more():
            try:
                with connection_errors():
                    message = self._socket.recv()
            except ServerGone:
                self.on_gone()
                continue
            if report := self.receive(message):
                with suppress(ServerGone), connection_errors():
                    self._socket.send(report)
        if not self._events:
            raise StopIteration
        return self._events.popleft()


class Client:
    """A studio's address and key; usable from several threads."""

    def __init__(self, url: str = URL, key: str = "", *, timeout_s: float = 60.0) -> None:
        self._url, self._key, self._timeout_s = socket_url(url), key, timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to free: each utterance closes its socket."""

    def voices(self) -> list[dict[str, Any]]:
        """The voices with their speakers and options. Raises ServerGone."""
        with needs("the client needs the package websockets", "app"):
            from websockets.sync.client import connect
        with (
            connection_errors(),
            connect(self._url, **connection_settings(self._url, self._key, self._timeout_s)) as socket,
        ):
            return json.loads(socket.recv(self._timeout_s))["voices"]

    def utterance(
        self,
        voice: str = "",
        *,
        seed: int = 0,
        temperature: float | None = None,
        options: Mapping[str, Any] | None = None,
        source: Literal["stream", "keyboard"] = "stream",
        plays: bool = False,
    ) -> Utterance:
        """Begin an utterance; use it in a ``with`` statement.

        Args:
            voice: ``name`` or ``name:speaker``; empty for the first voice.
            seed: repeats an utterance; 0 to 2**53 - 1.
            temperature: None for the voice's own; 0 is greedy.
            options: of the voice's family, such as ``{"m": 3, "n": 1}``.
            source: ``keyboard`` for edits of a text field.
            plays: the caller reports what was played, and gets sound 2 s ahead of it.

        Raises ServerGone.
        """
        with needs("the client needs the package websockets", "app"):
            from websockets.sync.client import connect
        with connection_errors():
            found = Utterance(connect(self._url, **connection_settings(self._url, self._key, self._timeout_s)), plays)
        found.put("open", **opening(voice, seed, temperature, options or {}, source))
        return found

    def speak(self, text: str | Iterable[str], voice: str = "", **how: Any) -> Iterator[Event]:
        """Speak a text, or pieces of one as they come, and yield the events; see ``utterance`` for ``how``.

        Raises Refused, ServerGone, and what ``text`` raises.
        """
        wrong: list[BaseException] = []
        with self.utterance(voice, **how) as utterance:

            def feed() -> None:
                try:
                    for piece in [text] if isinstance(text, str) else text:
                        utterance.send(piece)
                    utterance.end()
                except ServerGone:
                    pass  # the iteration says so
                except BaseException as error:  # noqa: BLE001 - raised where the events are read
                    wrong.append(error)
                    with suppress(ServerGone):
                        utterance.cancel()

            threading.Thread(target=feed, name="studio client", daemon=True).start()
            yield from utterance
            if wrong:
                raise wrong[0]
