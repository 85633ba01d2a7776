"""What was said, as a chat endpoint receives it: bounded, and cut to what the listener heard."""

from collections.abc import Sequence
from typing import Literal, TypedDict

MAX_REPLY_CHARS = 20_000  # about twenty minutes of speech
MAX_MESSAGES = 40  # the oldest are left out
MAX_HISTORY_CHARS = 40_000  # of all messages
CUT = "…"  # ends a reply that was interrupted


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


def heard_message(text: str, heard_chars: int, *, is_cut: bool) -> ChatMessage:
    """A spoken reply of which the first characters were heard; one that is cut ends with an ellipsis."""
    spoken_text = text[:heard_chars].strip()
    return ChatMessage(role="assistant", content=f"{spoken_text} {CUT}".strip() if is_cut else spoken_text)


def recent(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The newest messages within the limits, from a question on; the last message is always one of them."""
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
