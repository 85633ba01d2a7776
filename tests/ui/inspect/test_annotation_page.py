"""Annotation on the Inspect page: pointer, keys, autosave, undo, conflicts."""

import re
from collections.abc import Callable
from typing import Any

from inspection.spoken import RATE_HZ, story
from serve.serving import eventually
from ui.annotation_page import LAYER, Page, annotate, entry, library, marks, spans
from ui.owner_site import Site
from ui.site.test_axe import violations

from studio.annotation.edits import AnnotationEdit, PutMark
from studio.annotation.layers import AnnotationMark
from studio.core.traces.trace_writer import TraceWriter
from studio.library.entries import LibraryEntry
from studio.library.index import Query
from studio.library.library import Library

__all__ = ["annotate", "entry", "library"]  # fixtures

DI = re.compile("^Di ")  # a row's name holds its link too, and links hold random letters


def near(found: list[tuple[int, int, str]], wanted: list[tuple[int, int, str]], within: int) -> bool:
    return len(found) == len(wanted) and all(
        abs(a[0] - b[0]) <= within and abs(a[1] - b[1]) <= within and a[2] == b[2]
        for a, b in zip(found, wanted, strict=True)
    )


def test_regions_and_points_by_pointer(annotate: Callable[..., Page], library: Library, entry: LibraryEntry) -> None:
    view = annotate()
    px = view.ask("viewer.scene.rateHz / 1000 / viewer.scene.axis.pxPerMs")  # samples per pixel
    view.drag("l1", 600, 1800)
    view.saved()
    assert near(spans(library, entry), [(600, 1800, "click")], int(2 * px))
    view.press("2")  # another label for the selected mark
    view.drag("l1", 1800, 2300)  # its end
    view.saved()
    assert near(spans(library, entry), [(600, 2300, "wrong prosody")], int(2 * px))
    view.drag("l1", 1500, 3000)  # its middle: the whole mark moves
    view.saved()
    assert near(spans(library, entry), [(2100, 3800, "wrong prosody")], int(3 * px))
    view.press("Escape", "1")
    view.drag("l1", 1000, 2600)  # it overlaps and gets its own row
    view.saved()
    assert near(spans(library, entry), [(1000, 2600, "click"), (2100, 3800, "wrong prosody")], int(3 * px))
    assert view.ask("annotator.lanes.get('l1').rows.length") == 2
    view.page.mouse.click(*view.point("l2", 3000))
    view.saved()
    assert near(spans(library, entry, "l2"), [(3000, 3000, "heard")], int(2 * px))
    view.press("Delete", "Control+z", "Control+z", "Control+Shift+z")
    view.saved()
    assert len(spans(library, entry, "l2")) == 1
    assert violations(view.page) == []


