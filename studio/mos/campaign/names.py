"""Validation of names, tags and expected scores."""

import re

from studio.core.errors import BadOption

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,:=+?()\-]*")
_EACH = re.compile(r"(\w{1,40}=-?\d{1,4})(;\w{1,40}=-?\d{1,4})*", re.ASCII)
LONGEST = 80
MAX_TAGS = 20  # of one script


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or page could interpret as code."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BadOption(
            f"the name {name[:LONGEST]!r} is not allowed",
            f"begin with a letter or digit; then letters, digits, spaces and ._,:=+?()- ; {LONGEST} characters at most",
        )


def read_tags(text: str) -> tuple[str, ...]:
    """Tags of a script from a semicolon-separated list; sorted and unique. Raises BadOption if invalid or over 20."""
    tags = tuple(sorted({tag.strip() for tag in text.split(";")} - {""}))
    for tag in tags:
        check_name(tag)
    if len(tags) > MAX_TAGS:
        raise BadOption(f"a script has {len(tags)} tags", f"{MAX_TAGS} are allowed")
    return tags


def expected_scores(text: str) -> dict[str, int]:
    """Expected scores by question, parsed from ``SIG=4;BAK=1``; empty for any other text."""
    if not _EACH.fullmatch(text):
        return {}
    return {question: int(score) for question, score in (one.split("=") for one in text.split(";"))}
