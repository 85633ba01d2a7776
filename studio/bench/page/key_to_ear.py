"""The page in a real browser: from the key that completes the first window to the first audible sample.

The app runs as a process of its own and Chromium types into it. Moments are taken inside the page only: the key's
own time stamp, and the render clock of the audio worklet; the engine's part comes from the trace of the same text.
"""

import shlex
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from studio.bench.page.browser import PageFailed, open_page, own_command, running_app, said, type_words, wait_said
from studio.core.shipped import TEXTS
from studio.core.traces.trace import open_trace
from studio.measure.latency import ladder, percentiles
from studio.measure.report import no_bar, print_table

BLOCKED_MS, FREE_MS = 150, 60
PICTURED = "Hello there, and welcome! I start speaking while you are still typing, so go ahead and say something."
CLICK_TARGET_MS = 2000.0  # a newcomer's first sound
_TRIES = 3
MORE_WORDS = 2  # typed after the window is complete, before the text is stopped
_CLICKED = """() => addEventListener('click', (e) => {
  window.clickedMs = performance.timeOrigin + e.timeStamp;
}, { capture: true, once: true })"""
_CLICKS = {
    "one_click_ms": (".examples button", "document.querySelector('.live').figures?.audible_at_ms"),
    "race_click_ms": ('.race [data-do="race"]', "Number(document.querySelector('.race').dataset.heardAtMs)"),
}
_BLOCK = """([blocked, free]) => {
  window.blocker = setInterval(() => {
    const until = performance.now() + blocked;
    while (performance.now() < until);
  }, blocked + free);
}"""


@dataclass(frozen=True, kw_only=True)
class PageSetting:
    """What to measure.

    Attributes:
        command: starts the app; ``--port N`` is added. None for this package's own.
        texts: one text a line, for first audio; ``long_text`` is typed whole, for stalls.
        n: texts; the first ``warm`` are typed and not counted.
        clicks: fresh pages on which an example is clicked, which then types itself, and as many on which the race is.
        clicks_only: nothing else is measured.
        long_words: words of the long text, 0 to leave that part out.
        window: m of the page's settings; None for the voice's own.
    """

    command: Sequence[str] | None = None
    texts: Path = TEXTS / "latency.txt"
    long_text: Path = TEXTS / "live.txt"
    n: int = 20
    warm: int = 1
    wpm: float = 60.0
    clicks: int = 3
    clicks_only: bool = False
    long_words: int = 120
    window: int | None = None
    quiet: bool = False


def bench_page(setting: PageSetting) -> dict[str, Any]:
    """Percentiles of the first audio and its parts, and the stalls of a long text, free and with a busy page.

    Raises:
        NeedsPackage: playwright or chromium is missing.
        PageFailed: the app did not start, or the page stayed silent.
    """
    texts = setting.texts.read_text(encoding="utf-8").splitlines()[: setting.n + setting.warm]
    long_words = setting.long_text.read_text(encoding="utf-8").split()[: setting.long_words]
    with running_app(setting.command) as url, open_page(url) as page:
        _set_window(page, setting.window)
        m = _window(page)
        program, *arguments = setting.command or own_command()
        first = [] if setting.clicks_only else [text.split()[: m + MORE_WORDS] for text in texts if text.strip()]
        bar = track(first, "first audio", disable=no_bar(setting.quiet))
        rows = [_first_audio(page, url, words, setting.wpm, m) for words in bar]
        rows = rows[setting.warm :]
        clicks = {
            name: [_one_click(page.context.browser, url, *where) for _ in range(setting.clicks)]
            for name, where in _CLICKS.items()
        }
        out: dict[str, Any] = {
            "app": shlex.join([Path(program).name, *arguments]),
            "n": len(rows),
            "wpm": setting.wpm,
            "m": m,
            **{name: percentiles([row[name] for row in rows]) for name in (rows[0] if rows else ())},
            **{name: percentiles(took_ms) for name, took_ms in clicks.items() if took_ms},
        }
        if long_words and not setting.clicks_only:
            for name in track(("stalls", "stalls_blocked"), "a long text", disable=no_bar(setting.quiet)):
                if name == "stalls_blocked":
                    page.evaluate(_BLOCK, [BLOCKED_MS, FREE_MS])
                out[name] = _long_text(page, long_words, setting.wpm)
    if not setting.quiet:
        show(out)
    return out


def _set_window(page: Any, window: int | None) -> None:
    if window is not None:
        page.locator('[data-option="m"]').fill(str(window))
        page.wait_for_timeout(300)


def _window(page: Any) -> int:
    """Words that must be there before the voice may speak; families without m take one."""
    field = page.locator('[data-option="m"]')
    return int(field.input_value()) if field.count() else 1


def _first_audio(page: Any, url: str, words: Sequence[str], wpm: float, window: int) -> dict[str, float]:
    """Type the first words of a text, and take the latency apart.

    On a busy machine two keys may lie so far apart that the voice begins before its window is full, and no key is the
    one that it waited for. Or the page hears of a word only after the next key and takes that one for it: sound would
    come before it was made. The words are typed again then.
    """
    for _ in range(_TRIES):
        found, seen, cause = _typed_once(page, url, words, wpm)
        is_later_key = cause == "key" and found["page_ms"] < 0.0
        if seen >= min(window, len(words)) and not is_later_key:
            return found
    raise PageFailed("keys come too late for the voice to wait for its words", "measure on a quiet machine")