def test_keyboard_alone_suffices(annotate: Callable[..., Page], library: Library, entry: LibraryEntry) -> None:
    view = annotate()
    view.press("Home", "m")  # starts at the first sound
    view.ask("viewer.jump(viewer.scene.line.runs.at(-1).t_ms)")
    view.press("m")
    view.saved()
    ((start, end, label),) = spans(library, entry)
    assert (start, label) == (0, "click") and end > 1000
    view.press("2", "w", "Shift+W", "o")
    view.saved()
    step = RATE_HZ // 100
    assert spans(library, entry) == [(step + step // 10, end - step, "wrong prosody")]
    view.press("Enter")
    assert view.page.evaluate("document.activeElement.labels[0].textContent") == "Label"
    view.page.keyboard.type("odd <b>")
    view.page.keyboard.press("Enter")
    view.saved()
    assert [one[2] for one in spans(library, entry)] == ["odd <b>"]
    assert view.page.evaluate("document.activeElement.className") == "scene", "keys continue from there"
    view.press("ArrowDown", "m", "ArrowUp", ",")
    view.saved()
    assert len(spans(library, entry, "l2")) == 1
    view.press("Delete")
    view.saved()
    assert spans(library, entry) == []
    view.press(*["Control+z"] * 12)
    view.saved()
    assert spans(library, entry) == [] and spans(library, entry, "l2") == [], "everything is undone"
    view.press(*["Control+y"] * 3)
    view.saved()
    assert [one[2] for one in spans(library, entry)] == ["wrong prosody"]


def test_edges_snap_to_words(annotate: Callable[..., Page], library: Library, entry: LibraryEntry) -> None:
    view = annotate()
    view.press("x")
    view.drag("l1", 700, 2000)
    view.saved()
    ((start, end, _),) = spans(library, entry)
    sound = library.open(entry).pcm
    assert all((sound[at - 1] < 0) != (sound[at] < 0) for at in (start, end))
    view.press("x")
    view.page.get_by_label("Snap to").filter(has_text="frame").wait_for()
    view.drag("l1", 2600, 4400)
    view.saved()
    assert all(at % 600 == 0 for at in spans(library, entry)[1][:2])
    view.page.reload()
    view.page.locator(".annotation .state").wait_for()
    assert view.page.get_by_label("Snap to").input_value() == "frame", "the setting is remembered"


def test_layers_are_added_changed_and_removed(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry
) -> None:
    view = annotate("Bo")
    page = view.page
    page.get_by_role("heading", name="New layer").wait_for()
    assert violations(page) == []
    page.get_by_label("Labels, separated by commas").fill("a, b, a")
    page.get_by_role("button", name="Save layer").click()
    view.saved()
    (layer,) = library.document(entry, "Bo").layers.values()
    assert (layer.name, layer.labels) == ("faults", ("a", "b"))
    page.get_by_role("button", name="Edit the layer faults").click()
    page.get_by_label("Name", exact=True).fill("errors")
    page.keyboard.press("Enter")
    view.saved()
    assert [one.name for one in library.document(entry, "Bo").layers.values()] == ["errors"]
    page.get_by_role("button", name="Add a layer").click()
    page.get_by_label("Name", exact=True).fill("errors")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="A layer named errors exists").wait_for()
    page.keyboard.press("Escape")
    view.drag(layer_id(view), 600, 1800)
    view.saved()
    page.get_by_role("button", name="Edit the layer errors").click()
    page.get_by_role("button", name="Remove the layer").click()
    view.saved()
    assert library.document(entry, "Bo").layers == {}
    page.get_by_role("button", name="Undo").click()
    view.saved()
    (layer,) = library.document(entry, "Bo").layers.values()
    assert len(layer.marks) == 1, "with its marks"
    assert library.document(entry, "Änne").marks == 0


def layer_id(view: Page) -> str:
    return view.ask("annotator.active")


def test_two_windows_do_not_overwrite_each_other(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry, site: Site
) -> None:
    view = annotate()
    view.drag("l1", 600, 1800)
    view.saved()
    (mark,) = marks(library, entry)
    moved = AnnotationMark(100, 200, "click", "by the other window", mark.id)
    library.annotate(
        entry, "Änne", AnnotationEdit("other", (PutMark("l1", moved, library.document(entry, "Änne").revision),))
    )
    view.press("2")
    view.page.locator('.annotation .state[data-state="refused"]', has_text="changed in another window").wait_for()
    assert marks(library, entry) == [moved]
    eventually(lambda: view.ask("[...annotator.layer.marks.values()][0].note") == moved.note, "what is saved is shown")
    view.press(".", "2")
    view.saved()
    assert marks(library, entry)[0].label == "wrong prosody"


def test_failed_save_is_shown_and_retried(annotate: Callable[..., Page], library: Library, entry: LibraryEntry) -> None:
    view = annotate()
    page = view.page
    lost: list[str] = []

    def fail(route: Any) -> None:
        if len(lost) == 1:  # the edit arrives, but its response is lost
            route.fetch()
        lost.append(route.request.post_data)
        route.abort()

    page.route("**/library/annotations/edit", fail)
    view.drag("l1", 600, 1800)
    page.locator('.annotation .state[data-state="waiting"]', has_text="cannot be reached").wait_for()
    view.drag("l1", 2600, 4400)
    eventually(lambda: page.wait_for_timeout(50) or len(lost) >= 2, "it is tried again")
    assert lost[0] == lost[1], "under the same name"
    page.unroute("**/library/annotations/edit")
    view.saved()
    assert len(spans(library, entry)) == 2 and library.document(entry, "Änne").revision == 3


def test_other_annotators_files_and_agreement(
    annotate: Callable[..., Page], library: Library, entry: LibraryEntry, tmp_path: Any
) -> None:
    same = PutMark("l1", AnnotationMark(600, 1800, "click", id="m1"))
    library.annotate(
        entry, "Änne", AnnotationEdit("e1", (same, PutMark("l1", AnnotationMark(3000, 3500, "click", id="m2"))))
    )
    library.annotate(entry, "Bo", AnnotationEdit("e1", (LAYER, same)))
    view = annotate()
    page = view.page
    page.get_by_label("Bo", exact=True).check()
    view.until("viewer.scene.marked.some((lane) => lane.who === 'Bo')")
    before = library.document(entry, "Bo").to_dict()
    y = view.ask("viewer.scene.boxes['other:Bo:l1'].y")
    box = page.locator(".scene").bounding_box()
    x, _ = view.point("l1", 700)
    page.mouse.move(x, box["y"] + y + 12)
    page.mouse.down()
    page.mouse.move(x + 200, box["y"] + y + 12)
    page.mouse.up()
    view.saved()
    assert library.document(entry, "Bo").to_dict() == before, "another annotator's layers are read-only"
    page.get_by_text("Inter-annotator agreement").click()
    row = page.get_by_role("row", name="Bo, Änne")
    row.wait_for()
    assert row.locator("td").all_text_contents()[:3] == ["1", "0", "1"]
    view.until("annotator.lanes.get('l1').alone.has('m2')")
    assert violations(page) == []
    page.locator("#annotation-format").select_option("csv")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    file = tmp_path / "back.csv"
    download.value.save_as(file)
    page.set_input_files("#annotation-file", file)
    page.get_by_role("status").filter(has_text="2 layers added from back.csv").wait_for()
    names = [one.name for one in library.document(entry, "Änne").layers.values()]
    assert names[:2] == ["faults", "seams"] and "faults 2" in names
    (tmp_path / "bad.TextGrid").write_text("no TextGrid")
    page.set_input_files("#annotation-file", tmp_path / "bad.TextGrid")
    eventually(lambda: "added" not in page.locator(".annotation .message").text_content(), "the file is refused")


def test_unsaved_trace_is_added_first(site: Site, library: Library, enter: Callable[..., Any], tmp_path: Any) -> None:
    writer = TraceWriter(site.folder / "traces" / ("q" * 22), {})
    writer.write(*story())
    writer.close()
    page = enter("library")
    page.locator(".library[data-stage=open]").wait_for()
    page.goto(f"{site.url}inspect?trace={'q' * 22}")
    page.locator(".annotation").get_by_role("link", name="Save to library").click()
    page.locator(".entry form").wait_for()
    assert library.find(Query())[1] == 1
    page.goto(f"{site.url}inspect?kept={library.find(Query())[0][0].name}")
    page.get_by_label("Annotator name").fill("Cy")
    page.get_by_role("button", name="Annotate", exact=True).click()
    page.get_by_role("heading", name="New layer").wait_for()
    page.reload()
    page.get_by_role("heading", name="New layer").wait_for()
    assert page.locator(".annotation .who").text_content() == "by Cy", "the name is remembered"


def test_assignment_from_the_library_to_the_last_mark(
    site: Site, library: Library, entry: LibraryEntry, enter: Callable[..., Any], chromium: Any
) -> None:
    page = enter("library")
    page.locator(".library[data-stage=open]").wait_for()
    assert "Änne" not in page.locator(".entry").inner_text() or "(0 marks)" in page.locator(".entry").inner_text()
    page.get_by_text("Annotation assignments").click()
    page.get_by_role("button", name="New assignment").click()
    page.get_by_label("Title", exact=True).fill("Find faults")
    page.get_by_label("Instructions").fill("Mark each fault.")
    page.get_by_label("Annotators, separated by commas").fill("Di, Ed")
    assert violations(page) == []
    page.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=DI)
    row.wait_for()
    assert violations(page) == []
    link = row.locator("code").text_content()
    assert link.startswith(f"{site.url}annotate#")

    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    asked: list[str] = []
    theirs = context.new_page()
    theirs.on("pageerror", lambda error: wrong.append(str(error)))
    theirs.on("request", lambda request: asked.append(request.url))
    theirs.goto(link)
    theirs.locator(".assigned[data-stage=open]").wait_for()
    view = Page(theirs, site, entry.name)
    theirs.locator(".annotation .state").wait_for()
    view.until("viewer.scene.boxes.pitch")
    assert theirs.get_by_role("heading", name="Find faults").count() == 1
    assert theirs.locator(".masthead").count() == 0 and theirs.get_by_role("button", name="Add a layer").count() == 0
    assert not [url for url in asked if link.partition("#")[2] in url], "the token is in no requested URL"
    assert view.ask("Object.keys(viewer.view.facts.about)") == ["source"], "assignments are blind"
    assert theirs.locator(".inspect .tables").is_hidden() and "eos" not in theirs.locator(".inspect").inner_text()
    assert "next seam" not in theirs.locator(".inspect").inner_text(), "no key for what is not shown"
    assert not view.ask("'heard' in viewer.scene.boxes"), "no empty lane of words"
    theirs.locator(".assigned-list button").click()
    view.until("document.activeElement === viewer.scene.canvas")  # which takes the keys, such as Space
    view.until("viewer.annotator && viewer.scene.boxes.pitch")
    view.drag(layer_id(view), 600, 1800)
    view.saved()
    theirs.get_by_label("This utterance is done").check()
    view.saved()
    theirs.locator(".assigned-list .is-done", has_text="1 mark").wait_for()
    assert violations(theirs) == []
    document = library.document(entry, "Di")
    assert (document.marks, document.is_done) == (1, True)
    page.reload()
    page.get_by_text("Annotation assignments").click()
    page.locator(".assignments-list summary").click()
    page.get_by_role("row", name=DI).wait_for()
    assert page.get_by_role("row", name=DI).locator("td").all_text_contents()[1:] == ["1 of 1", "1", "1"]
    page.get_by_role("button", name="End the assignment").click()
    page.get_by_role("button", name="End assignment", exact=True).last.click()
    page.get_by_role("row", name=DI).wait_for(state="detached")
    theirs.reload()
    theirs.locator(".assigned .status", has_text="This link has ended").wait_for()
    theirs.goto("about:blank")
    theirs.goto(f"{site.url}annotate")
    theirs.locator(".assigned .status", has_text="opened by a link").wait_for()
    context.close()
    assert wrong == []
