"""A comparison as one HTML file: sounds, picture, differences and scripts in it, and nothing fetched from anywhere."""

from pathlib import Path

from studio.inspection.comparison.bundle import pack, pack_difference, pack_words
from studio.inspection.comparison.compare import Comparison, pairs_of
from studio.ui.inspection_file import whole_page, write_page

_STYLES = ("inspect/inspect.css", "compare/compare.css")


def comparison_file(found: Comparison, name: str) -> str:
    """The page of a comparison; ``name`` is its title."""
    parts = {"bundle": pack(found), "words": pack_words(found)}
    for stretch in (False, True) if found.can_stretch else (False,):
        for one, other in pairs_of(len(found.takes)):
            parts[f"difference-{other}-{one}-{str(stretch).lower()}"] = pack_difference(
                found, other, one, stretch=stretch
            )
    return whole_page(name, parts, "compare/file.js", "compare/compare.html", _STYLES)


def write_comparison(found: Comparison, path: Path) -> None:
    """Write the page of a comparison. Raises BadFile where it cannot be."""
    write_page(comparison_file(found, path.stem), path)
