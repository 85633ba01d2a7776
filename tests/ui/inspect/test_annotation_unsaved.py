"""Unsaved changes stay on the page and in the browser, whatever the server answers."""

from collections.abc import Callable
from typing import Any

import pytest
from serve.serving import eventually
from ui.annotation_page import Page, annotate, entry, library, marks
from ui.site.test_axe import violations

from studio.annotation.edits import AnnotationEdit, PutMark
from studio.annotation.layers import AnnotationMark
from studio.library.entries import LibraryEntry
from studio.library.library import Library

__all__ = ["annotate", "entry", "library"]  # fixtures


@pytest.mark.parametrize("status", [404, 503, 0])
def test_transient_failure_is_retried(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry, status: int
) -> None:
    """A library under rebuild or restore answers 404 for a while: the page drops nothing."""
    view = annotate()
    page = view.page
    tries: list[int] = []

    def fail(route: Any) -> None:
        tries.append(status)
        route.fulfill(status=status, json={"code": "x", "message": "not just now"}) if status else route.abort()

    page.route("**/library/annotations/edit", fail)
    view.drag("l1", 600, 1800)
    page.locator('.annotation .state[data-state="waiting"]', has_text="Retrying").wait_for()
    eventually(lambda: page.wait_for_timeout(50) or len(tries) >= 2, "it is tried again")
    assert view.ask("annotator.document.marks") == 1 and marks(library, entry) == []
    page.unroute("**/library/annotations/edit")
    view.saved()
    assert len(marks(library, entry)) == 1


def refusing(status: int) -> Callable[[Any], None]:
    """Answer a call with a status and a message."""
    return lambda route: route.fulfill(status=status, json={"code": "x", "message": f"no, {status}"})


def test_refusal_keeps_the_marks(annotate: Callable[..., Page], library: Library, entry: LibraryEntry) -> None:
    view = annotate()
    page = view.page
    refused = page.locator('.annotation .state[data-state="refused"]')
    for count, status in enumerate((403, 413, 422, 418), 1):
        page.route("**/library/annotations/edit", refusing(status))
        view.drag("l1", 600 * count, 600 * count + 400)
        refused.filter(has_text=f"no, {status}").wait_for()
        assert len(marks(library, entry)) == count - 1 and view.ask("annotator.document.marks") == count
        page.unroute("**/library/annotations/edit")
        assert violations(page) == []
        page.get_by_role("button", name="Try again").click()
        view.saved()
        assert len(marks(library, entry)) == count and page.get_by_role("button", name="Try again").count() == 0
    page.route("**/library/annotations/edit", refusing(403))
    view.press(".", "Delete")
    refused.wait_for()
    page.unroute("**/library/annotations/edit")
    page.get_by_role("button", name="Discard my changes").click()
    page.locator('.annotation .state[data-state="saved"]').wait_for()
    assert view.ask("annotator.document.marks") == len(marks(library, entry)) == 4


@pytest.mark.parametrize("status", [503, 403])
def test_reload_keeps_unsaved_changes(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry, status: int
) -> None:
    view = annotate()
    page = view.page
    page.on("dialog", lambda dialog: dialog.accept())  # it asks before unloading
    page.route("**/library/annotations/edit", refusing(status))
    view.drag("l1", 600, 1800)
    view.drag("l1", 2600, 4400)
    page.locator('.annotation .state:is([data-state="waiting"], [data-state="refused"])').wait_for()
    page.unroute("**/library/annotations/edit")
    view.open().saved()
    assert len(marks(library, entry)) == 2 and view.ask("annotator.document.marks") == 2
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('studio-unsaved'))") == []


def test_conflict_merges_what_fits_and_offers_the_rest(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry
) -> None:
    view = annotate()
    view.drag("l1", 600, 1800)
    view.saved()
    (mark,) = marks(library, entry)
    page = view.page
    page.route("**/library/annotations/edit", lambda route: route.abort())
    view.press("2")
    view.drag("l1", 2600, 4400)
    page.locator('.annotation .state[data-state="waiting"]').wait_for()
    moved = AnnotationMark(100, 200, "click", "by the other window", mark.id)
    library.annotate(
        entry, "Änne", AnnotationEdit("other", (PutMark("l1", moved, library.document(entry, "Änne").revision),))
    )
    page.unroute("**/library/annotations/edit")
    page.get_by_text("One of your changes is not applied").wait_for()
    eventually(lambda: len(marks(library, entry)) == 2, "the new mark is saved")
    assert moved in marks(library, entry)
    page.get_by_role("button", name="Use mine").click()
    view.saved()
    (mine,) = [one for one in marks(library, entry) if one.id == mark.id]
    assert mine.label == "wrong prosody" and abs(mine.start_sample - mark.start_sample) < 5
