"""Bundles of the pages' scripts: a module and all its imports, as one script.

Each module becomes a block with its own scope, in dependency order, so that no build step and no other tool is needed.
The modules keep to a subset that this allows: named exports of declarations, named imports of files, no cycles, and no
``export let`` that is reassigned.
"""

import json
import re
from functools import lru_cache
from pathlib import Path

WIDGETS = Path(__file__).parent / "widgets"
_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"(\.[^"]+)";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const|let) ([A-Za-z_$][\w$]*))", re.M)
_REST = re.compile(r"^(?:import|export)\b.*$", re.M)


@lru_cache
def bundle(path: str) -> str:
    """The script of a module and its imports; the module's own exports stay exports.

    Args:
        path: the module, relative to ``widgets``.

    Raises:
        ValueError: a module imports or exports in a way that bundles do not support.
    """
    modules = sources(path)
    (main, source), others = modules[-1], modules[:-1]
    blocks = [f"{_block(name, text)}" for name, text in others]
    head = "const $modules = {};\n" if others else ""
    return head + "".join(blocks) + _check(_import_lines(main, source), main, is_main=True)


def _block(path: str, source: str) -> str:
    """A module as a block: its imports are constants, its exports are stored by the module's path."""
    exported = ", ".join(_EXPORT.findall(source))
    body = _check(_EXPORT.sub("", _import_lines(path, source)), path)
    return f"{{ // {path}\n{body}\n$modules[{json.dumps(path)}] = {{ {exported} }};\n}}\n"


def _import_lines(path: str, source: str) -> str:
    """A module with each import replaced by a constant; the number of lines stays the same."""

    def constant(match: re.Match[str]) -> str:
        names = re.sub(r"\s+as\s+", ": ", match[1] or "").replace("\n", " ")
        lines = "\n" * match[0].count("\n")
        return f"const {{{names}}} = $modules[{json.dumps(_resolve(path, match[2]))}];{lines}"

    return _IMPORT.sub(constant, source)


def _check(source: str, path: str, *, is_main: bool = False) -> str:
    """The source. Raises ValueError if it still has an import or export."""
    left = _EXPORT.sub("", source) if is_main else source
    if match := _REST.search(left):
        raise ValueError(f"{path}: bundles do not support {match[0]!r}")
    return source


def sources(start: str) -> list[tuple[str, str]]:
    """Path and source of a module and its imports, in dependency order."""
    source_of: dict[str, str] = {}

    def visit(path: str) -> None:
        source = (WIDGETS / path).read_text(encoding="utf-8")
        for _, other in _IMPORT.findall(source):
            if (needed := _resolve(path, other)) not in source_of:
                visit(needed)
        source_of[path] = source

    visit(start)
    return [*source_of.items()]


def _resolve(path: str, other: str) -> str:
    """The path of an import in a module, relative to ``widgets``."""
    return (WIDGETS / path).parent.joinpath(other).resolve().relative_to(WIDGETS.resolve()).as_posix()
