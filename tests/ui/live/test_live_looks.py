"""Layout of the Live page: narrow, wide, light, dark, reduced motion."""

import re
from collections.abc import Callable

import pytest
from ui.live_page import LivePage

TEXT = "Speech flows from words as they arrive. "
AA = 4.5
ON_PANEL = ("ink", "muted", "accent", "stall", "warn", "good")


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_no_width_scrolls_sideways(visit: Callable[..., LivePage], width: int) -> None:
    live = visit(viewport={"width": width, "height": 844})
    live.paste(f"{TEXT}{'w' * 90} end ")
    live.wait_lit(1)
    assert live.page.evaluate("document.documentElement.scrollWidth") <= width
    used = live.page.locator(".live").bounding_box()["width"]
    assert used > 0.9 * width, "wide screens are used"


def _luminance(colour: str) -> float:
    channels = [int(part, 16) / 255.0 for part in re.findall("..", colour.lstrip("#"))]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_sufficient(visit: Callable[..., LivePage], theme: str) -> None:
    live = visit(color_scheme=theme)
    assert live.page.evaluate("document.body.classList.contains('dark')") == (theme == "dark")
    script = "name => getComputedStyle(document.body).getPropertyValue('--' + name).trim()"
    colour = {
        name: live.page.evaluate(script, name)
        for name in (*ON_PANEL, "panel", "paper", "faint", "accent-ink", "accent-soft")
    }
    pairs = [(name, "panel") for name in ON_PANEL]
    pairs += [
        ("ink", "paper"),
        ("muted", "paper"),
        ("muted", "faint"),
        ("accent-ink", "accent"),
        ("ink", "accent-soft"),
    ]
    for front, back in pairs:
        assert _contrast(colour[front], colour[back]) >= AA, (front, back)


def test_spectrogram_changes_with_the_theme(live: LivePage) -> None:
    live.paste(TEXT)
    live.wait_lit(2)
    # Near the upper right edge, where no sound is drawn.
    script = """() => {
      const canvas = document.querySelector('.scope');
      const [r, g, b] = canvas.getContext('2d').getImageData(canvas.width - 3, 45, 1, 1).data;
      return r + g + b;
    }"""
    live.page.wait_for_function(f"() => ({script})() > 600")
    live.page.locator(".theme").click()
    live.page.wait_for_function(f"() => ({script})() < 150")
    live.page.reload()
    live.page.wait_for_selector("body.dark", state="attached")


def test_spectrogram_shows_the_sound(live: LivePage) -> None:
    live.paste(TEXT)
    live.finish(spoken=1)
    # The low speaker's tone of 220 Hz is near the bottom; the top is empty.
    script = """() => {
      const canvas = document.querySelector('.scope');
      const paint = canvas.getContext('2d');
      const at = (share) => paint.getImageData(60, Math.round(30 + share * (canvas.height - 58)), 1, 1).data[0];
      return [at(0.25), Math.min(...Array.from({ length: 40 }, (_, k) => at(0.8 + k / 200)))];
    }"""
    top, tone = live.page.evaluate(script)
    assert top > 240
    assert tone < 90


def test_resized_canvas_is_never_shown_empty(live: LivePage) -> None:
    """A resized canvas is black until it is drawn; the browser may show it before the next frame."""
    live.paste(TEXT)
    live.wait_lit(2)
    script = """() => {
      const { scope } = document.querySelector('.live').tap.page;
      const at = () => scope.paint.getImageData(scope.canvas.width - 3, 45, 1, 1).data;
      const sum = () => at().slice(0, 3).reduce((a, b) => a + b);
      const before = sum();
      scope.resize();
      return [before, sum()];
    }"""
    before, after = live.page.evaluate(script)
    assert before > 600 and after > 600


SPANS = """() => {
  const { scope } = document.querySelector('.live').tap.page;
  const { paint } = scope;
  const dashes = [], set = paint.setLineDash.bind(paint);
  paint.setLineDash = (dash) => { if (dash.length) dashes.push(dash.join()); set(dash); };
  scope.browseS = 0;
  scope.drawnAt = 0;
  scope.dirty = true;
  scope.draw(0, false, performance.now());
  delete paint.setLineDash;
  const key = getComputedStyle(document.querySelector('.legend .k-estimate')).display;
  return { dashed: dashes.filter((dash) => dash === '5,3').length, words: scope.words.length, key };
}"""


