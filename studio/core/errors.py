"""Errors that tell a user what failed, what is allowed, and what to do next."""


class StudioError(Exception):
    """A mistake or a limit that the user can do something about.

    Args:
        what: what failed, in one clause.
        do: what is allowed, or what to do next.
    """

    code = "error"

    def __init__(self, what: str, do: str = "") -> None:
        self.what = what
        self.do = do
        super().__init__(f"{what}; {do}" if do else what)


class BadOption(StudioError):
    """An option is unknown or outside its range."""

    code = "bad_option"


class BadText(StudioError):
    """The text is unusable, for instance empty or too long for one message."""

    code = "bad_text"


class Full(BadText):
    """Too much text waits to be spoken; it may be sent again later."""


class TooLate(StudioError):
    """The text to be revised was played already, or is being spoken."""

    code = "too_late"


class BadVoice(StudioError):
    """A voice is missing, or its files do not match its card."""

    code = "bad_voice"


class Busy(StudioError):
    """Every slot of the engine is taken and its queue is full; the call may be repeated later."""

    code = "busy"


class Closing(Busy):
    """The engine is shutting down: running utterances are finished, and no new one begins."""

    code = "closing"


class Stuck(Busy):
    """A model step hung; nothing is spoken meanwhile."""

    code = "stuck"


class Closed(StudioError):
    """The utterance has ended and takes no more input."""

    code = "closed"


class BadMessage(StudioError):
    """A client sent a message that violates the protocol."""

    code = "bad_message"


class BadFile(StudioError):
    """A file is missing, damaged, or of another kind."""

    code = "bad_file"


class Unavailable(StudioError):
    """The storage cannot be used at the moment (an I/O error, a lock); the call may be repeated."""

    code = "unavailable"


class NotStored(Unavailable):
    """A change may not have reached the disk; it may be sent again."""

    code = "not_stored"


class NeedsPackage(StudioError):
    """A command needs a package or a program that is not installed."""

    code = "needs_package"
