"""Reads stimulus manifests from a folder, a CSV file or a JSON file."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, field_validator

from studio.core.errors import BadFile
from studio.core.files import read_bounded
from studio.mos.campaign.manifest import SOUNDS, ManifestBuilder, StimulusManifest
from studio.mos.campaign.names import blaming, read_tags
from studio.mos.store.json_columns import read_strict, write_json

MAX_MANIFEST_BYTES = 16 * 2**20
CONTROL = "control"  # the system of training, trap and gold clips without one
_IN_FOLDERS = ("manifest.json", "manifest.csv")
_ROLE_FOLDERS = ("training", "trap", "gold")
_COLUMNS = ("system", "item", "file")
_MORE_COLUMNS = ("text", "role", "expected", "tags")
_EXPECTED_IN_NAME = re.compile(r"(.+)=([^=]+)")


def read_manifest(path: Path, there: StimulusManifest | None = None, whole: bool = True) -> StimulusManifest:
    """Read a folder ``<system>/<item>.wav``, a ``.csv`` or a ``.json`` file; sound files are beside or below it.

    A ``manifest.json`` or ``manifest.csv`` in the folder takes precedence, with a warning. Raises BadFile: something is
    missing, duplicate, misnamed, too large, outside the folder or malformed; the message names the line.

    Args:
        there: existing content of a campaign; included in the result.
        whole: require every system for every script.
    """
    inside = [path / name for name in _IN_FOLDERS if (path / name).is_file()] if path.is_dir() else []
    if len(inside) > 1:
        raise BadFile(f"{path.name} holds {' and '.join(f.name for f in inside)}", "name the one that is meant")
    if inside:
        found = read_manifest(inside[0], there, whole)
        return replace(found, warnings=[f"{path.name} was read by its {inside[0].name}", *found.warnings])
    draft = ManifestBuilder.extending(path if path.is_dir() else path.parent, there or StimulusManifest([], [], {}, []))
    if path.is_dir():
        _read_folder(draft)
    elif not path.is_file():
        raise BadFile(f"there is no folder or file {path}", "check the path")
    elif path.suffix.lower() == ".csv":
        _read_csv(draft, path)
    elif path.suffix.lower() == ".json":
        _read_json(draft, path)
    else:
        raise BadFile(f"{path.name} is not a manifest", "give a folder, a .csv or a .json file")
    return draft.finish(whole)


def _read_folder(draft: ManifestBuilder) -> None:
    """Read ``<system>/<item>.wav``; ``training``, ``trap`` and ``gold`` contain the same, or clips without a system.

    In those three a file name may have the expected answer: ``trap/please-choose-two=2.wav``.
    """
    root, others = draft.root, list[str]()
    for entry in sorted(root.iterdir()):
        if entry.name.startswith(".") or entry.name in ("texts.csv", "texts.txt"):
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
    others = _add_sounds(draft, folder, CONTROL, folder.name)
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            others += _add_sounds(draft, entry, entry.name, folder.name)
    return others


def _add_sounds(draft: ManifestBuilder, folder: Path, system: str, role: str) -> list[str]:
    """Add every sound in ``folder``; returns the names of other files."""
    others: list[str] = []
    draft.inside("the folder", str(folder.relative_to(draft.root)))
    for file in sorted(folder.iterdir()):
        where = str(file.relative_to(draft.root))
        if file.name.startswith(".") or file.is_dir():
            continue
        if file.suffix.lower() not in SOUNDS:
            others.append(where)
            continue
        split = _EXPECTED_IN_NAME.fullmatch(file.stem) if role != "test" else None
        item, expected = (split[1], split[2]) if split else (file.stem, None)
        draft.add_system(where, system, "anchor" if system == CONTROL else None)
        draft.add_item(where, item, role=role, expected=expected)
        draft.add_file(where, item, system, where)
    return others


def _read_texts(draft: ManifestBuilder, root: Path) -> None:
    """Read item texts from ``texts.csv`` (item,text[,expected][,tags]) and ``texts.txt`` (item|text)."""
    if (root / "texts.csv").exists():
        for where, row in _rows(draft.inside("the folder", "texts.csv"), ("item", "text"), ("expected", "tags")):
            draft.describe(where, row["item"], row["text"], row.get("expected"), row.get("tags"))
    if (root / "texts.txt").exists():
        for number, line in enumerate(_text_of(draft.inside("the folder", "texts.txt")).splitlines(), start=1):
            where = f"line {number} of texts.txt"
            item, mark, text = line.partition("|")
            if line.strip() and not mark:
                raise BadFile(f"{where} has no |", "write item|text")
            if line.strip():
                draft.describe(where, item.strip(), text.strip())


def _read_csv(draft: ManifestBuilder, path: Path) -> None:
    """Columns system, item, file, optionally text, role, expected, tags; files are relative to the CSV's folder."""
    for where, row in _rows(path, _COLUMNS, _MORE_COLUMNS):
        draft.add_system(where, row["system"])
        role = row.get("role") or "test"
        draft.add_item(where, row["item"], row.get("text", ""), role, row.get("expected"), row.get("tags"))
        draft.add_file(where, row["item"], row["system"], row["file"])


