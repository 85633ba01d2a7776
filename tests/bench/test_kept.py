"""Speech that is kept for evaluations is of the code that would speak now."""

from pathlib import Path

import pytest

from studio.bench.answer_cache import code_digest, speaking_code


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in ("core", "engine/families", "text", "ui"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "one.py").write_text("ONE = 1\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("where", ["core/one.py", "engine/families/one.py", "text/one.py", "engine/two.py"])
def test_code_that_speaks_is_known_by_its_content(package: Path, where: str) -> None:
    before = code_digest(package)
    (package / where).write_text("ONE = 2\n", encoding="utf-8")
    assert code_digest(package) != before


def test_where_a_line_stands_counts(package: Path) -> None:
    before = code_digest(package)
    (package / "engine" / "families" / "one.py").rename(package / "engine" / "one.py")
    assert code_digest(package) != before


def test_what_speaks_nothing_changes_nothing(package: Path) -> None:
    before = code_digest(package)
    (package / "ui" / "one.py").write_text("ONE = 2\n", encoding="utf-8")
    (package / "engine" / "notes.md").write_text("Notes.", encoding="utf-8")
    assert code_digest(package) == before


def test_the_studio_s_own_is_asked_once() -> None:
    assert speaking_code() == speaking_code() and len(speaking_code()) == 64
