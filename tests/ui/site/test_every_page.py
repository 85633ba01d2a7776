"""Every page is opened once for what all share: title, weight, shifts, skip link, looks, zoom and accessibility.

A stored picture is a row of the page's six screenshots, at three widths and in both themes, each an eighth of its size
and grey: small shifts of letters disappear, and shifts of controls remain. After an intended change, look at the page
and write the pictures again with ``STUDIO_WRITE_LOOKS=1 make test-slow ARGS=tests/ui/site/test_every_page.py``.
"""

import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspection.spoken import story
from PIL import Image
from ui.conftest import Server
from ui.owner_site import Site
from ui.site.test_axe import violations
from ui.site.test_page_load import (
    COMPONENTS,
    DOCUMENTS,
    DRAWN,
    PAGES,
    READY,
    Opening,
    check_shifts,
    check_weight,
    watched,
)
from ui.waits import comes_to

from studio.core.traces.trace_writer import TraceWriter
from studio.library.library import Library
from studio.ui.assets import asset_path

SHARED = f"?heard={'a' * 22}&text=hello"  # a link whose recording is gone
NAVIGATED = (*(path for path in DOCUMENTS if path != "rate"), SHARED, *COMPONENTS, "api")
ALONE = ("?stage", "rate", "annotate", "arena", "offline", "nothing-here")  # without navigation
SHOWN = READY | {
    SHARED: '.shared button[aria-label="Speak it again"]',
    "?stage": ".talk-texts button",
    "annotate": ".assigned[data-stage=open] ~ .inspect[data-state=open]",
    "arena": "a[href]",
    "compare": ".compare .ways button",
    "edit": ".kind-card",
    "engine": "#engine-load .owner-card",
    "inspect": ".inspect",
    "offline": "h1",
    "rate": ".rate:not([data-stage=loading])",
}
TITLES = {
    "": "Live",
    "inspect": "Inspect",
    "compare": "Compare",
    "sign-in": "Sign in",
    "campaigns": "Listening tests",
    "results": "Results",
    "engine": "Engine",
    "rate": "Listening test",
}
STORED = Path(__file__).with_name("looks")
WIDTHS, HEIGHT, SCALE = (390, 1280, 1920), 900, 8
DIFFERENT, MOST = 24, 0.02  # of 255 levels; the share of pixels that may differ by more
# Figures, times and addresses of the server, which differ from run to run.
CHANGING = "canvas, time, .owner-plot, .chip, [data-figure], .campaign-times, .load-figures, output, .sub"
NAMES = {"": "live", SHARED: "shared", "?stage": "stage", "nothing-here": "error"}  # of pictures, where not the path
# The Live page has the field in focus at its start; this is where Tab begins on a page without that.
TO_START = """() => {
  const first = document.createElement('i');
  first.tabIndex = -1;
  document.body.prepend(first);
  first.focus();
  first.remove();
}"""
FOCUSED = "document.activeElement"
ZOOMED = (640, 450)  # a window of 1280 x 900 at 200% has half as many CSS pixels
CLIPPED = """() => {
  const scrolls = (one) => /auto|scroll/.test(getComputedStyle(one).overflowX);
  const isInScroller = (one) => {
    for (let at = one.parentElement; at && at !== document.body; at = at.parentElement) if (scrolls(at)) return true;
    return false;
  };
  const controls = document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary');
  return [...controls]
    .filter((one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .filter((one) => !one.matches('.skip') && !one.closest('.sr-only') && !isInScroller(one))
    .filter((one) => {
      const box = one.getBoundingClientRect();
      const isOut = box.width > 1 && (box.left < -0.5 || box.right > innerWidth + 0.5);
      const isWider = one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
      const isCut = one.matches('button') && isWider;
      return isOut || isCut;
    })
    .map((one) => one.outerHTML.slice(0, 200));
}"""


@pytest.fixture(scope="module")
def raters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Listening tests without a vote."""
    folder = tmp_path_factory.mktemp("raters")
    server = Server(folder, str(folder), script="ui/rate_server.py")
    yield server
    server.stop()


@pytest.fixture
def assignment(site: Site, tmp_path: Path) -> Iterator[str]:
    """An annotator's link; the library is empty again afterwards."""
    library = Library(site.folder / "library")
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    entry = library.add(writer.close().read_bytes(), title="typed")
    layers = [{"name": "faults", "kind": "regions", "labels": ["click"]}]
    body = {"title": "Find faults", "layers": layers, "utterances": [entry.name], "annotators": ["Di"]}
    made = json.loads(site.post("library/assignments", body, token=site.token))
    yield site.url + made["people"][0]["link"]
    site.post("library/assignments/remove", {"id": made["id"]}, token=site.token)
    library.remove(entry)
    library.close()


