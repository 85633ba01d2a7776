"""Names of campaigns, systems and scripts: what they may be made of."""

import re

from studio.core.errors import BadOption

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,:=+?()\-]*")
LONGEST = 80


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or a page could take for something else."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BadOption(
            f"the name {name[:LONGEST]!r} is not allowed",
            f"begin with a letter or digit; then letters, digits, spaces and ._,:=+?()- ; {LONGEST} characters at most",
        )
