"""Systems and scripts from the paths and URLs of sounds in files of answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath

from studio.mos.import_export.answer_json import SOUND_FILE
from studio.mos.import_export.answer_shapes import AnswerTable, names_of_pairs

_Names = tuple[str, str]  # of a system and a script


def named_by_files(table: AnswerTable, columns: Mapping[str, str]) -> tuple[AnswerTable, dict[str, str], list[str]]:
    """Replace columns of sound files by systems and scripts; returns the table, its column of each field, and notes.

    System and script are the last two parts of a path, or the two parts of a file's name if all files are in one folder
    (``heron_s1.wav``, ``teal_s1.wav``). Other columns of systems and scripts take precedence.
    """
    is_pair = "file" not in columns
    sides = ("a", "b") if is_pair else ("file",)
    if not set(sides) <= columns.keys():
        return table, dict(columns), []
    distinct = sorted({cell for side in sides for cell in table.cells[columns[side]]} - {""})
    if is_pair and not all(SOUND_FILE.fullmatch(cell) for cell in distinct):
        return table, dict(columns), []
    names_of, notes = _names_of(distinct, has_system="system" in columns)
    rows = len(table.numbers)
    systems = table.cells[columns["system"]] if "system" in columns else [""] * rows
    found = [list(map(names_of, table.cells[columns[side]], systems)) for side in sides]
    if is_pair and all(one == two for (one, _), (two, _) in zip(*found, strict=True)):
        return table, dict(columns), []  # the names do not contain the systems
    known = {what: column for what, column in columns.items() if what != "file"}
    new = {
        "system" if side == "file" else side: [system for system, _ in of]
        for side, of in zip(sides, found, strict=True)
    }
    items = [", ".join(dict.fromkeys(item for _, item in line)) for line in zip(*found, strict=True)]
    own = table.cells[columns["item"]] if "item" in columns else [""] * rows
    new["item"] = [one or two for one, two in zip(own, items, strict=True)]
    if is_pair and "outcome" in columns:  # it may be the preferred file
        paths = zip(*(table.cells[columns[what]] for what in ("outcome", "a", "b")), strict=True)
        new["outcome"] = ["a wins" if one == a else "b wins" if one == b else one for one, a, b in paths]
    cells = dict(table.cells)
    for what, column in new.items():
        known[what] = f"{what} of files"
        cells[known[what]] = column
    return replace(table, cells=cells), known, notes


def _names_of(paths: Sequence[str], *, has_system: bool) -> tuple[Callable[[str, str], _Names], list[str]]:
    """A function of a path and its system, if a column names it, that gives system and script; and notes."""
    folders = {_path(path).parent for path in paths}
    if has_system or len(folders) > 1 or len(paths) < 2:
        return cache(_of_file), []
    folder = folders.pop().name
    if not (pairs := names_of_pairs([_path(path).stem for path in paths], is_crossed=False)):
        note = f"all sounds are in the folder {folder!r:.80}, which is taken for one system"
        return cache(_of_file), [f"{note}; --column system=NAME names others"]
    named = dict(zip(paths, pairs, strict=True))
    systems = list(dict.fromkeys(system for system, _ in pairs))
    note = f"all sounds are in one folder; their names are read as systems ({', '.join(systems[:10])}) and scripts"
    return (lambda path, _: named.get(path, ("", ""))), [note]


def _path(address: str) -> PurePosixPath:
    return PurePosixPath(re.split(r"[?#]", address.strip().replace("\\", "/"))[0])


def _of_file(address: str, system: str) -> _Names:
    """System and item from the last two parts of a file's path or address; the item without the system's name."""
    path = _path(address)
    system, item = system.strip() or path.parent.name, path.stem
    named = re.escape(system)
    if system and (match := re.fullmatch(rf"{named}[-_. ]+(.+)|(.+)[-_. ]+{named}", item)):
        item = match[1] or match[2]
    return system, item
