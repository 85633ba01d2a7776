"""Back up a data folder and its database while a server is running.

The backup includes everything acknowledged before it, by the order of copying:

* uploads, then the database: an upload is deleted once the database has imported it;
* the database, then other files: a clip is on disk before a row refers to it. If clips are deleted in between, the
  database is copied again;
* sounds of the library, then their notes: a sound is on disk before its note.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

import studio
from studio.backup.containers import (
    DATABASE,
    MANIFEST,
    BackupFile,
    BackupManifest,
    Container,
    create_container,
    error_reason,
    is_member_name,
    scratch_folder,
)
from studio.backup.database import counts, named_files, snapshot, sqlite_file, tables_size
from studio.core.durable import is_part
from studio.core.errors import BadFile, NotStored, bad_file
from studio.core.files import read_bounded
from studio.core.folders import SPEAKERS, real_path
from studio.library.annotations import read_journal

_MAX_OUTSIDE_BYTES = 16 << 20  # of settings, systems and lexicon
_MAX_SNAPSHOTS = 3  # of the database, while files are missing to which it refers
# takes/: unfinished utterances of live trials; .staging/: downloads of voices
_EXCLUDED = ("library/index.sqlite", "library/lock", "takes/", "voices/.staging/")

Progress = Callable[[int, int], None]


def create_backup(
    data: Path,
    database: str,
    target: Path,
    outside: Mapping[str, Path] = MappingProxyType({}),
    progress: Progress = lambda done, of: None,
) -> BackupManifest:
    """Back up a data folder into a new folder, or into a file whose name ends in ``.zip``.

    Args:
        database: its address; empty for ``studio.sqlite`` in the data folder, if it exists.
        outside: files outside the data folder, by their name in the backup; they replace those of the data folder.
        progress: called with the number of bytes copied and the approximate total.

    Raises:
        BadFile: the data folder, the database or a file outside cannot be read, or a file has an invalid name.
        BadOption: the target exists, or the database's address is invalid.
        NotStored: writing to disk failed; the incomplete backup is deleted.
    """
    data = data.absolute()
    if not data.is_dir():
        raise BadFile(f"there is no data folder {data}", "give it with --data")
    if real_path(target).is_relative_to(real_path(data)):
        raise BadFile(f"{target} lies in the data folder", "give a place outside of it")
    if not database and (data / DATABASE).is_file():
        database = f"sqlite:///{data / DATABASE}"
    file = sqlite_file(database) if database else None
    try:
        if file is None:
            size_of_database = tables_size(database) if database else 0
        else:
            size_of_database = sum(_size(one) for one in (file, file.with_name(f"{file.name}-wal")))
        size = size_of_database + sum(_size(path) for _, path in _files(data, file))
        _check_room(target, size + size_of_database)  # the snapshot is copied into the backup
        with create_container(target) as container, scratch_folder(target) as temporary:
            backup = _Backup(data, temporary, container, lambda done: progress(done, size))
            return backup.run(database, file, outside)
    except OSError as error:
        raise NotStored(
            f"the backup cannot be made: {error_reason(error)}", "make room, check permissions, or give another place"
        ) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # deleted since it was listed
        return 0


def _check_room(target: Path, needed: int) -> None:
    folder = next(one for one in target.absolute().parents if one.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise NotStored(f"the backup needs up to {needed:,} bytes, and {free:,} are free", "give another place")


def _files(data: Path, database: Path | None) -> Iterator[tuple[str, Path]]:
    """Every file of a data folder that cannot be rebuilt, with its name in the backup; links are followed.

    Raises:
        BadFile: a file has a name that a backup cannot contain.
        OSError: a folder cannot be read.
    """
    databases = {data / DATABASE} if database is None else {data / DATABASE, database.absolute()}
    skipped = {f"{one}{suffix}" for one in databases for suffix in ("", "-wal", "-shm", "-journal")}
    real: dict[Path, str] = {}  # resolved folders by path
    for folder, folders, names in os.walk(data, onerror=_raise_unless_deleted, followlinks=True):
        here = Path(folder)
        real[here] = os.path.realpath(here)
        if real[here] in (real.get(above) for above in here.parents):  # a cycle of links
            folders.clear()
            continue
        folders[:] = sorted((name for name in folders if not is_part(name)), key=lambda name: (name == "notes", name))
        if here == data / SPEAKERS:  # speakers being removed, or stored incompletely
            folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (here / name for name in sorted(names)):
            name = path.relative_to(data).as_posix()
            is_temporary = path.name.startswith(".") or is_part(name)
            if is_temporary or name.startswith(_EXCLUDED) or name == MANIFEST or str(path) in skipped:
                continue
            if not path.is_file():  # deleted since it was listed, or a socket
                continue
            if not is_member_name(name):
                raise BadFile(f"a backup cannot hold the file {name!r}", "rename it: UTF-8, no backslash")
            yield name, path


def _raise_unless_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class _Backup:
    def __init__(self, data: Path, temporary: Path, container: Container, progress: Callable[[int], None]) -> None:
        self._data, self._temporary, self._container, self._progress = data, temporary, container, progress
        self._files: dict[str, BackupFile] = {}
        self._done = 0

    def run(self, database: str, file: Path | None, outside: Mapping[str, Path]) -> BackupManifest:
        """Copy everything, the manifest last."""
        kind, copy, missing, row_counts = "", self._temporary / DATABASE, set[str](), dict[str, int]()
        for name, path in outside.items():
            self._files[name] = self._container.add(name, BytesIO(_outside(path)), self._count)
        self._copy_files(file, "uploads/")
        for _ in range(_MAX_SNAPSHOTS):
            if database:
                copy.unlink(missing_ok=True)
                kind = snapshot(database, copy)
            self._copy_files(file)
            missing = named_files(copy) - self._files.keys() if kind else set()
            if not missing:
                break
        if kind:
            row_counts = counts(copy)
            with copy.open("rb") as source:
                self._files[DATABASE] = self._container.add(DATABASE, source, self._count)
        manifest = BackupManifest(
            studio=studio.__version__,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            database=kind,
            files=self._files,
            counts=row_counts | _file_counts(self._files),
            missing=tuple(sorted(missing)),
        )
        self._container.add(MANIFEST, BytesIO(manifest.to_json()), lambda _: None)
        return manifest

    def _copy_files(self, database: Path | None, below: str = "") -> None:
        for name, path in _files(self._data, database):
            if name in self._files or not name.startswith(below):
                continue
            try:
                changed_s = max(0.0, path.stat().st_mtime)
                if name.startswith("library/annotations/") and name.endswith(".jsonl"):
                    entry = self._container.add(name, BytesIO(read_journal(path)), self._count)
                else:
                    with path.open("rb") as file:
                        entry = self._container.add(name, file, self._count)
                self._files[name] = replace(entry, changed_s=changed_s)
            except FileNotFoundError:  # deleted since it was listed
                continue

    def _count(self, size: int) -> None:
        self._done += size
        self._progress(self._done)


def _outside(file: Path) -> bytes:
    with bad_file(f"{file} cannot be read", "give the file that the server uses"):
        return read_bounded(file, _MAX_OUTSIDE_BYTES)


def _file_counts(files: dict[str, BackupFile]) -> dict[str, int]:
    patterns = {
        "clips": ("clips/", ".wav"),
        "utterances": ("library/sounds/", ""),
        "journals": ("library/annotations/", ".jsonl"),
    }
    return {
        kind: sum(name.startswith(start) and name.endswith(end) for name in files)
        for kind, (start, end) in patterns.items()
    }
