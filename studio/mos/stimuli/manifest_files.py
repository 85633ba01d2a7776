"""Reads stimulus manifests from a folder, a CSV file or a JSON file."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, field_validator

from studio.core.csv_files import read_table
from studio.core.errors import BadFile
from studio.core.files import decode_text, read_bounded
from studio.core.sound_files import SUFFIXES
from studio.mos.campaign.manifest import ManifestBuilder, StimulusManifest
from studio.mos.campaign.names import blaming, composed, named_texts, read_tags
from studio.mos.store.json_columns import read_strict, write_json

MAX_MANIFEST_BYTES = 16 * 2**20
CONTROL = "control"  # the system of training, trap and gold clips without one
_IN_FOLDERS = ("manifest.json", "manifest.csv")
_ROLE_FOLDERS = ("training", "trap", "gold")
_TEXTS = ("texts.csv", "texts.tsv", "texts.txt")
_METADATA = (
    "metadata.csv",
    "metadata.tsv",
    "metadata.txt",
)  # of a corpus; its lines for scripts without sounds are left out
_MAX_DEPTH = 8  # of the search for sounds in folders
_COLUMNS = ("system", "item", "file")
_MORE_COLUMNS = ("text", "role", "expected", "tags")
_EXPECTED_IN_NAME = re.compile(r"(.+)=([^=]+)")


def read_manifest(
    path: Path, there: StimulusManifest | None = None, whole: bool = True, incomplete: bool = False
) -> StimulusManifest:
    """Read a folder ``<system>/<item>.wav``, a ``.csv`` or a ``.json`` file; sound files are next to or below it.

    A ``manifest.json`` or ``manifest.csv`` in the folder takes precedence, with a warning. Raises BadFile: something is
    missing, duplicate, misnamed, too large, outside the folder or malformed; the message names the line.

    Args:
        there: existing content of a campaign; included in the result.
        whole: require every system for every script.
        incomplete: allow systems to lack scripts nevertheless, with a warning.
    """
    inside = [path / name for name in _IN_FOLDERS if (path / name).is_file()] if path.is_dir() else []
    if len(inside) > 1:
        raise BadFile(f"{path.name} holds {' and '.join(f.name for f in inside)}", "name the one that is meant")
    if inside:
        manifest = read_manifest(inside[0], there, whole, incomplete)
        return replace(manifest, warnings=[f"{path.name} was read by its {inside[0].name}", *manifest.warnings])
    draft = ManifestBuilder.extending(path if path.is_dir() else path.parent, there or StimulusManifest([], [], {}, []))
    if path.is_dir():
        _read_folder(draft)
    elif not path.is_file():
        raise BadFile(f"there is no folder or file {path}", "check the path")
    elif path.suffix.lower() in (".csv", ".tsv"):
        _read_csv(draft, path)
    elif path.suffix.lower() == ".json":
        _read_json(draft, path)
    else:
        raise BadFile(f"{path.name} is not a manifest", "give a folder, a .csv or a .json file")
    return draft.finish(whole, incomplete)


# Names of columns in metadata.csv of Hugging Face audio folders and of Common Voice.
_FILE_COLUMNS = frozenset(("file_name", "filename", "path", "id"))
_TEXT_COLUMNS = frozenset(("text", "transcription", "transcript", "sentence", "raw_text"))


def _read_folder(draft: ManifestBuilder) -> None:
    """Read ``<system>/<item>.wav``; ``training``, ``trap`` and ``gold`` contain the same, or clips without a system.

    In those three a file name may have the expected answer: ``trap/please-choose-two=2.wav``.
    """
    root, others = draft.root, list[str]()
    for entry in sorted(root.iterdir()):
        if entry.name.startswith(".") or entry.name.lower() in (*_TEXTS, *_METADATA):
            continue
        if not entry.is_dir():
            others.append(entry.name)
        elif entry.name in _ROLE_FOLDERS:
            others += _read_role_folder(draft, entry)
        else:
            others += _add_sounds(draft, entry, entry.name, "test")
    _read_texts(draft, root)
    if others:
        draft.warnings.append(f"{len(others)} files are not sounds of a system, left out: {', '.join(others[:10])}")


def with_traps(manifest: StimulusManifest, folder: Path) -> StimulusManifest:
    """Add the traps of a folder (``please-choose-two=2.flac`` and ``texts.txt``) to a manifest.

    Raises BadFile: a trap has the name of a script.
    """
    draft = ManifestBuilder.extending(folder, manifest)
    _add_sounds(draft, folder, CONTROL, "trap")
    _read_texts(draft, folder)
    return draft.finish()


def _read_role_folder(draft: ManifestBuilder, folder: Path) -> list[str]:
    others = _add_sounds(draft, folder, CONTROL, folder.name, has_systems=True)
    for entry in _entries(folder)[1]:
        others += _add_sounds(draft, entry, entry.name, folder.name)
    return others


def _add_sounds(draft: ManifestBuilder, folder: Path, system: str, role: str, has_systems: bool = False) -> list[str]:
    """Add every sound in ``folder``; returns the names of other files.

    If a folder has no sounds and one subfolder with sounds, that subfolder is read (``heron/wavs``). Other subfolders
    with sounds are reported; with ``has_systems`` the caller reads them.
    """
    others: list[str] = []
    draft.inside("the folder", str(folder.relative_to(draft.root)))
    files, folders = _entries(folder)
    inner = [one for one in folders if _has_sounds(one)]
    if len(inner) == 1 and not has_systems and not any(map(_is_sound, files)):
        others += _add_sounds(draft, inner[0], system, role)
        for file in files:
            if file.name.lower() in _METADATA:  # heron/metadata.csv next to heron/wavs
                _read_metadata(draft, file)
            else:
                others.append(str(file.relative_to(draft.root)))
        return others
    if inner and not has_systems:
        names = ", ".join(str(one.relative_to(draft.root)) for one in inner[:10])
        draft.warnings.append(f"the sounds of {len(inner)} subfolders were not read: {names}; move them up to be read")
    for file in files:
        where = str(file.relative_to(draft.root))
        if not _is_sound(file):
            others.append(where)
            continue
        split = _EXPECTED_IN_NAME.fullmatch(file.stem) if role != "test" else None
        item, expected = (split[1], split[2]) if split else (file.stem, None)
        draft.add_system(where, system, "anchor" if system == CONTROL else None)
        draft.add_item(where, item, role=role, expected=expected)
        draft.add_file(where, item, system, where)
    return others


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files and the folders in a folder that are not hidden, sorted."""
    entries = [one for one in sorted(folder.iterdir()) if not one.name.startswith(".")]
    return [one for one in entries if not one.is_dir()], [one for one in entries if one.is_dir()]


