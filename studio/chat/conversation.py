"""The messages of a conversation for a chat endpoint: limited in size, replies cut to the words that were heard."""

from collections.abc import Sequence
from typing import Literal, TypedDict

MAX_REPLY_CHARS = 20_000  # about twenty minutes of speech
MAX_MESSAGES = 40  # older ones are omitted
MAX_HISTORY_CHARS = 40_000  # of all messages
CUT = "…"  # end of an interrupted reply


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


def heard_message(text: str, heard_chars: int, *, is_cut: bool) -> ChatMessage:
    """A spoken reply up to the last character heard; a cut one ends with an ellipsis."""
    spoken_text = text[:heard_chars].strip()
    return ChatMessage(role="assistant", content=f"{spoken_text} {CUT}".strip() if is_cut else spoken_text)


def recent(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The newest messages within the limits, beginning with a question; always includes the last one."""
    newest: list[ChatMessage] = []
    chars = 0
    for message in reversed(messages):
        chars += len(message["content"])
        if newest and (len(newest) == MAX_MESSAGES or chars > MAX_HISTORY_CHARS):
            break
        newest.insert(0, message)
    while len(newest) > 1 and newest[0]["role"] != "user":
        newest.pop(0)
    return newest
