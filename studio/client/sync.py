"""The client for threads."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Self, Unpack

from studio.client.messages import How, Messages, Server, ServerGone, connection_errors
from studio.core.errors import needs
from studio.core.events import Event


class Utterance(Messages[None]):
    """One utterance on its own socket: one thread may send text while another one iterates over the events.

    Iteration ends after the last event (``Ended`` or ``Failed``). It raises ServerGone, and Refused, after which it may
    continue. With ``plays``, call ``played``; without, sound counts as played when received.
    """

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


class Client(Server):
    """A studio's address and key; usable from several threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing, since each utterance closes its own socket."""

    def _connected(self) -> Any:
        with needs("the client needs the package websockets", "app"):
            from websockets.sync.client import connect
        with connection_errors():
            return connect(**self._connection)

    def voices(self) -> list[dict[str, Any]]:
        """The voices with their speakers and options. Raises ServerGone."""
        with self._connected() as socket, connection_errors():
            return json.loads(socket.recv(self._timeout_s))["voices"]

    def utterance(self, voice: str = "", **how: Unpack[How]) -> Utterance:
        """Begin an utterance; use it in a ``with`` statement. Raises ServerGone.

        Args:
            voice: ``name`` or ``name:speaker``; empty for the first voice.
            how: see ``How``.
        """
        utterance = Utterance(self._connected(), plays=how.get("plays", False))
        utterance.open(voice, how)
        return utterance

    def speak(self, text: str | Iterable[str], voice: str = "", **how: Unpack[How]) -> Iterator[Event]:
        """Speak a text, or its pieces as they arrive, and yield the events.

        Raises Refused, ServerGone, and the errors of the iterable ``text``.
        """
        wrong: list[BaseException] = []
        with self.utterance(voice, **how) as utterance:

            def feed() -> None:
                try:
                    for piece in [text] if isinstance(text, str) else text:
                        utterance.send(piece)
                    utterance.end()
                except ServerGone:
                    pass  # the iteration raises it
                except BaseException as error:  # noqa: BLE001 - raised where the events are read
                    wrong.append(error)
                    with suppress(ServerGone):
                        utterance.cancel()

            threading.Thread(target=feed, name="studio client", daemon=True).start()
            yield from utterance
            if wrong:
                raise wrong[0]
