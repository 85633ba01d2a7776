"""Names of campaigns, systems and scripts: what they may be made of."""

import re

from studio.core.errors import BadOption
from studio.mos.tables import NAME_PATTERN

_NAME = re.compile(NAME_PATTERN)
LONGEST = 80


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or a page could take for something else."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BadOption(
            f"the name {name[:LONGEST]!r} is not allowed",
            f"begin with a letter or digit; then letters, digits, spaces and ._,:=+?()- ; {LONGEST} characters at most",
        )
