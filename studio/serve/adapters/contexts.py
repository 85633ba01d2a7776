"""A socket of a foreign protocol that carries several contexts, each an utterance that ends with its own message."""

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine
from itertools import count
from typing import Any, Generic, TypeVar

from studio.core import events as ev
from studio.core.errors import StudioError
from studio.markup import Markup
from studio.serve.adapters.encoding import Encoder
from studio.serve.live import protocol as wire
from studio.serve.live.socket import SpeakSession
from studio.serve.live.stream import InternalError, Outgoing, UtteranceStream

log = logging.getLogger("studio.serve")


class Context(ABC):
    """One utterance of a socket.

    Attributes:
        name: the client's, None on a socket of one context.
        number: of the utterance.
        encoder: of its sound.
        is_cut: the client has cancelled it. No sound follows; word times do, for those that were played.
    """

    def __init__(self, name: str | None, number: int, encoder: Encoder) -> None:
        self.name, self.number, self.encoder, self.is_cut = name, number, encoder, False
        self.sent_samples = 0  # of the voice's sound

    @abstractmethod
    def messages(self, event: ev.Event) -> AsyncIterator[dict[str, Any] | bytes]:
        """What the client is sent for an event, as JSON or as binary messages."""


AnyContext = TypeVar("AnyContext", bound=Context)


class ContextSession(SpeakSession, ABC, Generic[AnyContext]):
    """One socket of contexts, by the client's names; protocols say how messages and errors look."""

    has_contexts = True  # otherwise the socket closes after its only utterance

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._numbers = count()
        self._contexts: dict[int, AnyContext] = {}  # until the last message
        self._current: dict[str | None, AnyContext] = {}  # those that take text, by their names

    @abstractmethod
    def _error(self, error: StudioError, context: AnyContext | None) -> dict[str, Any]:
        """An error as clients expect it."""

    @abstractmethod
    def _close_code(self, error: StudioError, context: AnyContext | None) -> int | None:
        """The code with which an error closes the socket; None if it stays open."""

    async def _on_context_end(self, context: AnyContext | None) -> None:
        """A context has ended, after its last message."""

    # --- from the client -----------------------------------------------------------------------------

    async def _begin_context(self, context: AnyContext, voice: str, markup: Markup = "plain") -> None:
        self._contexts[context.number] = self._current[context.name] = context
        await self._pass(context, wire.Open(utterance=context.number, voice=voice, markup=markup))

    async def _pass(self, context: AnyContext, message: wire.Message) -> None:
        """Pass a message to the context's utterance, unless it has failed."""
        if context.number in self._contexts:
            await self._report_errors(self._dispatch(message), context.number)

    async def _end(self, context: AnyContext) -> None:
        if self._current.get(context.name) is context:
            del self._current[context.name]
            await self._pass(context, wire.End(utterance=context.number))

    async def _cancel(self, context: AnyContext) -> None:
        context.is_cut = True
        if self._current.get(context.name) is context:
            del self._current[context.name]
        await self._pass(context, wire.Cancel(utterance=context.number))

    # --- to the client -------------------------------------------------------------------------------

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error about its socket."""
        await self._send(json.dumps(self._error(error, None)))

    async def _report_errors(self, work: Coroutine[Any, Any, None], utterance: int | None) -> None:
        """Await the work of a message; an error ends the context it is about, or a socket of one context."""
        try:
            await work
        except StudioError as error:
            if utterance is None or utterance in self._contexts:  # what follows a failure is no further error
                await self._fail(error, self._contexts.get(utterance) if utterance is not None else None)
        except Exception:
            log.exception("a client message failed")
            await self._fail(InternalError("this message could not be processed", "the server's log says why"))

    async def _fail(self, error: StudioError, context: AnyContext | None = None) -> None:
        await self._send(json.dumps(self._error(error, context)))
        if context is not None and context.number not in self._streams:
            self._drop(context)
        if (code := self._close_code(error, context)) is not None:
            await self._close(code, error.code)

    async def _send_item(self, stream: UtteranceStream, item: Outgoing) -> float:
        context = self._contexts.get(stream.number)
        if self._closed.is_set() or context is None:
            return 0.0
        if isinstance(item, StudioError | ev.Failed):
            error = item if isinstance(item, StudioError) else InternalError(item.message)
            await self._fail(error, context)
            await asyncio.to_thread(stream.cancel)
        if context.is_cut and isinstance(item, ev.WordEnd) and item.sample > context.sent_samples:
            return 0.0  # its sound was dropped
        if not isinstance(item, ev.Event) or (context.is_cut and isinstance(item, ev.Audio)):
            return 0.0
        try:
            blocked_ms = 0.0
            async for one in context.messages(item):
                if context.number not in self._contexts or (context.is_cut and isinstance(item, ev.Audio)):
                    return blocked_ms  # while its sound was encoded
                blocked_ms += await self._send(one if isinstance(one, bytes) else json.dumps(one))
            if isinstance(item, ev.Audio):
                context.sent_samples = item.sample + len(item.pcm) - context.encoder.held_samples
        except Exception:
            log.exception("an event could not be sent")
            await asyncio.to_thread(stream.cancel)
            return 0.0
        stream.grant_ahead()
        return blocked_ms

    async def _send_last(self, stream: UtteranceStream, token: str | None) -> None:
        context = self._contexts.get(stream.number)
        if context is not None:
            self._drop(context)
        await self._on_context_end(context)

    def _drop(self, context: AnyContext) -> None:
        self._contexts.pop(context.number, None)
        if self._current.get(context.name) is context:
            del self._current[context.name]
