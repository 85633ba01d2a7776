"""Every page beside its stored picture, at three widths and in both themes: what must not move, has not moved.

A stored picture is a row of the page's six screenshots, each an eighth of its size and grey: small shifts of letters
disappear, and shifts of controls remain. After an intended change, look at the page and write the pictures again with
``STUDIO_WRITE_LOOKS=1 make test-slow ARGS=tests/ui/site/test_looks.py``.
"""

import io
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from ui.every_page import EVERY_PAGE, SHARED, assignment, open_every, raters
from ui.site.test_page_load import DRAWN

__all__ = ["assignment", "open_every", "raters"]
STORED = Path(__file__).with_name("looks")
WIDTHS, HEIGHT, SCALE = (390, 1280, 1920), 900, 8
DIFFERENT, MOST = 24, 0.02  # of 255 levels; the share of pixels that may differ by more
# Figures, times and addresses of the server, which differ from run to run.
CHANGING = "canvas, time, .owner-plot, .chip, [data-figure], .campaign-times, .load-figures, output, .sub"
NAMES = {"": "live", SHARED: "shared", "?stage": "stage", "nothing-here": "error"}  # of pictures, where not the path


def looks(page: Any) -> np.ndarray:
    """The six screenshots of an open page in a row, [H, W] of grey levels."""
    parts: list[np.ndarray] = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.evaluate("() => { scrollTo(0, 0); document.activeElement?.blur(); }")
            page.wait_for_function(
                "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
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


@pytest.fixture
def opened(open_every: Callable[..., Any], path: str) -> Any:
    page = open_every(path, viewport={"width": 1280, "height": HEIGHT}, timezone_id="UTC", reduced_motion="reduce")
    if path == "results":
        page.wait_for_function(DRAWN)
    return page


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_page_looks_as_its_stored_picture(opened: Any, path: str, tmp_path: Path) -> None:
    seen, stored = looks(opened), STORED / f"{NAMES.get(path, path)}.png"
    if os.environ.get("STUDIO_WRITE_LOOKS"):
        Image.fromarray(seen.astype(np.uint8)).save(stored, optimize=True)
    share = different(seen, np.asarray(Image.open(stored), np.int16))
    Image.fromarray(seen.astype(np.uint8)).save(tmp_path / stored.name)
    assert share <= MOST, f"compare {tmp_path / stored.name} with {stored}"


@pytest.mark.parametrize("path", ["inspect"])
def test_moved_control_is_seen(opened: Any) -> None:
    before = looks(opened)
    assert different(before, looks(opened)) <= MOST / 4
    opened.add_style_tag(content="main { padding-block-start: 40px !important }")
    assert different(before, looks(opened)) > MOST
