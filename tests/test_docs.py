"""Files and names in the docs exist: a page that sends its reader to a file that was moved is worse than none."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "families").glob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DECIDED = ARCHITECTURE.partition("## Where is it decided?\n")[2].partition("\n## ")[0]
_CODE = re.compile(r"`([^`\s]+)`")
_SOURCE = re.compile(r"[\w.-]+(/[\w.-]+)*\.(py|js)")
_FOLDERS = ("studio/", "tests/", "assets/", "docs/")
_IN_TREE = [
    path.relative_to(ROOT).as_posix()
    for folder in _FOLDERS
    for path in [ROOT / folder, *(ROOT / folder).rglob("*")]
    if "__pycache__" not in path.parts
]


def cells(text: str) -> Iterator[str]:
    """The cells of a text's tables."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield from line.strip("|").split("|")


def paths_of(cell: str) -> list[str]:
    """The files and folders of a cell of docs/architecture.md.

    A path begins at ``studio/``, or in the folder of the path before it or one above. Raises AssertionError: there is
    no such file.
    """
    found, folder = list[str](), ROOT / "studio"
    for name in _CODE.findall(cell):
        if not (_SOURCE.fullmatch(name) or re.fullmatch(r"[a-z_]+(/[a-z_]+)+", name)):
            continue
        folders = [folder, *folder.parents]
        path = next((one / name for one in folders[: folders.index(ROOT)] if (one / name).exists()), None)
        assert path is not None, f"{name!r} of {cell.strip()!r}"
        found.append(path.relative_to(ROOT).as_posix())
        folder = path.parent
    return found


def test_the_tables_of_the_architecture_name_files_that_exist() -> None:
    found = [path for cell in cells(ARCHITECTURE) for path in paths_of(cell)]
    assert len(found) > 80
    with pytest.raises(AssertionError, match="next_part"):
        paths_of("`mos/sessions/assignment.py`, `next_part.py`")
    with pytest.raises(AssertionError, match=r"sounds\.py"):
        paths_of("`mos/sessions/assignment.py`, `sounds.py`")


def test_the_path_from_key_to_ear_has_as_many_files_as_are_counted() -> None:
    section = ARCHITECTURE.partition("## One utterance")[2].partition("\nNot shown above")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if re.match(r"\| \d", line)]
    for number, _, files in rows:
        first, _, last = number.strip().partition("-")
        assert len(paths_of(files)) == int(last or first) - int(first) + 1, files
    assert rows[-1][0].strip().endswith("31") and "These 31 files" in section


@pytest.mark.parametrize("row", [line for line in DECIDED.splitlines() if line.startswith("|")][2:])
def test_what_decides_is_in_the_file_that_is_named(row: str) -> None:
    """Every function, class and constant is in one of the files of its row."""
    _, question, where, _ = row.split("|")
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths_of(where)]
    assert texts, question
    for name in _CODE.findall(re.sub(r"\([^()]*\)", "", where)):
        if re.fullmatch(r"[A-Za-z_]+(\.[a-z_]+)?", name):
            parts = name.split(".")
            assert any(all(re.search(rf"\b{part}\b", text) for part in parts) for text in texts), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_named_on_a_page_exist(page: Path) -> None:
    """In code, the last parts of a path are enough; links are relative to the page."""
    text = page.read_text(encoding="utf-8")
    outside_blocks = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for name in _CODE.findall(outside_blocks):
        if "<" not in name and (name.startswith(_FOLDERS) or _SOURCE.fullmatch(name)):
            assert any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in _IN_TREE), name
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:|#", link):
            assert (page.parent / link.partition("#")[0]).exists(), link
