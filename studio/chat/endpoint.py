"""A chat endpoint with OpenAI's protocol: its address, and its replies piece by piece as they arrive."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from studio.chat.chunks import (
    ChatFailed,
    bounded,
    choice_of,
    reported_error,
    retry_after,
    text_of,
    tool_of,
    whole_completion,
)
from studio.chat.conversation import MAX_REPLY_CHARS, ChatMessage
from studio.core.addresses import is_loopback
from studio.core.errors import BadOption, needs

MAX_REPLY_S = 600.0
SILENCE_S = 60.0  # without data, until an endpoint counts as failed
_CONNECT_S = 10.0
_REST_S = 0.5  # for the data after the finish reason, such as the usage, which is not needed
_QUOTED_CHARS = 200  # of an endpoint's own error message
_FILTERED = ("content_filter", "sensitive")  # finish reasons
_BROKEN = ("error", "abort", "network_error", "insufficient_system_resource")
SYSTEM_PROMPT = (
    "Your replies are spoken aloud, in English. Answer in a few short sentences of plain text. "
    "A reply of yours that ends with an ellipsis was interrupted there: nothing after it was heard."
)


@dataclass(frozen=True)
class ChatEndpoint:
    """Address and settings of a language model.

    Attributes:
        url: the address before ``/chat/completions``, such as ``http://127.0.0.1:11434/v1``.
        model: the model's name there.
        key_env: the environment variable with the key; empty for none.
        system_prompt: the first message of every conversation; empty for none.
        silence_s: time without data until the endpoint counts as failed.

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
        """The key; empty without ``key_env``. Raises BadOption if that variable is not set."""
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if self.key_env and not key:
            raise BadOption(f"the environment variable {self.key_env} is not set", "set it to the model's key")
        return key


