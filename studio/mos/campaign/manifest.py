"""Stimulus manifests and their builder, which validates names, texts and paths from any source."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from studio.core.errors import BadFile
from studio.core.sound_files import MAX_FILE_BYTES, SUFFIXES
from studio.mos.campaign.names import blaming, check_name, composed, expected_scores, read_tags

MAX_SYSTEMS, MAX_ITEMS, MAX_FILES = 100, 10_000, 50_000
MAX_TEXT_CHARS = 4000
MAX_TRACE_BYTES = 1 << 29
SYSTEM_ROLES = ("test", "reference", "anchor")
ITEM_ROLES = ("test", "training", "trap", "gold")
_EXISTING = "the campaign"
_NUMBER = re.compile(r"-?\d{1,4}")


@dataclass(frozen=True)
class SystemSpec:
    """A system under test, or a reference or anchor."""

    name: str
    role: str = "test"
    voice: dict[str, Any] | None = None


@dataclass(frozen=True)
class ItemSpec:
    """A script; ``expected`` is the correct score (or SIG=4;BAK=1 by question) or system of a trap or gold item."""

    name: str
    text: str = ""
    role: str = "test"
    expected: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class StimulusManifest:
    """Systems, items and files of a campaign; ``files`` and ``traces`` are keyed by (item, system)."""

    systems: list[SystemSpec]
    items: list[ItemSpec]
    files: dict[tuple[str, str], Path]
    warnings: list[str]
    traces: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])


@dataclass
class ManifestBuilder:
    """Collects and validates systems, items and files below ``root``; ``where`` names the source in errors."""

    root: Path
    systems: dict[str, SystemSpec] = field(default_factory=dict[str, SystemSpec])
    items: dict[str, ItemSpec] = field(default_factory=dict[str, ItemSpec])
    files: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])
    traces: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])
    warnings: list[str] = field(default_factory=list[str])
    _first_lines: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    # existing names that were listed again
    _listed: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    @staticmethod
    def extending(root: Path, there: StimulusManifest) -> "ManifestBuilder":
        """A builder that starts with a campaign's existing content."""
        draft = ManifestBuilder(
            root, {s.name: s for s in there.systems}, {i.name: i for i in there.items}, dict(there.files)
        )
        for what, names in (("system", draft.systems), ("item", draft.items)):
            draft._first_lines |= {(what, name.casefold()): _EXISTING for name in names}
        draft._first_lines |= {("file", *key): _EXISTING for key in draft.files}
        return draft

    def add_system(
        self, where: str, name: str, role: str | None = None, voice: dict[str, Any] | None = None, new: bool = False
    ) -> None:
        """Add a system unless it exists. Without a role, the names ``reference`` and ``anchor...`` imply theirs.

        Raises BadFile: the name or role is not allowed, the role differs, or with ``new`` the system was listed before.
        """
        name = composed(name)
        self._claim(where, "system", name, self.systems, MAX_SYSTEMS, new)
        if role and name in self.systems and role != self.systems[name].role:
            raise self._differs(where, "system", name, "role")
        if name not in self.systems:
            self.systems[name] = SystemSpec(name, _one_of(where, "role", role or _role_by(name), SYSTEM_ROLES), voice)

    def add_item(
        self,
        where: str,
        name: str,
        text: str = "",
        role: str = "test",
        expected: str | None = None,
        tags: str | None = None,
        new: bool = False,
    ) -> None:
        """Add an item unless it exists with the same role, text, expected answer and tags. Raises BadFile."""
        name = composed(name)
        self._claim(where, "item", name, self.items, MAX_ITEMS, new)
        _one_of(where, "role", role, ITEM_ROLES)
        if name not in self.items:
            self.items[name] = ItemSpec(name, role=role)
        elif self.items[name].role != role:
            raise self._differs(where, "item", name, "role")
        self.describe(where, name, text, expected, tags)

    def describe(self, where: str, name: str, text: str, expected: str | None = None, tags: str | None = None) -> None:
        """Set an item's text, expected answer and tags (``a;b``). Raises BadFile if it is unknown or differs."""
        name = composed(name)
        if name not in self.items:
            raise BadFile(f"{where}: there is no sound of the item {name[:80]!r}", "check the spelling")
        item = self.items[name]
        _plain(where, "text", text, MAX_TEXT_CHARS)
        if expected and not _NUMBER.fullmatch(expected):
            _plain(where, "expected", expected, 80)
        if text and item.text and text != item.text:
            raise self._differs(where, "item", name, "text")
        if expected and item.expected and expected != item.expected:
            raise self._differs(where, "item", name, "expected answer")
        with blaming(where):
            tagged = read_tags(tags or "")
        if tagged and item.tags and tagged != item.tags:
            raise self._differs(where, "item", name, "tags")
        self.items[name] = replace(
            item, text=text or item.text, expected=expected or item.expected, tags=tagged or item.tags
        )

    def add_file(self, where: str, item: str, system: str, file: str, trace: str | None = None) -> None:
        """Add the sound file of an item by a system. Raises BadFile: duplicate, missing, too large or outside."""
        item, system = composed(item), composed(system)
        if (item, system) in self.files:
            before = self._first_lines["file", item, system]
            raise BadFile(f"{where}: item {item!r} by system {system!r} is there twice", f"the first is {before}")
        if len(self.files) >= MAX_FILES:
            raise BadFile(f"{where}: there are more than {MAX_FILES} sounds", "divide them into several campaigns")
        self._first_lines["file", item, system] = where
        self.files[item, system] = self._sound(where, file)
        if trace is not None:
            self.traces[item, system] = self._trace(where, trace)

    def finish(self, whole: bool = True, incomplete: bool = False) -> StimulusManifest:
        """The manifest. Raises BadFile naming what is missing.

        With ``whole`` unset, missing sounds are allowed; with ``incomplete`` a warning lists them.
        """
        tests = [item for item in self.items.values() if item.role == "test"]
        systems = {system for item, system in self.files if self.items[item].role == "test"}
        if not systems:
            also = "".join(f"; {one}" for one in self.warnings)[:400]
            raise BadFile(
                f"{self.root.name} holds nothing to rate{also}", "put sounds into it as SYSTEM/ITEM.wav, or list them"
            )
        if whole:
            self._check_missing_sounds(tests, systems, incomplete)
        checks = [i.name for i in self.items.values() if i.role in ("trap", "gold") and not i.expected]
        self._refuse(checks, "no expected answer")
        odd = [i.name for i in self.items.values() if i.expected and not self._can_be_expected(i.expected)]
        self._refuse(odd, "an expected answer that is neither a score nor a system")
        silent = [i.name for i in tests if not i.text]
        if silent:
            self.warnings.append(f"{len(silent)} of {len(tests)} items have no text to show: {', '.join(silent[:10])}")
        return StimulusManifest(
            list(self.systems.values()), list(self.items.values()), dict(self.files), self.warnings, self.traces
        )

    def _check_missing_sounds(self, tests: list[ItemSpec], systems: set[str], incomplete: bool) -> None:
        missing = {s: [i.name for i in tests if (i.name, s) not in self.files] for s in self.systems if s in systems}
        lacking = [f"system {s!r} lacks {', '.join(names)}" for s, names in missing.items() if names]
        if lacking and incomplete:
            self.warnings.append(f"incomplete: {'; '.join(lacking)}")
        elif lacking:
            do = (
                "every system says every item; add the sounds, or let systems lack texts (--incomplete, or "
                "incomplete = true)"
            )
            raise BadFile("; ".join(lacking), do)
        with_sound = {item for item, _ in self.files}
        self._refuse([i.name for i in self.items.values() if i.name not in with_sound], "no sound")
        used = {system for _, system in self.files}
        self._refuse([s for s in self.systems if s not in used], "no sound")

    def _can_be_expected(self, answer: str) -> bool:
        return answer in self.systems or _NUMBER.fullmatch(answer) is not None or bool(expected_scores(answer))

    def _refuse(self, names: list[str], what: str) -> None:
        if names:
            raise BadFile(f"{what} was given for {', '.join(names)}", "add it, or leave them out")

    def _claim(self, where: str, what: str, name: str, there: Mapping[str, Any], limit: int, new: bool) -> None:
        """Check and register a name; names may not differ only in capitals."""
        _plain(where, what, name, 80)
        with blaming(where):
            check_name(name)
        key = (what, name.casefold())
        if name not in there and key in self._first_lines:
            raise BadFile(
                f"{where}: the {what} {name!r} differs only in capitals from {self._first_lines[key]}",
                "use one spelling",
            )
        if name in there and new:
            first = self._listed.get(key, self._first_lines[key])
            if first != _EXISTING:
                raise BadFile(f"{where}: the {what} {name!r} is there twice", f"the first is {first}")
            self._listed[key] = where
        if name not in there and len(there) >= limit:
            raise BadFile(f"{where}: there are more than {limit} {what}s", "divide them into several campaigns")
        self._first_lines.setdefault(key, where)

    def _differs(self, where: str, of: str, name: str, what: str) -> BadFile:
        before = self._first_lines[of, name.casefold()]
        return BadFile(f"{where}: the {what} of {of} {name!r} differs from {before}", "give it once, or the same")

    def inside(self, where: str, file: str) -> Path:
        """The resolved path of a file. Raises BadFile if it is missing or outside the folder (by .., path or link)."""
        _plain(where, "file", file, 1000)
        slashed = file.replace("\\", "/")  # as Windows writes paths
        forms = (file, *(unicodedata.normalize(form, one) for one in (file, slashed) for form in ("NFC", "NFD")))
        try:
            existing = next((self.root / one for one in forms if (self.root / one).exists()), self.root / file)
            root, path = self.root.resolve(), existing.resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a symlink loop
            raise BadFile(f"{where}: {file!r} cannot be followed", "copy the file into the folder") from error
        if not path.is_relative_to(root):
            raise BadFile(f"{where}: {file!r} leads out of the folder {root.name!r}", "copy the file into it")
        if not path.exists():
            raise BadFile(f"{where}: there is no file {file!r}", "paths are relative to the manifest")
        return path

    def _trace(self, where: str, file: str) -> Path:
        path = self.inside(where, file)
        if not path.is_file() or path.suffix != ".trace":
            raise BadFile(f"{where}: {file!r} is not a trace", "name a file that ends in .trace, or leave it out")
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise BadFile(f"{where}: {file!r} is over {MAX_TRACE_BYTES // 2**20} MiB", "leave it out")
        return path

    def _sound(self, where: str, file: str) -> Path:
        path = self.inside(where, file)
        if not path.is_file() or path.suffix.lower() not in SUFFIXES:
            raise BadFile(f"{where}: {file!r} is not a sound file", f"they end in {', '.join(SUFFIXES)}")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise BadFile(
                f"{where}: {file!r} has {size / 2**20:.0f} MiB", f"a sound may have {MAX_FILE_BYTES // 2**20} MiB"
            )
        return path


def _role_by(name: str) -> str:
    if name.casefold() == "reference":
        return "reference"
    return "anchor" if name.casefold().startswith("anchor") else "test"


def _one_of(where: str, what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadFile(f"{where}: the {what} {value[:40]!r} is not known", f"it may be {', '.join(allowed)}")
    return value


def _plain(where: str, what: str, value: str, longest: int) -> None:
    """Reject spreadsheet formulas, control characters and lone surrogates."""
    if len(value) > longest:
        raise BadFile(f"{where}: the {what} has {len(value)} characters", f"{longest} are allowed")
    if value[:1] in tuple("=+-@"):
        raise BadFile(f"{where}: the {what} {value[:40]!r} begins with {value[0]}", "a spreadsheet would run it")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in value):
        raise BadFile(f"{where}: the {what} {value[:40]!r} holds control characters", "take them out")
