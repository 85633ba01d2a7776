"""Errors that tell a user what failed, what is allowed, and what to do next."""


class StudioError(Exception):
    """A mistake or a limit that the user can do something about.

    Args:
        what: what failed, in one clause.
        do: what is allowed, or what to do next; shown after the first part.
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
    """The text cannot be taken as it is (empty, too long for one message)."""

    code = "bad_text"


class Full(BadText):
    """More text waits than is kept; it may be sent again when some of it has been spoken."""


class TooLate(StudioError):
    """What was to be revised has been heard already, or is just being said."""

    code = "too_late"


class BadVoice(StudioError):
    """A voice is missing, or its files do not match its card."""

    code = "bad_voice"


class Busy(StudioError):
    """Every place in the engine is taken, and in its queue; the call may be repeated later."""

    code = "busy"


class Closing(Busy):
    """The engine is about to end: what it speaks is finished, and nothing new begins."""

    code = "closing"


class Stuck(Busy):
    """The engine computes something that does not come back, and speaks for nobody meanwhile."""

    code = "stuck"


class Closed(StudioError):
    """The utterance has ended: nothing more can be sent to it."""

    code = "closed"


class BadMessage(StudioError):
    """A client sent something that the protocol does not know."""

    code = "bad_message"


class BadFile(StudioError):
    """A file is missing, damaged, or not what it should be."""

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
