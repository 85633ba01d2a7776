"""Find utterances to measure: files, folders, and folders with a manifest."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, read_bounded

MAX_MANIFEST_BYTES = 16 * 2**20
MANIFEST, TEXTS = "manifest.json", "texts.txt"
_KINDS = (".trace", ".wav")


@dataclass(frozen=True)
class Source:
    """One utterance's file.

    Attributes:
        file: its name in the tables.
        system, item: from a manifest or the folder; else empty.
        text: of a recording; empty for a trace.
    """

    path: Path
    file: str
    system: str = ""
    item: str = ""
    text: str = ""

    @property
    def reference(self) -> Path | None:
        """The TextGrid of the same name, if it exists."""
        beside = self.path.with_suffix(".TextGrid")
        return beside if beside.is_file() else None


def find_sources(places: Iterable[Path]) -> list[Source]:
    """All utterances in files and folders, in order.

    A folder's ``manifest.json`` (see ``studio synth``) has system, item and text; without one, subfolders are systems
    and file names are items. Of a trace and a WAV of the same name, the trace is used.

    Raises:
        BadFile: a file is missing, or a manifest or text is damaged.
        BadOption: there is nothing to measure, or two files have one name.
    """
    found: list[Source] = []
    for place in places:
        if place.is_dir():
            found += _described(place) if (place / MANIFEST).is_file() else _in_folder(place)
        elif place.is_file():
            found.append(Source(place, place.name, text=_text_of(place, {})))
        else:
            raise BadFile(f"there is no {place}", "give files or folders that are there")
    if not found:
        raise BadOption("there is nothing to measure", "give traces, WAV files, or folders of them")
    name, often = Counter(one.file for one in found).most_common(1)[0]
    if often > 1:
        raise BadOption(f"{often} of the files are called {name}", "measure the folder that holds them")
    return found


def _described(root: Path) -> Iterator[Source]:
    manifest = _read_json(root / MANIFEST)
    try:
        texts = {one["name"]: one.get("text", "") for one in manifest["items"]}
        for one in manifest["files"]:
            file = str(one.get("trace") or one["file"])
            path = (root / file).resolve()
            if not path.is_relative_to(root.resolve()):
                raise BadFile(f"{file!r:.100} leads out of the folder {root}", "keep files within it")
            text = "" if file.endswith(".trace") else str(texts.get(one["item"], ""))
            yield Source(path, file, str(one["system"]), str(one["item"]), text)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{root / MANIFEST} is not a manifest: {error!r}", "studio synth writes one") from error


def _in_folder(root: Path) -> Iterator[Source]:
    texts = _texts(root / TEXTS)
    paths = sorted(path for path in root.rglob("*") if path.suffix in _KINDS and path.is_file())
    traces = {path.with_suffix("") for path in paths if path.suffix == ".trace"}
    for path in paths:
        if path.suffix == ".wav" and path.with_suffix("") in traces:
            continue
        inside = path.relative_to(root)
        system = "" if path.suffix == ".trace" else inside.parent.as_posix().removeprefix(".")
        yield Source(path, inside.as_posix(), system, path.stem, _text_of(path, texts))


def _text_of(path: Path, texts: Mapping[str, str]) -> str:
    if path.suffix == ".trace":
        return ""
    beside = path.with_suffix(".txt")
    return _read(beside).strip() if beside.is_file() and beside.name != TEXTS else texts.get(path.stem, "")


def _texts(path: Path) -> dict[str, str]:
    """``item|text`` a line."""
    if not path.is_file():
        return {}
    rows = (line.partition("|") for line in _read(path).splitlines() if "|" in line)
    return {item.strip(): text.strip() for item, _, text in rows}


def _read(path: Path) -> str:
    try:
        return read_bounded(path, MAX_TEXTS_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", "give text in UTF-8") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_bounded(path, MAX_MANIFEST_BYTES))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error}", "studio synth writes one") from error