@pytest.mark.parametrize("hop", [1, 2])
def test_estimated_boundaries_are_drawn_differently(live: LivePage, hop: int) -> None:
    """The model gives the end of a segment; words within one share its time by their letters."""
    live.page.goto(f"{live.page.url}&n={hop}")
    live.page.wait_for_selector(".live .options input", state="attached")
    live.page.evaluate("""() => {
      window.estimates = 0;
      const look = () => {
        window.estimates = Math.max(window.estimates, CSS.highlights.get('live-estimate')?.size ?? 0);
        requestAnimationFrame(look);
      };
      look();
    }""")
    live.paste("one two three four ")
    live.finish(spoken=1)
    found = live.page.evaluate(SPANS)
    assert found["words"] == 4
    assert (found["dashed"], found["key"] != "none") == ((0, False) if hop == 1 else (4, True))
    assert live.page.evaluate("window.estimates") == hop - 1


def test_reduced_motion_turns_pages(visit: Callable[..., LivePage]) -> None:
    live = visit(reduced_motion="reduce")
    live.paste(TEXT)
    live.wait_lit(3)
    starts = live.page.evaluate(
        """async () => {
          const { scope } = document.querySelector('.live').tap.page;
          const seen = new Set();
          for (let k = 0; k < 10; k++) {
            seen.add(scope.startS());
            await new Promise((done) => setTimeout(done, 50));
          }
          return [...seen];
        }"""
    )
    assert starts == [0]


WORDS_OF_LANES = """() => {
  const { scene } = document.querySelector('.live').tap.page.timeline;
  const found = { typed: [], heard: [] };
  scene.paint.fillText = (text, x, y) => {
    for (const lane of ['typed', 'heard']) {
      const place = scene.boxes[lane];
      const isTitle = x === 6 && text === { typed: 'text', heard: 'speech' }[lane];
      if (isTitle || y < place.y || y >= place.y + place.height) continue;
      const width = scene.paint.measureText(text).width;
      const left = scene.paint.textAlign === 'center' ? x - width / 2 : x;
      found[lane].push([text, left, left + width, y]);
    }
  };
  scene.draw();
  delete scene.paint.fillText;
  return { ...found, width: scene.axis.width };
}"""


@pytest.mark.parametrize("is_pasted", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_small_picture_labels_every_heard_word(visit: Callable[..., LivePage], width: int, is_pasted: bool) -> None:
    live = visit(viewport={"width": width, "height": 844})
    live.paste(TEXT) if is_pasted else live.type(TEXT, delay_ms=60)
    live.finish(spoken=1)
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.timeline.scene?.drawn > 0")
    found = live.page.evaluate(WORDS_OF_LANES)
    typed = " ".join(label[0] for label in sorted(found["typed"], key=lambda label: label[1]))
    assert typed == TEXT.strip() or (is_pasted and typed.endswith("…") and typed[:-2] in TEXT)
    assert {label[0] for label in found["heard"]} >= set(TEXT.lower().split())
    for lane in ("typed", "heard"):
        edges: dict[float, float] = {}
        for text, left, right, row in sorted(found[lane], key=lambda label: label[1]):
            assert left >= edges.get(row, 0.0) and right <= found["width"], f"{text} stands over another, or is cut"
            edges[row] = right
    assert live.page.evaluate("document.documentElement.scrollWidth") <= width


def test_phone_buttons_form_a_grid(visit: Callable[..., LivePage]) -> None:
    """In each group every row is full and its buttons have equal height."""
    live = visit(viewport={"width": 390, "height": 844})
    live.paste(TEXT)
    live.finish(spoken=1)
    live.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    script = """(group) => {
      const box = document.querySelector(group);
      const rows = new Map();
      for (const one of box.querySelectorAll('button, a')) {
        const { left, right, top, height } = one.getBoundingClientRect();
        if (height) rows.set(Math.round(top), [...(rows.get(Math.round(top)) ?? []), [left, right, height]]);
      }
      const { left, right } = box.getBoundingClientRect();
      const heights = (row) => [...new Set(row.map(([, , height]) => height))];
      const edges = (row) => [Math.round(row[0][0] - left), Math.round(right - row.at(-1)[1])];
      return [...rows.values()].map((row) => [...edges(row), heights(row)]);
    }"""
    for group in (".live .actions", ".live .after", ".live .race-head", ".live .compare"):
        for before, behind, heights in live.page.evaluate(script, group):
            assert (before, behind) == (0, 0) and len(heights) == 1, group