def _has_sounds(folder: Path, depth: int = _MAX_DEPTH) -> bool:
    """Whether there are sounds in a folder or below it."""
    files, folders = _entries(folder)
    return any(map(_is_sound, files)) or (depth > 0 and any(_has_sounds(one, depth - 1) for one in folders))


def _is_sound(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES


def _read_texts(draft: ManifestBuilder, root: Path) -> None:
    """Read item texts from the files next to the sounds."""
    for file in _entries(root)[0]:
        if file.name.lower() in _TEXTS:
            for where, row in _texts(draft.inside("the folder", str(file.relative_to(draft.root)))):
                _describe(draft, where, row)
        elif file.name.lower() in _METADATA:
            _read_metadata(draft, file)


def _read_metadata(draft: ManifestBuilder, file: Path) -> None:
    name = str(file.relative_to(draft.root))
    unknown = sum(not _describe(draft, where, row, False) for where, row in _texts(draft.inside("the folder", name)))
    if unknown:
        draft.warnings.append(f"{unknown} lines of {name} are of no script that has sounds, left out")


def _describe(draft: ManifestBuilder, where: str, row: dict[str, str], needed: bool = True) -> bool:
    """Add a row's text to its item, which may be named by its sound file (a1.wav); returns whether the item exists."""
    item = row["item"]
    if composed(item) not in draft.items and Path(item).suffix.lower() in SUFFIXES:
        item = Path(item).stem
    if not needed and composed(item) not in draft.items:
        return False
    draft.describe(where, item, row["text"], row.get("expected"), row.get("tags"))
    return True


def _texts(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a table (item,text[,expected][,tags]), or of lines ``item|text`` or ``item|text|spoken``."""
    text = _text_of(path)
    try:
        columns = set(read_table(text, path.name).columns)
        is_table = {"item", "text"} <= columns
        if not is_table and (item := columns & _FILE_COLUMNS) and (script := columns & _TEXT_COLUMNS):
            for line, row in read_table(text, path.name).rows:  # a Hugging Face audio folder
                yield f"line {line} of {path.name}", {"item": row[min(item)], "text": row[min(script)]}
            return
    except BadFile:  # the first line is no header: raw and spoken text of a metadata line may be equal
        is_table = False
    if is_table:
        yield from _rows(path, ("item", "text"), ("expected", "tags"))
        return
    if path.suffix.lower() != ".txt" and "|" not in text:
        read_table(text, path.name).need("item", "text", more=("expected", "tags"))
    for number, item, script in named_texts(text):
        where = f"line {number} of {path.name}"
        if script is None:
            raise BadFile(f"{where} has no |", "write item|text")
        yield where, {"item": item, "text": script}


def _read_csv(draft: ManifestBuilder, path: Path) -> None:
    """Columns system, item, file, optionally text, role, expected, tags; files are relative to the CSV's folder."""
    for where, row in _rows(path, _COLUMNS, _MORE_COLUMNS):
        draft.add_system(where, row["system"])
        role = row.get("role") or "test"
        draft.add_item(where, row["item"], row.get("text", ""), role, row.get("expected"), row.get("tags"))
        draft.add_file(where, row["item"], row["system"], row["file"])


def _rows(path: Path, needed: tuple[str, ...], more: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row's location and its stripped cells."""
    table = read_table(_text_of(path), path.name)
    table.need(*needed, more=more)
    if unknown := [
        title for title, key in zip(table.titles, table.columns, strict=True) if key not in {*needed, *more}
    ]:
        allowed = f"the first line names {', '.join(needed)}, and if wanted {', '.join(more)}"
        raise BadFile(f"{path.name} has the columns {', '.join(unknown)[:200]}, which are not known", allowed)
    for line, row in table.rows:
        yield f"line {line} of {path.name}", row


def read_tag_file(path: Path) -> dict[str, tuple[str, ...]]:
    """Read tags of scripts from a CSV file with columns item and tags (``a;b``). Raises BadFile naming the line."""
    tags: dict[str, tuple[str, ...]] = {}
    for where, row in _rows(path, ("item", "tags"), ()):
        if row["item"] in tags:
            raise BadFile(f"{where}: the item {row['item'][:80]!r} is there twice", "give it once")
        with blaming(where):
            tags[row["item"]] = read_tags(row["tags"])
    return tags


class _Entry(BaseModel, extra="forbid"):
    """An entry of a list of a JSON manifest; null counts as absent."""


class _System(_Entry):
    name: str
    role: str | None = None
    voice: dict[str, Any] | None = None

    @field_validator("voice")
    @classmethod
    def _can_be_stored(cls, voice: dict[str, Any] | None) -> dict[str, Any] | None:
        write_json(voice or {})
        return voice


class _Item(_Entry):
    name: str
    text: str | None = None
    role: str | None = None
    expected: str | None = None
    tags: str | None = None  # a;b


class _File(_Entry):
    system: str
    item: str
    file: str
    trace: str | None = None


class _Manifest(_Entry):
    systems: list[_System]
    items: list[_Item]
    files: list[_File]


def _read_json(draft: ManifestBuilder, path: Path) -> None:
    """Read an object of three lists; files reference listed systems and items."""
    with blaming(path.name):
        document = read_strict(TypeAdapter(_Manifest), _text_of(path), "manifest")
    for number, system in enumerate(document.systems):
        draft.add_system(f"systems[{number}] of {path.name}", system.name, system.role, system.voice, new=True)
    for number, item in enumerate(document.items):
        where, role = f"items[{number}] of {path.name}", item.role or "test"
        draft.add_item(where, item.name, item.text or "", role, item.expected, item.tags, new=True)
    for number, file in enumerate(document.files):
        where = f"files[{number}] of {path.name}"
        if file.system not in draft.systems or file.item not in draft.items:
            raise BadFile(f"{where} names a system or an item that is not listed", "add it to systems or items")
        draft.add_file(where, file.item, file.system, file.file, file.trace)


def _text_of(path: Path) -> str:
    """The text of a manifest file, bounded in size."""
    try:
        return decode_text(read_bounded(path, MAX_MANIFEST_BYTES), path.name)
    except OSError as error:
        hint = "check the path and its permissions; a manifest names sounds, it does not hold them"
        raise BadFile(f"{path.name} cannot be read: {error.strerror}", hint) from error
