"""Restore a backup into a data folder, which gets its name after every file has been checked."""

import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from studio.backup.containers import (
    DATABASE,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    BackupFile,
    BackupManifest,
    Container,
    check_no_mount,
    copy_hashed,
    error_reason,
    open_container,
    parse_manifest,
    publish_folder,
    write_file,
)
from studio.backup.database import check, counts, load_rows, sqlite_file
from studio.core import durable
from studio.core.errors import BadFile, BadOption, NotStored, bad_file
from studio.core.folders import real_path
from studio.library.library import Library
from studio.mos.store.database import Store

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RestoreResult:
    """Counts of restored items; ``problems`` are messages about unreadable utterances and journals."""

    manifest: BackupManifest
    counts: dict[str, int]
    problems: tuple[str, ...] = ()


def check_backup(source: Path, progress: Progress = lambda done, of: None) -> BackupManifest:
    """Compare a whole backup with its manifest; only a temporary copy of its database is written.

    Raises:
        BadFile: it is damaged, incomplete, or not a backup.
    """
    with open_container(source) as container:
        manifest = _manifest(container)
        done = _Counter(progress, manifest.size)
        for name in manifest.files:
            if name != DATABASE:
                _verified(container, manifest, name, lambda file: copy_hashed(file, None, done))
        if DATABASE in manifest.files:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / DATABASE
                _verified(container, manifest, DATABASE, lambda file: write_file(copy, file, done))
                check(copy)
        return manifest


def restore_backup(
    source: Path, data: Path, database: str = "", progress: Progress = lambda done, of: None
) -> RestoreResult:
    """Restore a backup into a data folder.

    Args:
        data: a new or empty folder.
        database: an empty database for the listening tests; ``studio.sqlite`` in the data folder by default.

    Raises:
        BadFile: the backup is damaged, incomplete, or not a backup; nothing was restored.
        BadOption: the data folder or the database is not empty.
        NotStored: writing to disk failed.
    """
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise BadOption(f"{data} is not empty", "give another --data, or move it away first")
    check_no_mount(data)
    file = sqlite_file(database) if database else None
    if file is not None and real_path(file) == real_path(data) / DATABASE:
        database = ""
    elif file is not None and real_path(file).is_relative_to(real_path(data)):
        raise BadOption(f"the database {file} lies in the new data folder", "leave out --database")
    part = durable.part_of(data)
    try:
        durable.make_folder(data.absolute().parent)
        with open_container(source) as container:
            manifest = _manifest(container)
            _check_room(part, manifest.size)
            part.mkdir(mode=0o700)
            done = _Counter(progress, manifest.size)
            for name in manifest.files:
                path = part / name
                _verified(container, manifest, name, lambda file, path=path: write_file(path, file, done))
                if changed_s := manifest.files[name].changed_s:  # such as the date of a sound without a note
                    os.utime(path, (changed_s, changed_s))
        totals, problems = dict(manifest.counts), list[str]()
        if (part / DATABASE).exists():
            check(part / DATABASE)
            Store(f"sqlite:///{part / DATABASE}").close()  # migrates the schema
            totals |= counts(part / DATABASE)
        if (part / "library").is_dir():
            with closing(Library(part / "library")) as library:
                totals["utterances"], problems = library.rebuild()
        if database and (part / DATABASE).exists():
            load_rows(part / DATABASE, database)
            (part / DATABASE).unlink()
        publish_folder(part, data)
        return RestoreResult(manifest, totals, tuple(one.replace(str(part), str(data)) for one in problems))
    except OSError as error:
        raise NotStored(
            f"the backup cannot be restored: {error_reason(error)}", "make room, or give another --data"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


class _Counter:
    def __init__(self, progress: Progress, of: int) -> None:
        self._progress, self._of, self._done = progress, of, 0

    def __call__(self, size: int) -> None:
        self._done += size
        self._progress(self._done, self._of)


def _manifest(container: Container) -> BackupManifest:
    names = container.names()
    if MANIFEST not in names:
        raise BadFile(
            f"there is no {MANIFEST} in it: this is not a complete backup", "give one that `studio backup` made"
        )
    with _open(container, MANIFEST) as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise BadFile(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES:,} bytes", "take another backup")
    manifest = parse_manifest(data)
    if absent := sorted(manifest.files.keys() - names):
        raise BadFile(
            f"{len(absent)} files are missing from the backup, the first is {absent[0]}", "take another backup"
        )
    return manifest


def _open(container: Container, name: str) -> BinaryIO:
    with bad_file(
        f"{name} in the backup cannot be read",
        "take another backup",
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        KeyError,
    ):
        return container.open(name)


def _verified(container: Container, manifest: BackupManifest, name: str, work: Callable[..., BackupFile]) -> None:
    """Read a file and compare it with the manifest. Raises BadFile."""
    try:
        with _open(container, name) as file:
            entry = work(_Bounded(file, manifest.files[name].size))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadFile(f"{name} in the backup is damaged: {error}", "take another backup") from error
    if entry != manifest.files[name]:
        raise BadFile(f"{name} in the backup is not what was saved", "take another backup")


class _Bounded:
    """A file of which at most one byte beyond its expected size is read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size + 1

    def read(self, size: int) -> bytes:
        chunk = self._file.read(min(size, self._left))
        self._left -= len(chunk)
        return chunk


def _check_room(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.absolute().parent).free
    if needed > free:
        raise NotStored(f"the backup holds {needed:,} bytes, and {free:,} are free", "give another --data")
