"""A chat endpoint that speaks OpenAI's protocol: where it is, and the pieces of its replies as they come."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from studio.chat.conversation import MAX_REPLY_CHARS, ChatMessage
from studio.core.addresses import is_loopback
from studio.core.errors import BadOption, StudioError, needs

MAX_REPLY_S = 600.0
SILENCE_S = 60.0  # an endpoint that sends nothing for so long has failed
_CONNECT_S = 10.0
_MAX_EVENT_BYTES = 1_000_000  # of one piece with its fields, and of a message that refuses
_QUOTED_CHARS = 200  # of an endpoint's own error message
SYSTEM_PROMPT = (
    "Your replies are spoken aloud, in English. Answer in a few short sentences of plain text. "
    "A reply of yours that ends with an ellipsis was interrupted there: nothing after it was heard."
)


class ChatFailed(StudioError, code="chat_failed"):
    """The endpoint cannot be used, or its reply broke off."""


@dataclass(frozen=True)
class ChatEndpoint:
    """Where a language model is.

    Attributes:
        url: the address before ``/chat/completions``, ``http://127.0.0.1:11434/v1`` for instance.
        model: the model's name there.
        key_env: the environment variable that holds the key; empty for none.
        system_prompt: the first message of every conversation; empty for none.
        silence_s: an endpoint that sends nothing for so long has failed.

    Raises BadOption: the address or the name is not allowed.
    """

    url: str
    model: str
    key_env: str = ""
    system_prompt: str = SYSTEM_PROMPT
    silence_s: float = SILENCE_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadOption(
                f"{self.url!r:.80} is no address of a language model", "give one like http://127.0.0.1:11434/v1"
            )
        if parts.username or parts.password:
            raise BadOption("the address of the language model holds a password", "name the key's environment variable")
        if not self.model:
            raise BadOption(f"the language model at {self.url} has no name", "give its name with --model")

    def key(self) -> str:
        """The key; empty where none is named. Raises BadOption where its variable is not set."""
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if self.key_env and not key:
            raise BadOption(f"the environment variable {self.key_env} is not set", "set it to the model's key")
        return key


class ChatClient:
    """Streams replies of one endpoint; used on one event loop.

    Raises NeedsPackage; BadOption where the key's variable is not set.
    """

    def __init__(self, endpoint: ChatEndpoint) -> None:
        with needs("talking to a language model needs the package openai", "chat"):
            import openai
        self._openai, self._endpoint, self._key = openai, endpoint, endpoint.key()
        url = endpoint.url.rstrip("/").removesuffix("/chat/completions")
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=self._key or "none",  # None would be that of the environment
            admin_api_key="",  # as well
            max_retries=0,
            timeout=openai.Timeout(endpoint.silence_s, connect=min(_CONNECT_S, endpoint.silence_s)),
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # the key goes to the named address only
                trust_env=not is_loopback(urlsplit(url).hostname or ""),  # no proxy of the environment
                event_hooks={"response": [self._bound]},
            ),
        )
        self._client.organization = self._client.project = None  # as well
        self._headers = {"Accept-Encoding": "identity"} | ({} if self._key else {"Authorization": openai.Omit()})

    async def reply(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str]:
        """Pieces of the model's reply as they come. Raises ChatFailed; ``aclose`` ends the request at once."""
        prompt = self._endpoint.system_prompt
        sent: list[Any] = [*([{"role": "system", "content": prompt}] if prompt else []), *messages]
        refusal, chars, finish = "", 0, ""
        async with aclosing(self._chunks(sent)) as chunks:
            async for chunk in chunks:
                choices = getattr(chunk, "choices", None)
                choice = choices[0] if isinstance(choices, list) and choices else None  # the last has the usage alone
                delta = getattr(choice, "delta", None)
                finish = getattr(choice, "finish_reason", None) or finish
                refusal += _text(getattr(delta, "refusal", None))
                if piece := _text(getattr(delta, "content", None)):
                    chars += len(piece)
                    yield piece[: len(piece) - max(0, chars - MAX_REPLY_CHARS)]
                if chars > MAX_REPLY_CHARS or len(refusal) > MAX_REPLY_CHARS:
                    raise ChatFailed(
                        f"the reply has more than {MAX_REPLY_CHARS:,} characters, and the rest is left out",
                        "ask for a shorter one",
                    )
        if refusal or finish == "content_filter":
            why = f": {refusal:.{_QUOTED_CHARS}}" if refusal else ""
            raise ChatFailed(f"the model refuses to answer{why}", "ask something else")
        if not finish:
            raise ChatFailed("the reply broke off: the endpoint closed the connection", "ask again")
        if not chars:
            raise ChatFailed("the reply is empty", "ask again, or see the model's limits")

    async def close(self) -> None:
        """Free the connections."""
        await self._client.close()

    async def _chunks(self, messages: list[Any]) -> AsyncGenerator[Any]:
        """The chunks of a streamed completion. Raises ChatFailed."""
        url, openai, stream = self._endpoint.url, self._openai, None
        until_s = asyncio.get_running_loop().time() + MAX_REPLY_S
        try:
            async with asyncio.timeout(self._endpoint.silence_s):
                stream = await self._client.chat.completions.create(
                    model=self._endpoint.model, messages=messages, stream=True, extra_headers=self._headers
                )
            kind = stream.response.headers.get("content-type", "").partition(";")[0].lower()
            if kind != "text/event-stream":
                raise ChatFailed(f"{url} sent {kind or 'no type'}, no stream", "see whether it is a chat endpoint")
            chunks = aiter(stream)
            while True:
                async with asyncio.timeout(self._endpoint.silence_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
                if asyncio.get_running_loop().time() > until_s:
                    raise ChatFailed(f"the reply took more than {MAX_REPLY_S:.0f} s", "ask for a shorter one")
        except (TimeoutError, openai.APITimeoutError) as error:
            raise ChatFailed(
                f"{url} sent nothing for {self._endpoint.silence_s:.0f} s", "ask again, or see whether it is overloaded"
            ) from error
        except openai.APIError as error:
            raise self._failure(error) from error
        except (ValueError, RecursionError) as error:  # json's
            raise ChatFailed(f"{url} sent a piece that is no JSON", "see whether it is a chat endpoint") from error
        finally:
            if stream is not None:
                await stream.close()

    async def _bound(self, response: Any) -> None:
        """Bound the events of a response, which the client collects in memory. Raises ChatFailed."""
        url, encoding = self._endpoint.url, response.headers.get("content-encoding", "identity")
        if encoding != "identity":  # a few bytes may be any number when they are unpacked
            raise ChatFailed(f"{url} sends its replies as {encoding:.40}", "switch its compression off")
        response.stream = _bounded(response.stream, url)

    def _failure(self, error: Any) -> ChatFailed:
        """An error of the client in a sentence; the key is in none."""
        url, model, openai = self._endpoint.url, self._endpoint.model, self._openai
        quoted = " ".join(str(getattr(error, "message", error)).split())[:_QUOTED_CHARS]
        if self._key:
            quoted = quoted.replace(self._key, "***")
        match error:
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                do = f"see the key in {self._endpoint.key_env}" if self._endpoint.key_env else "name its variable"
                return ChatFailed(f"{url} refuses the key ({error.status_code})", do)
            case openai.NotFoundError():
                return ChatFailed(
                    f"{url} has no model {model!r}, or is no chat endpoint ({error.status_code}): {quoted}",
                    "see the address and the model's name",
                )
            case openai.APIStatusError():
                do = "ask again later" if error.status_code in (429, 500, 502, 503, 529) else "see the model's settings"
                return ChatFailed(f"{url} answers {error.status_code}: {quoted}", do)
            case openai.APIConnectionError():
                cause = error.__cause__
                why = str(cause or "") or type(cause or error).__name__
                return ChatFailed(f"{url} cannot be used: {why:.{_QUOTED_CHARS}}", "see whether it runs there")
            case _:
                return ChatFailed(f"the reply broke off: {quoted}", "ask again")


def _bounded(stream: Any, url: str) -> Any:
    """A stream of bytes that fails where an event grows too long."""

    class Bounded(type(stream)):  # of httpx or its successor, which the client takes
        def __init__(self) -> None:
            """Nothing but what is below is called."""

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            event_bytes = 0
            async for block in stream:
                end = max(block.rfind(b"\n\n"), block.rfind(b"\n\r\n"))
                event_bytes = event_bytes + len(block) if end < 0 else len(block) - end
                if event_bytes > _MAX_EVENT_BYTES:
                    raise ChatFailed(f"{url} sends a piece without an end", "see whether it is a chat endpoint")
                yield block

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