def _rows(path: Path, needed: tuple[str, ...], more: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row's location and its stripped cells."""
    reader = csv.DictReader(io.StringIO(_text_of(path), newline=""), strict=True)
    try:
        columns = [str(c).strip() for c in reader.fieldnames or ()]
        if set(needed) - set(columns) or set(columns) - {*needed, *more} or len(set(columns)) < len(columns):
            raise BadFile(
                f"{path.name} has the columns {', '.join(columns) or '(none)'}",
                f"the first line names {', '.join(needed)}, and if wanted {', '.join(more)}, divided by commas",
            )
        reader.fieldnames = columns
        for row in reader:
            where = f"line {reader.line_num} of {path.name}"
            if None in row or None in row.values():
                raise BadFile(f"{where} has not {len(columns)} cells", "put quotes around a cell that holds a comma")
            yield where, {name: cell.strip() for name, cell in row.items()}
    except csv.Error as error:
        raise BadFile(f"line {reader.line_num} of {path.name} is not CSV: {error}", "save it again as CSV") from error


def read_tag_file(path: Path) -> dict[str, tuple[str, ...]]:
    """Read tags of scripts from a CSV file with columns item and tags (``a;b``). Raises BadFile naming the line."""
    found: dict[str, tuple[str, ...]] = {}
    for where, row in _rows(path, ("item", "tags"), ()):
        if row["item"] in found:
            raise BadFile(f"{where}: the item {row['item'][:80]!r} is there twice", "give it once")
        with blaming(where):
            found[row["item"]] = read_tags(row["tags"])
    return found


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
        found = read_strict(TypeAdapter(_Manifest), _text_of(path), "manifest")
    for number, system in enumerate(found.systems):
        draft.add_system(f"systems[{number}] of {path.name}", system.name, system.role, system.voice, new=True)
    for number, item in enumerate(found.items):
        where, role = f"items[{number}] of {path.name}", item.role or "test"
        draft.add_item(where, item.name, item.text or "", role, item.expected, item.tags, new=True)
    for number, file in enumerate(found.files):
        where = f"files[{number}] of {path.name}"
        if file.system not in draft.systems or file.item not in draft.items:
            raise BadFile(f"{where} names a system or an item that is not listed", "add it to systems or items")
        draft.add_file(where, file.item, file.system, file.file, file.trace)


def _text_of(path: Path) -> str:
    """The text of a manifest file, bounded in size."""
    try:
        return read_bounded(path, MAX_MANIFEST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8", "save it as UTF-8") from error
    except OSError as error:
        hint = "check the path and its permissions; a manifest names sounds, it does not hold them"
        raise BadFile(f"{path.name} cannot be read: {error.strerror}", hint) from error
