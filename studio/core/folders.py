"""The folders that the studio uses unless it is given others.

They are resolved when they are needed: a container may have no home folder, and most commands need none.
"""

import os
from pathlib import Path

from studio.core.errors import BadOption

_NAME = "streaming-tts-studio"
DEFAULT_DATA = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / _NAME
DEFAULT_TRACES = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / _NAME / "traces"


def expanded(folder: Path, option: str) -> Path:
    """An absolute path, with the home folder in the place of ``~``.

    Raises:
        BadOption: there is no home folder; ``option`` is what the user can give instead.
    """
    if str(folder).startswith("~") and not has_home():
        raise BadOption(f"no home folder is known for {folder}", f"give {option}, or set HOME")
    return folder.expanduser().absolute()


def has_home() -> bool:
    """Whether there is a home folder: HOME is set, or the user is known to the system."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path raises where there is none
    return os.environ.get("HOME") != "" and Path(home).is_absolute()
