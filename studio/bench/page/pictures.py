"""Pictures of the running app for the README: pages, typing on the Live page, and a race of two lanes."""

import base64
import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from studio.bench.page.browser import open_page, running_app, type_words

PICTURED = "Hello there, and welcome! I start speaking while you are still typing, so go ahead and say something."
RACED = "You hear this sentence begin while I am still typing its end."
ANIMATIONS = (".webp", ".gif")
FRAME_S = 0.1  # shortest time between two frames of an animation
WIDTH = 800  # pixels, of an animation
RACE_S, LAST_S = 6.0, 2.0  # durations in an animation: the whole race, and its last frame
RACE_TIMEOUT_MS = 120_000.0
# Pictures of the finished race at ``count`` times, as the page saves them, without the address of this server.
_RACE_FRAMES = """([count, width]) => {
  const { race } = document.querySelector('.live').live;
  const canvas = Object.assign(document.createElement('canvas'), { width, height: Math.round(width * 0.525) });
  return Array.from({ length: count }, (_, k) => {
    race.sharing.draw(canvas, (race.record.endMs * (k + 1)) / count, '');
    return canvas.toDataURL('image/png').split(',')[1];
  });
}"""


def screenshot(
    path: Path,
    command: Sequence[str] | None = None,
    *,
    width: int = 1280,
    height: int = 860,
    dark: bool = False,
    inspect: bool = False,
    race: bool = False,
) -> None:
    """Type a text and take a screenshot while it is spoken, or of the Inspect page afterwards.

    A path that ends in ``.webp`` or ``.gif`` gets an animation instead: of typing and speaking, or with ``race`` of a
    race, whose time is scaled to six seconds.

    Raises:
        NeedsPackage: playwright or chromium is missing.
        PageFailed: the app did not start.
        TimeoutError: playwright's, if nothing was spoken.
    """
    scheme = "dark" if dark else "light"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        running_app(command) as url,
        open_page(url, viewport={"width": width, "height": height}, color_scheme=scheme) as page,
    ):
        if race:
            _save(path, *_raced(page))
            return
        if path.suffix in ANIMATIONS:
            _spoken(page, "Hello.")  # warm-up: the first utterance of a process starts late
            page.goto(url)
            with _recorded(page, path):
                _spoken(page, PICTURED)
                page.wait_for_timeout(1500)
            return
        type_words(page, PICTURED.split(), 150.0)
        page.wait_for_timeout(700)
        if inspect:
            page.keyboard.press("Control+Enter")
            page.wait_for_function("() => Number(document.querySelector('.live').dataset.spoken ?? 0) >= 1")
            page.goto(page.wait_for_selector('[data-get="inspect"]:not([hidden])').get_attribute("href"))
            page.wait_for_selector('.inspect[data-state="open"]')
            page.wait_for_timeout(700)
        page.screenshot(path=path)


def _spoken(page: Any, text: str) -> None:
    type_words(page, text.split(), 250.0)
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => Number(document.querySelector('.live').dataset.spoken ?? 0) >= 1")


@contextmanager
def _recorded(page: Any, path: Path) -> Iterator[None]:
    """Record the page during the block as an animation of at most ten frames a second."""
    frames: list[tuple[float, bytes]] = []
    session = page.context.new_cdp_session(page)

    def add(event: dict[str, Any]) -> None:
        at_s = event["metadata"]["timestamp"]
        if not frames or at_s - frames[-1][0] >= FRAME_S:
            frames.append((at_s, base64.b64decode(event["data"])))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", add)
    session.send("Page.startScreencast", {"format": "png"})
    yield
    session.send("Page.stopScreencast")
    times_s = [at_s for at_s, _ in frames]
    _save(path, [data for _, data in frames], [b - a for a, b in itertools.pairwise([*times_s, times_s[-1] + LAST_S])])


def _raced(page: Any) -> tuple[list[bytes], list[float]]:
    """Run a race; returns its pictures (PNG) and the seconds of each."""
    page.locator("#live-text").fill(RACED)
    page.locator('[data-do="race"]').click()
    page.wait_for_selector('.race[data-state="over"]', timeout=RACE_TIMEOUT_MS)
    count = round(RACE_S / FRAME_S)
    frames = page.evaluate(_RACE_FRAMES, [count, 2 * WIDTH])
    return [base64.b64decode(data) for data in frames], [*[FRAME_S] * (count - 1), LAST_S]


def _save(path: Path, frames: Sequence[bytes], durations_s: Sequence[float]) -> None:
    """Write pictures (PNG) as an animation that repeats."""
    from PIL import Image

    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in frames]
    size = (WIDTH, round(WIDTH * images[0].height / images[0].width))
    small = [image.resize(size, Image.Resampling.LANCZOS) for image in images]
    durations = [round(1000 * one) for one in durations_s]
    small[0].save(path, save_all=True, append_images=small[1:], duration=durations, loop=0, quality=75, method=4)
