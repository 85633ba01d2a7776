"""Backups as a folder or as a ZIP file: written under another name first, and read without leaving their folder."""

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from studio.core import durable
from studio.core.errors import BadFile, BadOption

FORMAT, SCHEMA = "studio-backup", 1
MANIFEST = "backup.json"
DATABASE = "studio.sqlite"
SETTINGS = "settings.toml"
MAX_MANIFEST_BYTES = 256_000_000
_CHUNK = 1 << 20
_STORED = (".wav", ".flac", ".trace")  # compressed already, or hardly compressible
_OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Member:
    """A file of a backup: its size in bytes and the SHA-256 of its content."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a backup holds.

    Attributes:
        created_at: UTC, ISO 8601.
        database: the kind of database that ``studio.sqlite`` was copied from; empty where there was none.
        counts: campaigns, answers, clips, utterances and journals.
        missing: clips and traces that the database names and that are not in the data folder.
    """

    studio: str
    created_at: str
    database: str
    files: Mapping[str, Member]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    missing: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(one.size for one in self.files.values())

    def to_json(self) -> bytes:
        """As ``backup.json`` holds it."""
        return json.dumps({"format": FORMAT, "schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False).encode()


def is_member_name(name: str) -> bool:
    """Whether a file may have this name in a backup: a relative path with "/" that stays in its folder, as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    is_inside = not {"", ".", ".."} & set(name.split("/"))
    is_plain = not set(name) & ({"\0", "\\", ":"} if os.name == "nt" else {"\0", "\\"})
    return is_inside and is_plain and name != MANIFEST


def manifest_of(data: bytes) -> Manifest:
    """A manifest as ``backup.json`` holds it. Raises BadFile."""
    try:
        found: dict[str, Any] = json.loads(data)
        if found["format"] != FORMAT or found["schema"] != SCHEMA:
            raise ValueError(f"it is of {found['format']} {found['schema']}; this studio reads {FORMAT} {SCHEMA}")
        files = {name: Member(int(one["size"]), str(one["sha256"])) for name, one in found["files"].items()}
        for name in files:
            if not is_member_name(name):
                raise ValueError(f"{name[:80]!r} is not the name of a file in a backup")
            if files[name].size < 0 or not _SHA256.fullmatch(files[name].sha256):
                raise ValueError(f"{name[:80]!r} has no valid size and SHA-256")
        datetime.fromisoformat(found["created_at"])
        counts = {str(name): int(count) for name, count in found["counts"].items()}
        missing = tuple(str(one) for one in found["missing"])
        return Manifest(str(found["studio"]), found["created_at"], str(found["database"]), files, counts, missing)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"the manifest {MANIFEST} is damaged: {error}", "take another backup") from error


class Readable(Protocol):
    """What can be read in pieces."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


class Writer(Protocol):
    """A backup that is being made."""

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> Member:
        """Copy a file; ``progress`` is called with the bytes that were copied. Raises OSError."""
        ...


class Reader(Protocol):
    """A backup that is being read."""

    def names(self) -> set[str]:
        """All files in it."""
        ...

    def open(self, name: str) -> BinaryIO:
        """One file. Raises OSError, BadZipFile."""
        ...


@contextmanager
def writing(target: Path) -> Iterator[Writer]:
    """A new backup, which has its name only when the block ends well and leaves nothing otherwise.

    Raises:
        BadOption: there is something of that name, or its suffix is that of another kind of archive.
        OSError: the disk refuses.
    """
    suffix = target.suffix.lower()
    if suffix in _OTHER_ARCHIVES:
        raise BadOption(f"a backup cannot be a {suffix} file", "give a new folder, or a name that ends in .zip")
    _check_free(target)
    durable.make_folder(target.absolute().parent)
    part = durable.part_of(target)
    try:
        if suffix == ".zip":
            with (
                os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                yield _Zip(archive)
            _check_free(target)  # another backup may have been faster
            durable.publish(part, target)
        else:
            part.mkdir(mode=0o700)
            yield _Folder(part)
            publish_folder(part, target)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True)


def _check_free(target: Path) -> None:
    """Raises BadOption."""
    if target.is_dir() and target.suffix.lower() != ".zip" and not any(target.iterdir()):
        check_no_mount(target)
    elif os.path.lexists(target):
        raise BadOption(f"{target} exists already", "give another name: a backup never replaces anything")


def check_no_mount(folder: Path) -> None:
    """Raises BadOption for a mount point: no complete folder can be renamed to it."""
    if folder.is_mount():
        raise BadOption(f"{folder} is a mount point, which cannot be replaced", f"give a new folder in {folder}")


@contextmanager
def reading(source: Path) -> Iterator[Reader]:
    """An existing backup. Raises BadFile."""
    if source.is_dir():
        yield _Folder(source)
        return
    try:
        archive = zipfile.ZipFile(source)
    except FileNotFoundError as error:
        raise BadFile(f"there is no backup {source}", "give the folder or the .zip of `studio backup`") from error
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise BadFile(f"the backup {source} cannot be read: {error}", "take another backup") from error
    with archive:
        yield _Zip(archive)


def copied(source: Readable, target: BinaryIO | None, progress: Callable[[int], None]) -> Member:
    """Copy a file in pieces, or only read it; returns what was read."""
    digest, size = hashlib.sha256(), 0
    while piece := source.read(_CHUNK):
        digest.update(piece)
        size += len(piece)
        if target is not None:
            target.write(piece)
        progress(len(piece))
    return Member(size, digest.hexdigest())


def publish_folder(part: Path, target: Path) -> None:
    """Sync the folders of a complete tree, whose files are synced, and give it its name. Raises OSError."""
    for folder, _, _ in os.walk(part):
        durable.sync_folder(Path(folder))
    if target.is_dir():
        target.rmdir()  # it is empty
    part.rename(target)
    durable.sync_folder(target.absolute().parent)


def reason(error: OSError) -> str:
    """What the operating system says, and of which file."""
    return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")


def write_file(path: Path, source: Readable, progress: Callable[[int], None]) -> Member:
    """Copy into a new file below a folder that is not published yet, and sync it. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        found = copied(source, file, progress)
        file.flush()
        os.fsync(file.fileno())
    return found


class _Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> Member:
        return write_file(self._root / name, source, progress)

    def names(self) -> set[str]:
        files = (path for path in self._root.rglob("*") if path.is_symlink() or not path.is_dir())
        return {path.relative_to(self._root).as_posix() for path in files}

    def open(self, name: str) -> BinaryIO:
        path = self._root / name
        if path.is_symlink() or not path.is_file():
            raise OSError(f"{name} is not a file")
        return path.open("rb")


class _Zip:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> Member:
        about = zipfile.ZipInfo(name)
        about.compress_type = zipfile.ZIP_STORED if name.endswith(_STORED) else zipfile.ZIP_DEFLATED
        about.external_attr = 0o600 << 16
        with self._archive.open(about, "w", force_zip64=True) as file:
            return copied(source, file, progress)  # type: ignore[arg-type]

    def names(self) -> set[str]:
        return {name for name in self._archive.namelist() if not name.endswith("/")}

    def open(self, name: str) -> BinaryIO:
        return self._archive.open(name)  # type: ignore[return-value]
