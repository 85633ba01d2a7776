"""The Inspect page with an annotated library utterance; its fixtures are imported by tests."""

from collections.abc import Callable
from typing import Any

import pytest
from inspection.spoken import RATE_HZ, story
from serve.serving import eventually
from ui.owner_site import Site

from studio.annotation.edits import AnnotationEdit, PutLayer
from studio.annotation.layers import AnnotationMark
from studio.core.traces.trace_writer import TraceWriter
from studio.library.entries import LibraryEntry
from studio.library.index import Query
from studio.library.library import Library

LAYER = PutLayer("l1", "faults", "regions", ("click", "wrong prosody"))
POINTS = PutLayer("l2", "seams", "points", ("heard",))


@pytest.fixture(autouse=True)
def library(site: Site) -> Any:
    found = Library(site.folder / "library")
    for one in found.find(Query(limit=1000))[0]:
        found.remove(one)
    yield found
    found.close()


@pytest.fixture
def entry(library: Library, tmp_path: Any) -> LibraryEntry:
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    kept = library.add(writer.close().read_bytes(), title="typed")
    library.annotate(kept, "Änne", AnnotationEdit("e0", (LAYER, POINTS)))
    return kept


class Page:
    """The Inspect page with a library utterance in it."""

    def __init__(self, page: Any, site: Site, name: str) -> None:
        self.page = page
        self.site, self.name = site, name

    def open(self, annotator: str = "Änne") -> "Page":
        self.page.goto(f"{self.site.url}inspect?kept={self.name}&annotator={annotator}")
        self.page.locator(".annotation .state").wait_for()
        self.until("viewer.scene.boxes.pitch")  # rendered last, and moves what is below
        return self

    def ask(self, script: str) -> Any:
        viewer = "const viewer = document.querySelector('.inspect').viewer; const { annotator } = viewer;"
        return self.page.evaluate(f"() => {{ {viewer} return {script}; }}")

    def until(self, script: str) -> None:
        eventually(lambda: self.ask(script), script)

    def point(self, layer: str, sample: int, row: int = 0) -> tuple[float, float]:
        """Page coordinates of a sample in the lane of a layer."""
        canvas = self.page.locator(".scene")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        run = f"viewer.scene.line.runs.findLast((run) => run.start <= {sample})"
        x = self.ask(f"viewer.scene.axis.x({run}.t_ms + ({sample} - {run}.start) * 1000 / {RATE_HZ})")
        y = self.ask(f"viewer.scene.boxes['{layer}'].y") + 5 + 22 * row + 9
        return box["x"] + x, box["y"] + y

    def drag(self, layer: str, start: int, end: int, row: int = 0) -> None:
        mouse = self.page.mouse
        mouse.move(*self.point(layer, start, row))
        mouse.down()
        mouse.move(*self.point(layer, (start + end) // 2, row))
        mouse.move(*self.point(layer, end, row))
        mouse.up()

    def press(self, *keys: str) -> None:
        self.page.locator(".scene").focus()
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> "Page":
        self.page.locator('.annotation .state[data-state="saved"]').wait_for()
        eventually(lambda: self.ask("annotator.saver.isSaved"), "all is saved")
        return self


def marks(library: Library, entry: LibraryEntry, layer: str = "l1", annotator: str = "Änne") -> list[AnnotationMark]:
    return sorted(library.document(entry, annotator).layers[layer].marks.values())


def spans(library: Library, entry: LibraryEntry, layer: str = "l1") -> list[tuple[int, int, str]]:
    return [(one.start_sample, one.end_sample, one.label) for one in marks(library, entry, layer)]


@pytest.fixture
def annotate(site: Site, entry: LibraryEntry, enter: Callable[..., Any]) -> Callable[..., Page]:
    def start(annotator: str = "Änne", **options: Any) -> Page:
        page = enter("library", **options)
        page.locator(".library[data-stage=open]").wait_for()
        return Page(page, site, entry.name).open(annotator)

    return start
