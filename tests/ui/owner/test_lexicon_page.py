"""The owner adds, hears, changes, deletes, imports and exports words on the Lexicon page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ui.owner_site import Site
from ui.site.test_axe import violations


@pytest.fixture
def page(enter: Callable[..., Any]) -> Any:
    opened = enter("lexicon")
    opened.locator(".lexicon[data-stage=open]").wait_for()
    return opened


def add(page: Any, word: str, reading: str) -> None:
    page.get_by_label("Word", exact=True).fill(word)
    page.get_by_label("Spoken as").fill(reading)
    page.get_by_role("button", name="Add", exact=True).click()


def test_words_are_added_heard_changed_and_deleted(page: Any) -> None:
    add(page, "GIF", "/bøf/")
    page.get_by_text("the nearest is").wait_for()
    add(page, "GIF", "/dʒɪf/")
    page.get_by_text("GIF is added.").wait_for()
    with page.expect_response("**/v1/audio/speech") as spoken:
        page.get_by_role("button", name="Hear gif").click()
    assert spoken.value.status == 200 and len(spoken.value.body()) > 1000
    page.get_by_text("gif, spoken by").wait_for()
    page.get_by_role("button", name="Change gif").click()
    page.get_by_label("Spoken as").fill("jiff")
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator("li[data-word=gif]", has_text="jiff").wait_for()
    assert violations(page) == []
    page.reload()
    page.locator("li[data-word=gif]", has_text="jiff").wait_for()
    page.get_by_role("button", name="Delete gif").click()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_text("gif is deleted.").wait_for()
    assert page.locator("li[data-word=gif]").count() == 0


def test_a_file_goes_in_and_out(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("# mine\nnginx  engine x\nSQL sequel\n", encoding="utf-8")
    page.get_by_label("Import a file").set_input_files(file)
    page.get_by_text("2 words imported.").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename == "lexicon.txt"
    assert "nginx engine x\nsql sequel\n" in Path(saved.value.path()).read_text(encoding="utf-8")
    file.write_bytes(b"\xff\xfe")
    page.get_by_label("Import a file").set_input_files(file)
    page.get_by_text("no text in UTF-8").wait_for()


def test_others_are_refused(site: Site) -> None:
    for path, body in (("lexicon/entries", {"word": "a", "reading": "b"}), ("lexicon/remove", {"word": "a"})):
        assert '"forbidden"' in site.post(path, body) and '"forbidden"' in site.post(path, body, token="wrong")


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(enter: Callable[..., Any], width: int, scheme: str) -> None:
    page = enter("lexicon", viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.locator(".lexicon[data-stage=open]").wait_for()
    add(page, "Llanfairpwllgwyngyllgogerychwyrndrobwll", "lan vire " * 20)
    page.get_by_text("is added.").wait_for()
    add(page, "GIF", "/dʒɪf/")
    page.get_by_text("GIF is added.").wait_for()
    right = "Math.max(...[...document.querySelectorAll('.lexicon *')].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(right) <= width
    assert violations(page) == []
