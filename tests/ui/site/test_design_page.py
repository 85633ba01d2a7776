"""The design sheet: every control in every state, light and dark, with contrasts computed from its pixels."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from ui.conftest import Server

VISIBLE = 3.0  # WCAG 1.4.11: parts that identify a control and its state
READABLE = 4.5  # WCAG 1.4.3: text
MARGIN_PX = 6  # around a control: its focus ring
TICKS = ("checkbox", "checkbox-on", "radio", "radio-on")
BUTTONS = ("button", "primary", "quiet")
FIELDS = ("select", "number")


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("design"), "--design-page")
    yield server
    server.stop()


@pytest.fixture(params=["light", "dark"])
def sheet(request: pytest.FixtureRequest, chromium: Any, design: Server) -> Iterator[Any]:
    page = chromium.new_context(viewport={"width": 1280, "height": 1600}, color_scheme=request.param).new_page()
    page.goto(design.url + "design")
    page.wait_for_selector(".design .segments")
    yield page
    page.context.close()


def pixels(page: Any, name: str, state: str = "rest") -> np.ndarray:
    """A control in a state with its surroundings, RGB [H, W, 3] of 0 to 1."""
    control = page.locator(f'[data-sample="{name}"]')
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    if state == "hover":
        control.hover()
    if state == "focus":
        page.keyboard.press("Tab")  # from now on focus is visible
        control.focus()
    box = control.bounding_box()
    clip = {
        "x": box["x"] - MARGIN_PX,
        "y": box["y"] - MARGIN_PX,
        "width": box["width"] + 2 * MARGIN_PX,
        "height": box["height"] + 2 * MARGIN_PX,
    }
    shot = page.screenshot(clip=clip, animations="disabled")
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), float) / 255.0


def luminance(colour: np.ndarray) -> np.ndarray:
    """Relative luminance of WCAG of colours [..., 3]."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrasts(image: np.ndarray, against: np.ndarray) -> np.ndarray:
    """The contrast of each pixel [H, W] with a colour [3]."""
    one, other = luminance(image), luminance(against)
    return (np.maximum(one, other) + 0.05) / (np.minimum(one, other) + 0.05)


def inside(image: np.ndarray) -> np.ndarray:
    """The control without its surroundings."""
    return image[MARGIN_PX:-MARGIN_PX, MARGIN_PX:-MARGIN_PX]


def ring(image: np.ndarray) -> float:
    """The share of the control's surroundings that is told from the page: the ring of a focus."""
    around = np.ones(image.shape[:2], bool)
    around[MARGIN_PX:-MARGIN_PX, MARGIN_PX:-MARGIN_PX] = False
    return float(np.mean(contrasts(image, image[0, 0])[around] >= VISIBLE))


def fill(image: np.ndarray) -> np.ndarray:
    """The most frequent colour inside the control."""
    colours, counts = np.unique(inside(image).reshape(-1, 3), axis=0, return_counts=True)
    return colours[counts.argmax()]


@pytest.mark.parametrize("name", TICKS)
def test_tick_is_seen_in_every_state(sheet: Any, name: str) -> None:
    states = {state: pixels(sheet, name, state) for state in ("rest", "hover", "focus")}
    for state, image in states.items():
        panel = image[0, 0]
        share = np.mean(contrasts(inside(image), panel) >= VISIBLE)
        assert (share > 0.5) if name.endswith("-on") else (0.05 < share < 0.5), (state, share)
        if name.endswith("-on"):
            marked = np.mean(contrasts(inside(image), fill(image)) >= VISIBLE)
            assert marked > 0.08, (state, "the mark is seen on its ground")
    assert ring(states["focus"]) > 0.15 > 0.01 > ring(states["rest"])
    if not name.endswith("-on"):
        assert not np.allclose(states["rest"], states["hover"], atol=0.05)


@pytest.mark.parametrize("kind", ["checkbox", "radio"])
def test_ticks_differ_by_state(sheet: Any, kind: str) -> None:
    images = [pixels(sheet, f"{kind}{state}")[:26, :26] for state in ("", "-on", "-disabled", "-on-disabled")]
    for k, one in enumerate(images):
        for other in images[k + 1 :]:
            assert np.abs(one - other).max() > 0.1


def test_selected_segment_is_told_from_the_others(sheet: Any) -> None:
    selected, other = (pixels(sheet, name) for name in ("segment-on", "segment"))
    assert contrasts(fill(selected), fill(other)) >= VISIBLE
    for image in (selected, other):
        assert contrasts(inside(image), fill(image)).max() >= READABLE


@pytest.mark.parametrize("name", [*BUTTONS, *FIELDS])
def test_button_and_field_are_readable_and_show_their_focus(sheet: Any, name: str) -> None:
    states = {state: pixels(sheet, name, state) for state in ("rest", "hover", "focus")}
    for state, image in states.items():
        assert contrasts(inside(image), fill(image)).max() >= READABLE, state
    assert ring(states["focus"]) > 0.15 > 0.01 > ring(states["rest"])
    if name in BUTTONS:
        assert not np.array_equal(states["rest"], states["hover"])


def test_slider_and_messages_are_seen(sheet: Any) -> None:
    slider = pixels(sheet, "slider")
    assert np.mean(contrasts(slider, slider[0, 0]) >= VISIBLE) > 0.05
    for name in ("info", "warn", "error"):
        assert contrasts(inside(pixels(sheet, name)), fill(pixels(sheet, name))).max() >= READABLE


def test_sheet_is_served_only_where_it_is_switched_on(server: Server, design: Server, chromium: Any) -> None:
    page = chromium.new_page()
    assert [page.request.get(one.url + "design").status for one in (server, design)] == [404, 200]
    page.close()


def test_gradio_ticks_look_like_ours(enter: Callable[..., Any]) -> None:
    """In Gradio's own style an unticked box has no border under the pointer."""
    page = enter("results", color_scheme="light")
    tick = page.locator("#owner-everyone input")
    tick.wait_for()
    look = """(input) => {
      const { appearance, borderTopColor, backgroundColor } = getComputedStyle(input);
      const probe = document.createElement('i');
      document.body.append(probe);
      const named = Object.fromEntries(['muted', 'ink', 'accent', 'panel'].map((name) => {
        probe.style.color = `var(--${name})`;
        return [getComputedStyle(probe).color, name];
      }));
      probe.remove();
      return [appearance, named[borderTopColor] ?? borderTopColor, named[backgroundColor] ?? backgroundColor];
    }"""
    assert tick.evaluate(look) == ["none", "muted", "panel"]
    tick.hover()
    assert tick.evaluate(look) == ["none", "ink", "panel"]
    tick.check()
    page.mouse.move(0, 0)
    assert tick.evaluate(look) == ["none", "accent", "accent"]