def _typed_once(page: Any, url: str, words: Sequence[str], wpm: float) -> tuple[dict[str, float], int, str]:
    """The latency, how many words the first segment saw, and what the page takes it to have waited for."""
    before = said(page)
    type_words(page, words, wpm)
    page.locator('[data-do="stop"]').click()
    wait_said(page, before + 1, 30.0)
    page.wait_for_selector('[data-get="trace"]:not([hidden])')
    figures = page.evaluate("document.querySelector('.live').figures")
    if figures["first_audio_ms"] is None:
        raise PageFailed("a text stayed silent", "listen to the page by hand")
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        with urllib.request.urlopen(page.locator('[data-get="trace"]').get_attribute("href"), timeout=20.0) as answer:
            file.write(answer.read())
            file.flush()
        trace = open_trace(Path(file.name))
    engine_ms = ladder(trace).since("t2", "t0") or 0.0
    page.locator('[data-do="clear"]').click()
    total_ms, lead_in_ms = figures["first_audio_ms"], figures["audible_ms"]
    found = {
        "t6_key_ms": total_ms,
        "t2_t0_ms": engine_ms,
        "lead_in_ms": lead_in_ms,
        "page_ms": total_ms - engine_ms - lead_in_ms,
        "page_and_lead_in_ms": total_ms - engine_ms,
    }
    return found, len(trace.segments()[0].seen), figures["first_audio_cause"]


def _one_click(browser: Any, url: str, button: str, heard_at_ms: str) -> float:
    """A newcomer's first sound, in milliseconds: from a click on a fresh page to the first audible sample of the
    worklet, by its render clock.

    Args:
        button: what is clicked, as soon as it can be.
        heard_at_ms: a script that says when that sample left the worklet, 0 or nothing before.
    """
    page = browser.new_page()
    try:
        page.goto(url)
        page.wait_for_selector(".live .options input", state="attached")
        page.evaluate(_CLICKED)
        page.locator(button).first.click()
        page.wait_for_function(f"{heard_at_ms} > 0")
        return page.evaluate(f"{heard_at_ms} - window.clickedMs")
    finally:
        page.close()


def _long_text(page: Any, words: Sequence[str], wpm: float) -> dict[str, Any]:
    """Type a long text to its end: how often and how long the listener had to wait for anything but text."""
    before = said(page)
    type_words(page, words, wpm)
    page.keyboard.press("Control+Enter")
    wait_said(page, before + 1, 180.0)
    figures = page.evaluate("document.querySelector('.live').figures")
    page.locator('[data-do="clear"]').click()
    return {
        "count": figures["stalls"]["count"],
        "ms": figures["stalls"]["ms"],
        **{reason: figures[reason] for reason in ("compute", "network", "text")},
        "audio_s": figures["audio_ms"] / 1000.0,
        "rtf": figures["rtf"],
    }


_ROWS = (
    ("t6_key_ms", "key to first audible sample"),
    ("t2_t0_ms", "of it: engine (t2 - t0)"),
    ("lead_in_ms", "of it: silence the voice begins with"),
    ("page_ms", "of it: socket, Worker, player"),
    ("one_click_ms", f"a click on an example of a fresh page to its first sound (p95 wanted: {CLICK_TARGET_MS:g})"),
    ("race_click_ms", f"a click on the race of a fresh page to its first sound (p95 wanted: {CLICK_TARGET_MS:g})"),
)


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows: list[list[object]] = [
        [name, round(out[key]["p50"], 1), round(out[key]["p95"], 1), "ms"] for key, name in _ROWS if key in out
    ]
    for key, name in (
        ("stalls", "stalls of a long text"),
        ("stalls_blocked", "the same, page blocked 150 ms at a time"),
    ):
        if key in out:
            rows.append(
                [f"{name} ({out[key]['audio_s']:.1f} s of speech)", out[key]["count"], out[key]["ms"], "count, ms"]
            )
    print_table(f"The page, {out['n']} texts at {out['wpm']:g} wpm, m={out['m']}", ("", "p50", "p95", ""), rows)


def screenshot(
    path: Path,
    command: Sequence[str] | None = None,
    *,
    width: int = 1280,
    height: int = 860,
    dark: bool = False,
    inspect: bool = False,
) -> None:
    """Type a text and take a picture while it is being spoken, or of the Inspect page when it was."""
    scheme = "dark" if dark else "light"
    with (
        running_app(command) as url,
        open_page(url, viewport={"width": width, "height": height}, color_scheme=scheme) as page,
    ):
        type_words(page, PICTURED.split(), 150.0)
        page.wait_for_timeout(700)
        if inspect:
            page.keyboard.press("Control+Enter")
            page.wait_for_function("Number(document.querySelector('.live').dataset.said ?? 0) >= 1")
            page.goto(page.wait_for_selector('[data-get="inspect"]:not([hidden])').get_attribute("href"))
            page.wait_for_selector('.inspect[data-state="open"]')
            page.wait_for_timeout(700)
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path)
