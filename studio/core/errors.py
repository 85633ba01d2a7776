"""Errors that state what failed, what is allowed, and what to do next."""

import errno
from collections.abc import Generator
from contextlib import contextmanager


class StudioError(Exception):
    """A mistake or a limit that the user can do something about.

    Args:
        what: what failed, in one clause.
        do: what is allowed, or what to do next.
    """

    code = "error"

    def __init_subclass__(cls, code: str = "") -> None:
        super().__init_subclass__()
        cls.code = code or cls.code

    def __init__(self, what: str, do: str = "") -> None:
        self.what = what
        self.do = do
        super().__init__(f"{what}; {do}" if do else what)


class BadOption(StudioError, code="bad_option"):
    """An option is unknown or outside its range."""


class BadText(StudioError, code="bad_text"):
    """The text is unusable, for instance empty or too long for one message."""


class Full(BadText):
    """Too much text waits to be spoken; it may be sent again later."""


class TooLate(StudioError, code="too_late"):
    """The text to be revised was played already, or is being spoken."""


class NoMemory(StudioError, code="no_memory"):
    """A voice with this many slots does not fit in a GPU's memory."""


class BadVoice(StudioError, code="bad_voice"):
    """A voice is missing, or its files do not match its card."""


class Busy(StudioError, code="busy"):
    """Every slot of the engine is taken and its queue is full; the call may be repeated later."""


class Closing(Busy, code="closing"):
    """The engine is shutting down: running utterances are finished, and no new one begins."""


class Stuck(Busy, code="stuck"):
    """A model step hung; until it returns, nothing is spoken."""


class Closed(StudioError, code="closed"):
    """The utterance has ended and takes no more input."""


class BadMessage(StudioError, code="bad_message"):
    """A client sent a message that violates the protocol."""


class BadFile(StudioError, code="bad_file"):
    """A file is missing, damaged, or of another kind."""


class Unavailable(StudioError, code="unavailable"):
    """The storage cannot be used at the moment (an I/O error, a lock); the call may be repeated."""


class NotStored(Unavailable, code="not_stored"):
    """A change may not have reached the disk; it may be sent again."""


class NeedsPackage(StudioError, code="needs_package"):
    """A command needs a package or a program that is not installed."""


@contextmanager
def needs(what: str, group: str = "", do: str = "") -> Generator[None]:
    """Raise NeedsPackage if an import in the block fails; the extra ``group`` of this package installs it."""
    try:
        yield
    except ImportError as error:
        raise NeedsPackage(what, do or f"pip install 'streaming-tts-studio[{group}]'") from error


@contextmanager
def bad_file(what: str, do: str, *kinds: type[Exception]) -> Generator[None]:
    """Raise BadFile if the block raises one of ``kinds``, and the error of ``unreadable`` for OSError."""
    try:
        yield
    except OSError as error:
        raise unreadable(error, what, do) from error
    except kinds as error:
        raise BadFile(f"{what}: {error!s:.200}", do) from error


@contextmanager
def not_stored(what: str, do: str) -> Generator[None]:
    """Raise NotStored if the block raises OSError."""
    try:
        yield
    except OSError as error:
        raise NotStored(f"{what}: {error.strerror}", do) from error


# Errors of the storage or of permissions; the file itself may be intact.
_OF_STORAGE = frozenset({
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE,
    errno.ETIMEDOUT, errno.EBUSY, errno.EAGAIN, errno.EACCES, errno.EPERM, errno.ENODEV, errno.ENXIO,
})  # fmt: skip


def unreadable(error: OSError, what: str, do: str) -> StudioError:
    """BadFile for a file that is missing or of a wrong kind, Unavailable if the storage fails."""
    kind = Unavailable if error.errno in _OF_STORAGE else BadFile
    return kind(f"{what}: {error.strerror or error!s:.200}", do)
