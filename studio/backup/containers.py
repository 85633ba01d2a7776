"""Backup containers, folders and ZIP files: written under a temporary name; reads cannot leave the container."""

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from studio.core import durable
from studio.core.errors import BadFile, BadOption
from studio.core.files import open_unbuffered

FORMAT, SCHEMA = "studio-backup", 1
MANIFEST = "backup.json"
DATABASE = "studio.sqlite"
# files that the server may read outside its data folder; the page's lexicon is lexicon.txt
SETTINGS, SYSTEMS, LEXICON = "settings.toml", "systems.toml", "given-lexicon.txt"
MAX_MANIFEST_BYTES = 256_000_000
_CHUNK = 1 << 20
_STORED = (".wav", ".flac", ".trace")  # hardly compressible
_OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
_SHA256 = re.compile(r"[0-9a-f]{64}")


_LATEST_S = 253_402_300_799.0  # the last second of the year 9999


@dataclass(frozen=True)
class BackupFile:
    """Size in bytes, SHA-256 and modification time of a file (seconds since 1970; 0 if unknown)."""

    size: int
    sha256: str
    changed_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class BackupManifest:
    """Contents of a backup.

    Attributes:
        created_at: UTC, ISO 8601.
        database: kind of the database behind ``studio.sqlite``; empty without a database.
        counts: campaigns, answers, clips, utterances and journals.
        missing: clips and traces named in the database that the data folder lacks.
    """

    studio: str
    created_at: str
    database: str
    files: Mapping[str, BackupFile]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    missing: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(one.size for one in self.files.values())

    def to_json(self) -> bytes:
        return json.dumps({"format": FORMAT, "schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False).encode()


def is_member_name(name: str) -> bool:
    """Whether this is a valid name in a backup: a relative UTF-8 path with "/" that stays in its folder."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    is_inside = not {"", ".", ".."} & set(name.split("/"))
    is_plain = not set(name) & ({"\0", "\\", ":"} if os.name == "nt" else {"\0", "\\"})
    return is_inside and is_plain and name != MANIFEST


def parse_manifest(data: bytes) -> BackupManifest:
    """A manifest from JSON. Raises BadFile."""
    try:
        manifest: dict[str, Any] = json.loads(data)
        if manifest["format"] != FORMAT or manifest["schema"] != SCHEMA:
            raise ValueError(f"it is of {manifest['format']} {manifest['schema']}; this studio reads {FORMAT} {SCHEMA}")
        files = {
            name: BackupFile(int(one["size"]), str(one["sha256"]), float(one.get("changed_s", 0.0)))
            for name, one in manifest["files"].items()
        }
        for name in files:
            if not is_member_name(name):
                raise ValueError(f"{name[:80]!r} is not the name of a file in a backup")
            if not 0.0 <= files[name].changed_s <= _LATEST_S:
                raise ValueError(f"{name[:80]!r} has no valid time")
            if files[name].size < 0 or not _SHA256.fullmatch(files[name].sha256):
                raise ValueError(f"{name[:80]!r} has no valid size and SHA-256")
        datetime.fromisoformat(manifest["created_at"])
        counts = {str(name): int(count) for name, count in manifest["counts"].items()}
        missing = tuple(str(one) for one in manifest["missing"])
        return BackupManifest(
            str(manifest["studio"]), manifest["created_at"], str(manifest["database"]), files, counts, missing
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"the manifest {MANIFEST} is damaged: {error}", "take another backup") from error


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Container(Protocol):
    """The files of a backup."""

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> BackupFile:
        """Copy a file; ``progress`` is called with the number of bytes of each chunk. Raises OSError."""
        ...

    def names(self) -> set[str]: ...

    def open(self, name: str) -> BinaryIO:
        """Raises OSError, BadZipFile."""
        ...


@contextmanager
def create_container(target: Path) -> Iterator[Container]:
    """A new backup; it gets its name when the block succeeds, and is deleted otherwise.

    Raises:
        BadOption: the name exists, or has the suffix of another kind of archive.
        OSError: writing to disk failed.
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
            _check_free(target)  # another backup may have been created in the meantime
            durable.publish(part, target)
        else:
            part.mkdir(mode=0o700)
            yield _Folder(part)
            publish_folder(part, target)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True)


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """A folder beside a backup, deleted at the end.

    Unlike with ``tempfile.TemporaryDirectory``, its name is known before it exists, so a signal never leaves a folder.
    """
    folder = durable.part_of(target)
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_free(target: Path) -> None:
    """Raises BadOption."""
    if target.is_dir() and target.suffix.lower() != ".zip" and not any(target.iterdir()):
        check_no_mount(target)
    elif os.path.lexists(target):
        raise BadOption(f"{target} exists already", "give another name: a backup never replaces anything")


def check_no_mount(folder: Path) -> None:
    """Raises BadOption for a mount point, which a folder cannot replace by a rename."""
    if folder.is_mount():
        raise BadOption(f"{folder} is a mount point, which cannot be replaced", f"give a new folder in {folder}")


@contextmanager
def open_container(source: Path) -> Iterator[Container]:
    """An existing backup. Raises BadFile."""
    if source.is_dir():
        yield _Folder(source)
        return
    with ExitStack() as held:
        try:
            archive = held.enter_context(zipfile.ZipFile(held.enter_context(open_unbuffered(source))))
        except FileNotFoundError as error:
            raise BadFile(f"there is no backup {source}", "give the folder or the .zip of `studio backup`") from error
        except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
            raise BadFile(f"the backup {source} cannot be read: {error}", "take another backup") from error
        yield _Zip(archive)


def copy_hashed(source: Readable, target: BinaryIO | None, progress: Callable[[int], None]) -> BackupFile:
    """Copy a file in chunks; without a target, only read it."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if target is not None:
            target.write(chunk)
        progress(len(chunk))
    return BackupFile(size, digest.hexdigest())


def publish_folder(part: Path, target: Path) -> None:
    """Sync the folders of a complete tree of synced files, and rename it to its final name. Raises OSError."""
    for folder, _, _ in os.walk(part):
        durable.sync_folder(Path(folder))
    if target.is_dir():
        target.rmdir()  # it is empty
    part.rename(target)
    durable.sync_folder(target.absolute().parent)


def error_reason(error: OSError) -> str:
    """The operating system's message and the file's name."""
    return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")


def write_file(path: Path, source: Readable, progress: Callable[[int], None]) -> BackupFile:
    """Copy into a new file of an unpublished folder, and sync it. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        entry = copy_hashed(source, file, progress)
        file.flush()
        os.fsync(file.fileno())
    return entry


class _Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> BackupFile:
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

    def add(self, name: str, source: Readable, progress: Callable[[int], None]) -> BackupFile:
        about = zipfile.ZipInfo(name)
        about.compress_type = zipfile.ZIP_STORED if name.endswith(_STORED) else zipfile.ZIP_DEFLATED
        about.external_attr = 0o600 << 16
        with self._archive.open(about, "w", force_zip64=True) as file:
            return copy_hashed(source, file, progress)  # type: ignore[arg-type]

    def names(self) -> set[str]:
        return {name for name in self._archive.namelist() if not name.endswith("/")}

    def open(self, name: str) -> BinaryIO:
        return self._archive.open(name)  # type: ignore[return-value]