class ChatClient:
    """Streams replies of one endpoint; to be used on one event loop.

    Raises NeedsPackage; BadOption if the key's variable is not set.
    """

    def __init__(self, endpoint: ChatEndpoint) -> None:
        with needs("talking to a language model needs the package openai", "chat"):
            import openai
        self._openai, self._endpoint, self._key = openai, endpoint, endpoint.key()
        url = endpoint.url.rstrip("/").removesuffix("/chat/completions")
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=self._key or "none",  # None would mean that of the environment
            admin_api_key="",  # likewise
            max_retries=0,
            timeout=openai.Timeout(endpoint.silence_s, connect=min(_CONNECT_S, endpoint.silence_s)),
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # the key is only for the configured address
                trust_env=not is_loopback(urlsplit(url).hostname or ""),  # without the environment's proxy
                event_hooks={"response": [self._bound]},
            ),
        )
        self._client.organization = self._client.project = None  # likewise
        self._headers = {"Accept-Encoding": "identity"} | ({} if self._key else {"Authorization": openai.Omit()})

    async def reply(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str]:
        """Pieces of the model's reply as they arrive. Raises ChatFailed; ``aclose`` ends the request at once."""
        prompt = self._endpoint.system_prompt
        sent: list[Any] = [*([{"role": "system", "content": prompt}] if prompt else []), *messages]
        refusal, chars, finish, tool = "", 0, "", ""
        async with aclosing(self._chunks(sent)) as chunks:
            async for chunk in chunks:
                choice = choice_of(chunk)
                delta = getattr(choice, "delta", None)
                finish = text_of(getattr(choice, "finish_reason", None)) or finish
                tool = tool or tool_of(delta)
                refusal += text_of(getattr(delta, "refusal", None))
                if piece := text_of(getattr(delta, "content", None)):
                    chars += len(piece)
                    yield piece[: len(piece) - max(0, chars - MAX_REPLY_CHARS)]
                if chars > MAX_REPLY_CHARS or len(refusal) > MAX_REPLY_CHARS:
                    raise ChatFailed(
                        f"the reply has more than {MAX_REPLY_CHARS:,} characters, and the rest is left out",
                        "ask for a shorter one",
                    )
        if refusal or finish in _FILTERED:
            why = f": {refusal:.{_QUOTED_CHARS}}" if refusal else ""
            raise ChatFailed(f"the model refuses to answer{why}", "ask something else")
        if finish in ("tool_calls", "function_call") or (tool and not chars):
            name = f" {tool!r:.80}" if tool else ""
            raise ChatFailed(
                f"the model calls a tool{name} and waits for its answer", "let the server offer it no tools"
            )
        if finish == "length":
            raise ChatFailed(
                "the model reached its limit of tokens, and the reply ends there",
                "raise the limit at the server, or ask for a shorter reply",
            )
        if finish in _BROKEN:
            raise ChatFailed(f"the reply broke off: the model ended with {finish!r}", "ask again")
        if not chars:
            raise ChatFailed("the reply is empty", "ask again, or see the model's limits")

    async def close(self) -> None:
        """Free the connections."""
        await self._client.close()

    async def _chunks(self, messages: list[Any]) -> AsyncGenerator[Any]:
        """The chunks of a completion, to its end.

        Either ``[DONE]`` or a finish reason ends it, since some servers send only one of them. A server's keep-alive
        comments do not count as silence.

        Raises ChatFailed.
        """
        url, openai, stream = self._endpoint.url, self._openai, None
        until_s = asyncio.get_running_loop().time() + MAX_REPLY_S
        is_finished = has_begun = False
        try:
            async with asyncio.timeout(self._endpoint.silence_s):
                stream = await self._client.chat.completions.create(
                    model=self._endpoint.model, messages=messages, stream=True, extra_headers=self._headers
                )
            kind = stream.response.headers.get("content-type", "").partition(";")[0].lower()
            if kind == "application/json":  # the server does not stream
                async with asyncio.timeout_at(until_s):
                    completion = whole_completion(await stream.response.aread())
                self._check_error(completion, stream)
                if choice_of(completion) is None:
                    raise ChatFailed(f"{url} sent JSON without a reply", "see whether it is a chat endpoint")
                yield completion
                return
            if kind != "text/event-stream":
                raise ChatFailed(f"{url} sent {kind or 'no type'}, no stream", "see whether it is a chat endpoint")
            chunks = aiter(stream)
            while True:
                now_s = asyncio.get_running_loop().time()
                async with asyncio.timeout_at(now_s + _REST_S if is_finished else until_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                self._check_error(chunk, stream)
                has_begun, is_finished = True, is_finished or bool(getattr(choice_of(chunk), "finish_reason", None))
                yield chunk
            body: Any = stream.response.stream  # of bounded()
            if not is_finished and not body.is_done:
                raise ChatFailed("the reply broke off: the endpoint closed the connection", "ask again")
        except (TimeoutError, openai.APIError) as error:
            if is_finished and not isinstance(error, openai.APIStatusError):  # the lost data is not needed
                return
            if isinstance(error, openai.APITimeoutError) or (isinstance(error, TimeoutError) and stream is None):
                raise ChatFailed(
                    f"{url} sent nothing for {self._endpoint.silence_s:.0f} s",
                    "ask again, or see whether it is overloaded",
                ) from error
            if isinstance(error, TimeoutError):
                raise ChatFailed(f"the reply took more than {MAX_REPLY_S:.0f} s", "ask for a shorter one") from error
            raise self._failure(error, has_begun=has_begun) from error
        except (ValueError, RecursionError) as error:  # json's
            raise ChatFailed(f"{url} sent a piece that is no JSON", "see whether it is a chat endpoint") from error
        finally:
            if stream is not None:
                await stream.close()

    async def _bound(self, response: Any) -> None:
        """Limit the size of a response's events, which the client buffers. Raises ChatFailed."""
        url, encoding = self._endpoint.url, response.headers.get("content-encoding", "identity")
        if encoding != "identity":  # a few bytes could expand to any number
            raise ChatFailed(f"{url} sends its replies as {encoding:.40}", "switch its compression off")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = bounded(response.stream, url, has_events=is_stream)

    def _check_error(self, chunk: Any, stream: Any) -> None:
        """Raises APIError for a server's error that the client takes for a chunk."""
        if (said := reported_error(chunk)) is not None:
            raise self._openai.APIError(said or "the endpoint reports an error", stream.response.request, body=None)

    def _quoted(self, said: str) -> str:
        """An endpoint's message, without the key."""
        quoted = " ".join(said.split())
        return (quoted.replace(self._key, "***") if self._key else quoted)[:_QUOTED_CHARS]

    def _failure(self, error: Any, *, has_begun: bool = False) -> ChatFailed:
        """An error of the client as a message without the key. ``has_begun``: whether the reply has begun."""
        url, model, openai = self._endpoint.url, self._endpoint.model, self._openai
        body = getattr(error, "body", None)
        said = body.get("message") if isinstance(body, dict) else body
        quoted = self._quoted(text_of(said) or str(getattr(error, "message", error)))
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
                later = f"ask again {retry_after(error.response.headers.get('retry-after', ''))}"
                do = later if error.status_code in (429, 500, 502, 503, 529) else "see the model's settings"
                return ChatFailed(f"{url} answers {error.status_code}: {quoted}", do)
            case openai.APIConnectionError():
                cause = error.__cause__
                why = str(cause or "") or type(cause or error).__name__
                if has_begun:
                    return ChatFailed(f"the reply broke off: {why:.{_QUOTED_CHARS}}", "ask again")
                return ChatFailed(f"{url} cannot be used: {why:.{_QUOTED_CHARS}}", "see whether it runs there")
            case _:
                return ChatFailed(f"the reply broke off: {quoted}", "ask again")
