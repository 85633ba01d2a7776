"""The page in a browser: from the key that completes the first window to the first audible sample.

The app runs as a process and Chromium types into it. Times are taken inside the page: the key event's time stamp and
the render clock of the audio worklet. The engine's share comes from the trace of the same text.
"""

import shlex
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from studio.bench.page.browser import (
    LIVE,
    PageFailed,
    open_page,
    own_command,
    running_app,
    type_words,
    utterances_played,
    wait_utterances_played,
)
from studio.bench.settings import PageSetting
from studio.core.traces.trace import open_trace
from studio.measure.latency import ladder, percentiles
from studio.measure.report import bar, print_table

BLOCKED_MS, FREE_MS = 150, 60
CLICK_TARGET_MS = 2000.0  # target of the first sound after one click
_TRIES = 3
MORE_WORDS = 2  # words typed beyond the first window
_CLICKED = """() => addEventListener('click', (e) => {
  window.clickedMs = performance.timeOrigin + e.timeStamp;
}, { capture: true, once: true })"""
_CLICKS = {
    "one_click_ms": (".examples button", "document.querySelector('.live').figures?.audible_at_ms"),
    "race_click_ms": ('.race [data-do="race"]', "Number(document.querySelector('.race').dataset.heardAtMs)"),
}
TABS, TABS_TARGET_MS = 10, 2000  # browsers allow six connections per host
PASTED_CHARS = 5640
TASK_TARGETS_MS = {"typing_task_ms": 50, "paste_task_ms": 100}
_TASKS = """() => {
  window.tasksMs = [];
  const observer = new PerformanceObserver((list) => window.tasksMs.push(...list.getEntries().map((e) => e.duration)));
  observer.observe({ type: 'longtask' });
}"""
_BLOCK = """([blocked, free]) => {
  window.blocker = setInterval(() => {
    const until = performance.now() + blocked;
    while (performance.now() < until);
  }, blocked + free);
}"""


def bench_page(setting: PageSetting) -> dict[str, Any]:
    """Percentiles of first audio and its parts, and stalls of a long text, also with a busy page.

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
        rows = [_first_audio(page, url, words, setting.wpm, m) for words in bar(first, "first audio", setting.quiet)]
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
        if not setting.clicks_only:
            out["tabs_ms"] = _tabs(page.context.browser, url)
        if long_words and not setting.clicks_only:
            page.evaluate(_TASKS)
            out["paste_task_ms"] = _paste(page, " ".join(long_words))
            for name in bar(("stalls", "stalls_blocked"), "a long text", setting.quiet):
                if name == "stalls_blocked":
                    page.evaluate(_BLOCK, [BLOCKED_MS, FREE_MS])
                out[name] = _long_text(page, long_words, setting.wpm)
            out["typing_task_ms"] = out["stalls"]["longest_task_ms"]
    return out


def _set_window(page: Any, window: int | None) -> None:
    if window is not None:
        page.locator('[data-option="m"]').fill(str(window))
        page.wait_for_timeout(300)


def _window(page: Any) -> int:
    """Words that the voice waits for; 1 for families without m."""
    field = page.locator('[data-option="m"]')
    return int(field.input_value()) if field.count() else 1


def _first_audio(page: Any, url: str, words: Sequence[str], wpm: float, window: int) -> dict[str, float]:
    """Type the first words of a text, and split the latency.

    On a busy machine two keys may be so far apart that the voice starts before its window is full, or the page may
    attribute a word to the next key. The words are typed again in these cases.
    """
    for _ in range(_TRIES):
        latency, seen, cause = _typed_once(page, url, words, wpm)
        is_later_key = cause == "key" and latency["page_ms"] < 0.0
        if seen >= min(window, len(words)) and not is_later_key:
            return latency
    raise PageFailed("keys arrive too late for the voice to wait for its words", "measure on an idle machine")


def _typed_once(page: Any, url: str, words: Sequence[str], wpm: float) -> tuple[dict[str, float], int, str]:
    """The latency, the number of words seen by the first segment, and the event from which the page measured."""
    before = utterances_played(page)
    type_words(page, words, wpm)
    page.locator('[data-do="stop"]').click()
    wait_utterances_played(page, before + 1, 30.0)
    page.wait_for_selector('[data-get="trace"]:not([hidden])')
    figures = page.evaluate("document.querySelector('.live').figures")
    if figures["first_audio_ms"] is None:
        raise PageFailed("a text made no sound", "try the page manually")
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        with urllib.request.urlopen(page.locator('[data-get="trace"]').get_attribute("href"), timeout=20.0) as answer:
            file.write(answer.read())
            file.flush()
        trace = open_trace(Path(file.name))
    engine_ms = ladder(trace).since("t2", "t0") or 0.0
    page.locator('[data-do="clear"]').click()
    total_ms, lead_in_ms = figures["first_audio_ms"], figures["audible_ms"]
    latency = {
        "t6_key_ms": total_ms,
        "t2_t0_ms": engine_ms,
        "lead_in_ms": lead_in_ms,
        "page_ms": total_ms - engine_ms - lead_in_ms,
        "page_and_lead_in_ms": total_ms - engine_ms,
    }
    return latency, len(trace.segments()[0].seen), figures["first_audio_cause"]


def _one_click(browser: Any, url: str, button: str, heard_at_ms: str) -> float:
    """Milliseconds from a click on a fresh page to the worklet's first audible sample, by its render clock.

    Args:
        button: selector of the button to click.
        heard_at_ms: script that returns when that sample left the worklet, else 0.
    """
    with closing(browser.new_page()) as page:
        page.goto(url)
        page.wait_for_selector(".live .options input", state="attached")
        page.evaluate(_CLICKED)
        page.locator(button).first.click()
        page.wait_for_function(f"() => {heard_at_ms} > 0")
        return page.evaluate(f"{heard_at_ms} - window.clickedMs")


def _tabs(browser: Any, url: str) -> float:
    """Milliseconds until all of ``TABS`` tabs that are opened at once are ready and get an answer of the server."""
    with closing(browser.new_context()) as context:
        tabs = [context.new_page() for _ in range(TABS)]
        began_s = time.monotonic()
        for tab in tabs:
            tab.evaluate("(url) => { setTimeout(() => { location.href = url; }); }", url)
        for tab in tabs:
            tab.wait_for_selector(LIVE, state="attached")
            tab.evaluate("async () => { await fetch('./health'); }")
        return 1000.0 * (time.monotonic() - began_s)


def _long_text(page: Any, words: Sequence[str], wpm: float) -> dict[str, Any]:
    """Type a long text to its end; return the number and duration of stalls."""
    before = utterances_played(page)
    type_words(page, words, wpm)
    page.keyboard.press("Control+Enter")
    wait_utterances_played(page, before + 1, 180.0)
    figures = page.evaluate("document.querySelector('.live').figures")
    page.locator('[data-do="clear"]').click()
    return {
        "count": figures["stalls"]["count"],
        "ms": figures["stalls"]["ms"],
        **{reason: figures[reason] for reason in ("compute", "network", "text")},
        "audio_s": figures["audio_ms"] / 1000.0,
        "rtf": figures["rtf"],
        "longest_task_ms": _longest_task(page),
    }


def _longest_task(page: Any) -> float:
    """The longest task of the page's thread since the last call, in ms; 0 if none was longer than 50 ms."""
    return page.evaluate("() => Math.max(0, ...window.tasksMs.splice(0))")


