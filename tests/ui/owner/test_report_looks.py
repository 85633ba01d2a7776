"""The one-file report in a browser: phone and desktop, light and dark."""

import random
from pathlib import Path
from typing import Any

import pytest
from mos.rated import CHECKED, PAIRS, a_world, rate
from mos.rated import campaign as campaign_of
from mos.recommended import campaign, results_of, screens, send, systems_of

from studio.mos.report.page import html

# Per drawing: number shown, marks beyond its edge, the smallest letters.
_LOOK = """() => [...document.querySelectorAll('figure')].map((figure) => {
  const place = figure.getBoundingClientRect();
  const shown = [...figure.querySelectorAll('svg')].filter((svg) => svg.getBoundingClientRect().width > 0);
  const parts = shown.flatMap((svg) => [...svg.querySelectorAll('text, circle, rect, line')]);
  const beyond = parts.filter((part) => {
    const at = part.getBoundingClientRect(), sheet = part.ownerSVGElement.getBoundingClientRect();
    return at.left < sheet.left - 1.5 || at.right > sheet.right + 1.5 || at.bottom > place.bottom;
  });
  const letters = Math.min(...shown.map((svg) => 12 * svg.getScreenCTM().a));
  const scrolls = figure.scrollWidth > figure.clientWidth;
  return { shown: shown.length, parts: parts.length, beyond: beyond.map((p) => p.outerHTML), letters, scrolls };
})"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Degradation with a reference at the top of the scale; scores and pairs of six raters."""
    folder = tmp_path_factory.mktemp("reports")
    world, rng = a_world(folder), random.Random(1)
    campaign(world, folder / "dcr", "dcr", raters_per_stimulus=2, trials_per_sitting=6)
    for who in range(4):
        rater = world.begin(f"rater {who}", "dcr")
        for shown in screens(rater):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            send(world, rater, shown, {0: 5 if by_slot[0] == "reference" else rng.randint(1, 4)}, None)
    campaign_of(world, folder / "mos", CHECKED, "mos", ("trap", "gold"))
    campaign_of(world, folder / "ab", PAIRS, "ab")
    for who in range(6):
        rate(world, f"rater {who}", "mos")
        rate(world, f"rater {who}", "ab")
    found = {name: folder / f"{name}.html" for name in ("dcr", "mos", "ab")}
    for name, path in found.items():
        path.write_text(html(results_of(world, name)), encoding="utf-8")
    return found


@pytest.mark.parametrize("name", ["dcr", "mos", "ab"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light")])
def test_every_drawing_is_complete_and_legible(
    chromium: Any, reports: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """One drawing per chart, nothing beyond its edge, letters of 11 pixels or more."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.goto(reports[name].as_uri())
        figures = page.evaluate(_LOOK)
        assert len(figures) >= 2
        for figure in figures:
            assert figure["shown"] == 1 and figure["parts"] > 5
            assert figure["beyond"] == [] and not figure["scrolls"]
            assert figure["letters"] >= 11
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ink, paper = page.evaluate(
            "['.label', 'section'].map((s) => document.querySelector(s)).map((e, k) => "
            "getComputedStyle(e)[k ? 'backgroundColor' : 'fill'])"
        )
        bright = [sum(map(int, colour.strip("rgb()").split(","))) / 3 for colour in (ink, paper)]
        assert abs(bright[0] - bright[1]) > 150 and (bright[0] > bright[1]) == (scheme == "dark")
    finally:
        context.close()
