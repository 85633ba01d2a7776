"""English plurals of counted nouns."""


def plural(count: object, noun: str) -> str:
    """The form of a regular noun after a count: ``rater`` after 1, else ``raters``."""
    return noun if count == 1 else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """``1 rater``, ``1,200 raters``."""
    return f"{count:,} {plural(count, noun)}"
