"""The folders that the studio uses unless it is given others.

They are resolved when a command needs them: a container may have no home folder, and most commands need none.
"""

import os
from pathlib import Path

from studio.core.errors import BadOption

_NAME = "streaming-tts-studio"


def _xdg(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")  # the XDG specification ignores a relative path
    return Path(given if given.startswith("~") or Path(given).is_absolute() else default) / _NAME


DEFAULT_DATA = _xdg("XDG_DATA_HOME", "~/.local/share")
DEFAULT_CACHE = _xdg("XDG_CACHE_HOME", "~/.cache")
DEFAULT_TRACES = DEFAULT_CACHE / "traces"


def data_folder(given: str | Path) -> Path:
    """The absolute path of a ``--data`` option. Raises BadOption where it is empty or needs an unknown home folder."""
    if given == "":
        raise BadOption("--data is empty", "give --data FOLDER, or leave the option out")
    return expanded(Path(given), "give --data FOLDER, or set HOME or XDG_DATA_HOME")


def is_default_data(folder: Path) -> bool:
    """Whether an absolute path is the default data folder."""
    try:
        return folder == data_folder(DEFAULT_DATA)
    except BadOption:
        return False


def expanded(folder: Path, do: str) -> Path:
    """An absolute path, with the home folder in the place of ``~``.

    Raises:
        BadOption: there is no home folder; ``do`` tells the user what to give instead.
    """
    if str(folder).startswith("~"):
        home = os.environ.get("HOME")  # expanduser would take a relative one, and "/" in the place of an empty one
        try:
            if home is not None and not Path(home).is_absolute():
                raise RuntimeError(f"HOME is {home!r}")
            folder = folder.expanduser()
        except RuntimeError as error:  # also where the system does not know the user
            raise BadOption(f"no home folder is known for {folder}", do) from error
    return folder.absolute()
