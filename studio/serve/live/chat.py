"""Replies of the owner's language model as the text of an utterance."""

import logging
import time
from collections import OrderedDict, deque
from contextlib import aclosing

from studio.chat.chunks import ChatFailed
from studio.chat.conversation import recent
from studio.chat.endpoint import ChatClient, ChatEndpoint
from studio.core.errors import BadMessage, StudioError
from studio.serve.live import protocol as wire
from studio.serve.live.stream import InternalError, UtteranceStream
from studio.text.markdown import MarkdownStream

_MINUTE_S = 60.0
_ADDRESSES = 1024  # whose questions are counted

log = logging.getLogger("studio.serve")


class Chat:
    """Asks one endpoint for the utterances of all sockets.

    Args:
        replies_per_min: how many questions one address may ask in a minute.
        hides_failures: whether visitors get no details of failures, since an endpoint's messages may contain addresses.

    Raises NeedsPackage; BadOption: the environment variable of the key is not set.
    """

    def __init__(self, endpoint: ChatEndpoint, replies_per_min: int, *, hides_failures: bool) -> None:
        self._client, self._url = ChatClient(endpoint), endpoint.url
        self._replies_per_min, self._hides_failures = replies_per_min, hides_failures
        self._asked_s: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, message: wire.Ask, stream: UtteranceStream) -> None:
        """Raises BadMessage: the question cannot be asked for this utterance."""
        if stream.source != "stream":
            raise BadMessage(f"utterance {stream.number} is a keyboard", 'open one with "source": "stream" to ask')
        if message.messages[-1]["role"] != "user":
            raise BadMessage("the last of 'messages' is not a question", "end with a message whose role is user")

    async def answer(self, message: wire.Ask, stream: UtteranceStream, address: str) -> None:
        """Pass the reply to the utterance as it arrives, then end the text; a failure is sent as an error."""
        number, spoken = stream.number, MarkdownStream()

        async def push(text: str) -> None:
            if text:
                await stream.put(wire.TextIn(utterance=number, text=text))

        try:
            self._count(address)
            async with aclosing(self._client.reply(recent(message.messages))) as pieces:
                async for piece in pieces:
                    await push(spoken.feed(piece))
        except StudioError as error:
            stream.outbox.put_nowait(self._public_error(error))
        except Exception:
            log.exception("a reply of the language model failed")
            stream.outbox.put_nowait(InternalError("the reply broke off", "the server's log says why; ask again"))
        await push(spoken.end())
        await stream.put(wire.End(utterance=number))

    def _count(self, address: str) -> None:
        """Count a question. Raises ChatFailed: the address has asked too many."""
        now_s = time.monotonic()
        asked_s = self._asked_s.setdefault(address, deque())
        self._asked_s.move_to_end(address)
        while len(self._asked_s) > _ADDRESSES:
            self._asked_s.popitem(last=False)
        while asked_s and now_s - asked_s[0] > _MINUTE_S:
            asked_s.popleft()
        if len(asked_s) >= self._replies_per_min:
            raise ChatFailed(
                f"{self._replies_per_min} questions were asked in a minute", "wait a moment, and ask again"
            )
        asked_s.append(now_s)

    def _public_error(self, error: StudioError) -> StudioError:
        """An error as the client sees it; the text of one with a cause comes from the endpoint or the system."""
        if not self._hides_failures or (error.__cause__ is None and self._url not in str(error)):
            return error
        log.warning("the language model failed: %s", error)
        return ChatFailed("the language model cannot be used", "the server's log says why; ask again later")
