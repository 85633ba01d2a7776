"""At 200% zoom every page can be read and used: nothing scrolls sideways, and no control is clipped (WCAG 1.4.4)."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.every_page import EVERY_PAGE, assignment, open_every, raters

__all__ = ["assignment", "open_every", "raters"]
# A window of 1280 x 900 at 200%: half as many CSS pixels, each of four.
ZOOMED = {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2}
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


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY_PAGE)
def test_nothing_is_cut_off_at_200_per_cent(open_every: Callable[..., Any], path: str) -> None:
    page = open_every(path, **ZOOMED)
    assert page.evaluate("document.documentElement.scrollWidth") <= ZOOMED["viewport"]["width"]
    assert page.evaluate(CLIPPED) == []


def test_control_beyond_the_edge_is_found(open_every: Callable[..., Any]) -> None:
    page = open_every("glossary", **ZOOMED)
    assert page.evaluate(CLIPPED) == []
    page.evaluate("document.querySelector('.masthead .theme').style.translate = '60px'")
    page.evaluate(
        "document.querySelector('main').append(Object.assign(document.createElement('button'), "
        "{ textContent: 'cut off', style: 'inline-size: 20px; overflow: hidden; white-space: nowrap' }))"
    )
    assert len(page.evaluate(CLIPPED)) == 2