def _paste(page: Any, text: str) -> float:
    """The longest task while a long text is pasted and its first second is spoken, in ms."""
    page.locator("#live-text").focus()
    page.keyboard.insert_text(((text + " ") * (PASTED_CHARS // len(text) + 1))[:PASTED_CHARS])
    page.wait_for_function("() => document.querySelector('.live').figures?.audio_ms > 1000")
    page.locator('[data-do="stop"]').click()
    page.wait_for_function("() => document.querySelector('.live').dataset.phase === 'idle'")
    page.locator('[data-do="clear"]').click()
    return _longest_task(page)


_ROWS = (
    ("t6_key_ms", "key to first audible sample"),
    ("t2_t0_ms", "of which engine (t2 - t0)"),
    ("lead_in_ms", "of which leading silence"),
    ("page_ms", "of which socket, Worker, player"),
    ("one_click_ms", f"click on an example of a fresh page to first sound (p95 target: {CLICK_TARGET_MS:g})"),
    ("race_click_ms", f"click on the race of a fresh page to first sound (p95 target: {CLICK_TARGET_MS:g})"),
)


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        [name, round(out[key]["p50"], 1), round(out[key]["p95"], 1), "ms"] for key, name in _ROWS if key in out
    ]
    for key, name in (("typing_task_ms", "longest task while typing"), ("paste_task_ms", "longest task of a paste")):
        if key in out:
            rows.append([f"{name} (target: {TASK_TARGETS_MS[key]}; 0: none over 50)", round(out[key]), "", "ms"])
    if "tabs_ms" in out:  # absent from older results
        name = f"{TABS} tabs at once, until the last one is ready (target: {TABS_TARGET_MS})"
        rows.append([name, round(out["tabs_ms"]), "", "ms"])
    for key, name in (
        ("stalls", "stalls of a long text"),
        ("stalls_blocked", "the same, page blocked 150 ms at a time"),
    ):
        if key in out:
            rows.append(
                [f"{name} ({out[key]['audio_s']:.1f} s of speech)", out[key]["count"], out[key]["ms"], "count, ms"]
            )
    print_table(f"The page, {out['n']} texts at {out['wpm']:g} wpm, m={out['m']}", ("", "p50", "p95", ""), rows)
