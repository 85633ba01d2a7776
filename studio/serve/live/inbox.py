"""Messages that a client has sent and nobody has obeyed yet, bounded by number and by characters."""

from collections import deque

from studio.serve.live import protocol as wire

MESSAGES = 64
CHARS = wire.MAX_MESSAGE_CHARS  # of text; one message more may come on top


class Inbox:
    """Messages in order. Whoever fills it looks at ``is_full`` first, and waits, so that the client's socket fills up
    instead of the server's memory."""

    def __init__(self) -> None:
        self._messages: deque[wire.Message] = deque()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether no further message should be put."""
        return len(self._messages) >= MESSAGES or self._chars > CHARS

    def put(self, message: wire.Message) -> None:
        """Add one behind the others."""
        self._messages.append(message)
        self._chars += _chars(message)

    def take(self) -> wire.Message:
        """The first one, which is no longer here."""
        message = self._messages.popleft()
        self._chars -= _chars(message)
        return message

    def clear(self) -> None:
        """Forget all."""
        self._messages.clear()
        self._chars = 0


def _chars(message: wire.Message) -> int:
    match message:
        case wire.TextIn(text=text) | wire.Revise(text=text) | wire.Edit(insert=text):
            return len(text)
        case _:
            return 0
