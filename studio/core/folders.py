"""Folders: the shipped assets (voices, texts, demo), and the defaults for data and caches.

A checkout holds assets/ at its top level, an installed package within itself (``setup.py`` copies it there).
Home folders are resolved when a command needs them: a container may have none, and most commands need none.
"""

import os
import re
from pathlib import Path

from studio.core.errors import BadOption

_PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = next((p for p in (_PACKAGE / "assets", _PACKAGE.parent / "assets") if p.is_dir()), _PACKAGE / "assets")
TEXTS = ASSETS / "texts"
VOICES = ASSETS / "voices"
RECIPES = ASSETS / "recipes"
TABLES = ASSETS / "tables"  # definitions of the papers' tables
DEMO = ASSETS / "demo"
SAMPLE = ASSETS / "samples" / "typed.trace"  # of the Inspect page
TRAPS = ASSETS / "traps"
DEFAULT_VOICE = "wren"  # listed first in a folder that has it
PULLED_VARIABLE = "STUDIO_PULLED_VOICES"
DATA_VARIABLE = "STUDIO_DATA_FOLDER"  # data folder of commands without --data
SPEAKERS, SPEAKERS_VARIABLE = "speakers", "STUDIO_SPEAKERS"  # of the data folder: added speakers


def _xdg(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")  # the XDG specification ignores a relative path
    return Path(value if value.startswith("~") or Path(value).is_absolute() else default) / "streaming-tts-studio"


_PATH = re.compile(r"(?<![\w./:~])(?:/[^\s/:;,'\"()\[\]<>]+){2,}/?")
DEFAULT_DATA = _xdg("XDG_DATA_HOME", "~/.local/share")
DEFAULT_CACHE = _xdg("XDG_CACHE_HOME", "~/.cache")
DEFAULT_TRACES = DEFAULT_CACHE / "traces"


def data_folder(path: str | Path) -> Path:
    """The absolute path of a ``--data`` option. Raises BadOption: it is empty or needs an unknown home folder."""
    if path == "":
        raise BadOption("--data is empty", "give --data FOLDER, or leave the option out")
    return expand_folder(Path(path), "give --data FOLDER, or set HOME or XDG_DATA_HOME")


def pulled_voices_folder() -> Path:
    """The folder of voices from the hub: STUDIO_PULLED_VOICES, or voices/ in the default data folder.

    Raises BadOption: there is no home folder.
    """
    path = Path(os.environ.get(PULLED_VARIABLE) or DEFAULT_DATA / "voices")
    return expand_folder(path, f"set {PULLED_VARIABLE} to a folder, or set HOME or XDG_DATA_HOME")


def speakers_folder(data: Path | None = None) -> Path | None:
    """The folder of added speakers: STUDIO_SPEAKERS, or speakers/ in the data folder; None without a home folder.

    ``data``: by default STUDIO_DATA_FOLDER or the default one.
    """
    try:
        data = data or Path(os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
        path = Path(os.environ.get(SPEAKERS_VARIABLE) or data / SPEAKERS)
        return expand_folder(path, f"set {SPEAKERS_VARIABLE} to a folder, or set HOME or XDG_DATA_HOME")
    except BadOption:
        return None


def is_default_data(folder: Path) -> bool:
    """Whether an absolute path is the default data folder."""
    try:
        return folder == data_folder(DEFAULT_DATA)
    except BadOption:
        return False


def expand_folder(folder: Path, do: str) -> Path:
    """An absolute path, with the home folder in the place of ``~``.

    Raises:
        BadOption: there is no home folder; ``do`` says what the user can do instead.
    """
    if str(folder).startswith("~"):
        home = os.environ.get("HOME")  # expanduser would accept a relative one, and take "/" for an empty one
        try:
            if home is not None and not Path(home).is_absolute():
                raise RuntimeError(f"HOME is {home!r}")
            folder = folder.expanduser()
        except RuntimeError as error:  # also if the system does not know the user
            raise BadOption(f"no home folder is known for {folder}", do) from error
    return folder.absolute()


def real_path(path: Path) -> Path:
    """The path without links. Links in a cycle stay, where ``Path.resolve`` raises RuntimeError until Python 3.12."""
    return Path(os.path.realpath(path))


def without_folders(message: str) -> str:
    """A message for other machines, in which paths of this machine are reduced to file names."""
    return _PATH.sub(lambda match: _file_name(match[0]), message)


def _file_name(path: str) -> str:
    try:
        is_here = Path(
            f"/{path.split('/')[1]}"
        ).is_dir()  # the path of a URL does not begin with a folder of this machine
    except OSError:  # too long for a name, in a message that quotes a client
        is_here = False
    return Path(path).name if is_here else path
