"""A backup of everything that the studio was given to keep, taken beside a running server.

The database is copied first, then the files: a clip is on disk before a row names it. Files that were deleted between
the two are found by a second look at the database.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import studio
from studio.backup.containers import DATABASE, MANIFEST, SETTINGS, Manifest, Member, Writer, writing
from studio.backup.database import counts, named_files, snapshot
from studio.core.durable import PART
from studio.core.errors import BadFile, NotStored
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.library.annotations import read_journal

_LOOKS = 3  # at the database, where files that it names are missing
_MADE_ANEW = ("index.sqlite", "lock")  # of the library
_RUNNING = "takes"  # traces of what raters type just now

Progress = Callable[[int, int], None]


def create_backup(
    data: Path, database: str, target: Path, settings: Path | None = None, progress: Progress = lambda done, of: None
) -> Manifest:
    """Back a data folder up into a new folder, or into a file whose name ends in ``.zip``.

    Args:
        database: its address; ``studio.sqlite`` in the data folder, if there is one, where this is empty.
        settings: the server's settings file.
        progress: called with the bytes that were copied, and about how many there are.

    Raises:
        BadFile: the data folder, the database or the settings cannot be read.
        BadOption: there is something of the target's name.
        NotStored: the disk refused it; nothing is left of the backup.
    """
    if not data.is_dir():
        raise BadFile(f"there is no data folder {data}", "give it with --data")
    if target.absolute().is_relative_to(data.absolute()):
        raise BadFile(f"{target} lies in the data folder", "give a place outside of it")
    if not database and (data / DATABASE).is_file():
        database = f"sqlite:///{data / DATABASE}"
    try:
        needed = sum(path.stat().st_size for _, path in _files(data))
        _check_room(target, needed)
        with writing(target) as writer, tempfile.TemporaryDirectory(dir=target.absolute().parent) as beside:
            return _Backup(data, Path(beside), writer, lambda done: progress(done, needed)).run(database, settings)
    except OSError as error:
        raise NotStored(
            f"the backup cannot be made: {error.strerror or error}", "make room, or give another place"
        ) from error


def _check_room(target: Path, needed: int) -> None:
    folder = next(one for one in target.absolute().parents if one.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise NotStored(f"the backup needs up to {needed:,} bytes, and {free:,} are free", "give another place")


def _files(data: Path) -> Iterator[tuple[str, Path]]:
    """Every file of a data folder that cannot be made anew, with its name in the backup."""
    for folder, folders, names in os.walk(data):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not (here == data and name == _RUNNING))
        for name in sorted(names):
            path = here / name
            is_made_anew = here == data / "library" and name.startswith(_MADE_ANEW)
            is_database = here == data and name.startswith(DATABASE)
            if is_made_anew or is_database or name.startswith(".") or name.endswith(PART) or path.is_symlink():
                continue
            yield path.relative_to(data).as_posix(), path


class _Backup:
    def __init__(self, data: Path, beside: Path, writer: Writer, progress: Callable[[int], None]) -> None:
        self._data, self._beside, self._writer, self._progress = data, beside, writer, progress
        self._files: dict[str, Member] = {}
        self._done = 0

    def run(self, database: str, settings: Path | None) -> Manifest:
        """Copy everything, the manifest last."""
        kind, copy, missing, found = "", self._beside / DATABASE, set[str](), dict[str, int]()
        for look in range(_LOOKS):
            if database:
                copy = self._beside / f"{look}.sqlite"
                kind = snapshot(database, copy)
            self._copy_files()
            missing = named_files(copy) - self._files.keys() if kind else set()
            if not missing:
                break
        if kind:
            found = counts(copy)
            with copy.open("rb") as file:
                self._files[DATABASE] = self._writer.add(DATABASE, file, self._count)
        if settings is not None:
            content = _settings(settings)
            self._files[SETTINGS] = self._writer.add(SETTINGS, BytesIO(content), self._count)
        made = Manifest(
            studio=studio.__version__,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            database=kind,
            files=self._files,
            counts=found | _kinds(self._files),
            missing=tuple(sorted(missing)),
        )
        self._writer.add(MANIFEST, BytesIO(made.to_json()), lambda _: None)
        return made

    def _copy_files(self) -> None:
        for name, path in _files(self._data):
            if name in self._files:
                continue
            try:
                if name.startswith("library/annotations/") and name.endswith(".jsonl"):
                    self._files[name] = self._writer.add(name, BytesIO(read_journal(path)), self._count)
                else:
                    with path.open("rb") as file:
                        self._files[name] = self._writer.add(name, file, self._count)
            except FileNotFoundError:  # deleted since it was listed
                continue

    def _count(self, size: int) -> None:
        self._done += size
        self._progress(self._done)


def _settings(file: Path) -> bytes:
    try:
        return read_bounded(file, MAX_SETTINGS_BYTES)
    except OSError as error:
        raise BadFile(f"the settings {file} cannot be read: {error.strerror}", "give the server's TOML file") from error


def _kinds(files: dict[str, Member]) -> dict[str, int]:
    starts = {"clips": "clips/", "utterances": "library/sounds/", "journals": "library/annotations/"}
    return {kind: sum(name.startswith(start) for name in files) for kind, start in starts.items()}