@pytest.fixture
def opened(site: Site, opening: Opening, path: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page in a context of its own, signed in as the owner; it may log no error and call no other host."""
    context = opening(viewport={"width": 1280, "height": HEIGHT}, timezone_id="UTC")
    site.sign_in(context)
    page = watched(context.new_page())
    root = request.getfixturevalue("raters").url if path == "arena" else site.url
    offline = f"{asset_path()[1:]}/page/offline/en.html"
    address = (
        request.getfixturevalue("assignment") if path == "annotate" else root + {"offline": offline}.get(path, path)
    )
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((root, "data:", "blob:")) else wrong.append(r.url))
    page.goto(address)
    page.locator(SHOWN.get(path, "main")).first.wait_for(state="attached")
    if path != SHARED:  # nobody reads the 404 of its recording, so the network never counts as idle
        page.wait_for_load_state("networkidle")  # Gradio sets its own title when its page has loaded
    if path == "results":
        page.wait_for_function(DRAWN)
        page.wait_for_function("() => !document.querySelector('.owner-plot .empty')")
    yield page
    assert wrong == []


def resize(page: Any, width: int, height: int = HEIGHT) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(f"() => {{ scrollTo(0, 0); {FOCUSED}?.blur(); }}")
    page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def looks(page: Any) -> np.ndarray:
    """The six screenshots of an open page in a row, [H, W] of grey levels."""
    parts: list[np.ndarray] = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width in WIDTHS:
            resize(page, width)
            png = page.screenshot(animations="disabled", mask=[page.locator(CHANGING)], mask_color="#808080")
            image = Image.open(io.BytesIO(png)).convert("L")
            size = (width // SCALE, HEIGHT // SCALE)
            parts.append(np.asarray(image.resize(size, Image.Resampling.BOX), np.int16))
    return np.concatenate(parts, axis=1)


def different(one: np.ndarray, other: np.ndarray) -> float:
    """The largest share of different pixels in a screenshot of the row."""
    assert one.shape == other.shape
    edges = np.cumsum([0, *(width // SCALE for width in (*WIDTHS, *WIDTHS))])
    wrong = np.abs(one - other) > DIFFERENT
    return max(float(wrong[:, a:b].mean()) for a, b in itertools.pairwise(edges))


def check_skip_link(page: Any) -> None:
    """The first Tab leads to a link that skips the navigation."""
    address = page.url
    if page.evaluate(f"{FOCUSED} !== document.body"):
        assert page.evaluate(f"{FOCUSED}.closest('main') !== null"), "the content has the focus already"
        page.evaluate(TO_START)
    link = page.get_by_role("link", name="Skip to the page")
    assert not page.evaluate("(one) => one.getBoundingClientRect().right > 0", link.element_handle())
    page.keyboard.press("Tab")
    assert link.evaluate(f"(one) => one === {FOCUSED}")
    box = link.bounding_box()
    assert box["x"] >= 0 and box["y"] >= 0, "it is visible while it has the focus"
    page.keyboard.press("Enter")
    assert page.evaluate(f"{FOCUSED}.matches('main, main .owner')")
    assert page.url == address, "pages read the fragment of their address"
    page.keyboard.press("Tab")
    assert not page.evaluate(f"{FOCUSED}.closest('.masthead')"), "the next Tab is in the content"


def check_looks(page: Any, path: str, folder: Path) -> None:
    """It looks as its stored picture: what must not move, has not moved."""
    seen, stored = looks(page), STORED / f"{NAMES.get(path, path)}.png"
    if os.environ.get("STUDIO_WRITE_LOOKS"):
        Image.fromarray(seen.astype(np.uint8)).save(stored, optimize=True)
    share = different(seen, np.asarray(Image.open(stored), np.int16))
    Image.fromarray(seen.astype(np.uint8)).save(folder / stored.name)
    assert share <= MOST, f"compare {folder / stored.name} with {stored}"


def check_zoom(page: Any) -> None:
    """At 200% it can be read and used: nothing scrolls sideways, and no control is clipped (WCAG 1.4.4)."""
    resize(page, *ZOOMED)
    comes_to(lambda: page.evaluate("document.documentElement.scrollWidth") <= ZOOMED[0], True)
    comes_to(lambda: page.evaluate(CLIPPED), [])


@pytest.mark.slow
@pytest.mark.parametrize("path", (*NAVIGATED, *ALONE))
def test_page(opened: Any, path: str, tmp_path: Path) -> None:
    if path in TITLES:
        comes_to(opened.title, f"{TITLES[path]} · Streaming-TTS Studio")
    if path in DOCUMENTS:
        check_weight(opened)
    if path in PAGES:
        check_shifts(opened)
    if path in ALONE:
        assert opened.get_by_role("navigation").count() == 0
        assert opened.locator(".skip:visible").count() == 0
    else:
        check_skip_link(opened)
    check_looks(opened, path, tmp_path)
    opened.emulate_media(color_scheme="light")
    check_zoom(opened)
    if path == "results":
        assert violations(opened) == [], "its tables scroll"
    resize(opened, 390 if path in ("sign-in", "glossary", "nothing-here") else 1280)
    opened.evaluate("document.querySelectorAll('.edit details').forEach((one) => (one.open = true))")
    if path != "offline":  # text alone
        assert violations(opened) == []


@pytest.mark.parametrize("path", ["inspect"])
def test_moved_control_is_seen(opened: Any) -> None:
    before = looks(opened)
    assert different(before, looks(opened)) <= MOST / 4
    opened.add_style_tag(content="main { padding-block-start: 40px !important }")
    assert different(before, looks(opened)) > MOST


@pytest.mark.parametrize("path", ["glossary"])
def test_control_beyond_the_edge_is_found(opened: Any) -> None:
    check_zoom(opened)
    opened.evaluate("document.querySelector('.masthead .theme').style.translate = '60px'")
    opened.evaluate(
        "document.querySelector('main').append(Object.assign(document.createElement('button'), "
        "{ textContent: 'cut off', style: 'inline-size: 20px; overflow: hidden; white-space: nowrap' }))"
    )
    assert len(opened.evaluate(CLIPPED)) == 2
