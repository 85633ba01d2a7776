"""Page object of the Live page."""

import base64
import io
import urllib.request
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from ui.waits import comes_to

from studio.bench.page.browser import RENDERED

RATE_HZ = 24_000
# So many utterances were played and the last one is drawn, which happens in later frames.
_SAID = """count => {
  const root = document.querySelector('.live');
  if (Number(root.dataset.spoken ?? 0) < count) return false;
  const { phase, play, player, caption, scope, isPlayedOut } = root.tap.page;
  const isOurs = play && player.clock?.position()?.play === play.play;
  const isDrawn = !caption.stale && !caption.isNew && !(scope.width && scope.dirty);
  return phase !== 'idle' || !isOurs || (isPlayedOut && isDrawn);
}"""
FADE_SAMPLES = 120  # 5 ms

OFFERED = "Your text is stored: press Speak the rest, or keep typing."  # fields that the page reports


class LivePage:
    """One tab with the page."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._seen(request.url))

    def _seen(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(url)

    def open(self) -> None:
        """Load the page with its tap and wait for the server's voices."""
        self.page.goto(f"{self.url}?tap=1")
        self.page.wait_for_selector(".live .options input", state="attached")

    def open_advanced(self) -> None:
        """Open the settings that are folded at first."""
        self.page.locator(".advanced > summary").click()

    def type(self, text: str, *, delay_ms: float = 0.0) -> None:
        """Type into the field, key by key."""
        self.page.locator("#live-text").focus()
        self.page.keyboard.type(text, delay=delay_ms)

    def paste(self, text: str) -> None:
        """Insert the whole text at once."""
        self.page.locator("#live-text").focus()
        self.page.keyboard.insert_text(text)

    def press(self, name: str) -> None:
        """Press a button by its action."""
        self.page.locator(f'[data-do="{name}"]').first.click()

    def finish(self, spoken: int = 0) -> None:
        """Ctrl+Enter; wait until ``spoken`` utterances were played to their end."""
        self.page.keyboard.press("Control+Enter")
        if spoken:
            self.wait_spoken(spoken)

    def wait_phase(self, phase: str) -> None:
        self.page.wait_for_function("phase => document.querySelector('.live').dataset.phase === phase", arg=phase)

    def wait_spoken(self, count: int = 1) -> None:
        """Wait until so many utterances (or replays) were played to their end and drawn."""
        self.page.wait_for_function(_SAID, arg=count)

    def wait_lit(self, count: int) -> None:
        """Wait until so many words have lit up since the page was opened."""
        self.page.wait_for_function("count => document.querySelector('.live').tap.lit.length >= count", arg=count)

    def wait_status(self, part: str) -> str:
        """Wait for a message in the status line."""
        script = "part => document.querySelector('.status').textContent.includes(part)"
        self.page.wait_for_function(script, arg=part)
        return self.page.locator(".status").text_content()

    def classes(self, name: str) -> list[str]:
        """Texts of the caption's words with a class."""
        return self.page.locator(f".words .{name}").all_text_contents()

    def shows(self, name: str, words: list[str]) -> None:
        """Assert that exactly these words of the caption get a class."""
        comes_to(lambda: self.classes(name), words)

    @property
    def lit(self) -> list[dict[str, Any]]:
        return self.page.evaluate("document.querySelector('.live').tap.lit")

    @property
    def turns(self) -> list[dict[str, Any]]:
        return self.page.evaluate("document.querySelector('.live').tap.turns")

    @property
    def figures(self) -> dict[str, Any]:
        return self.page.evaluate("document.querySelector('.live').figures")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The server's events of one type."""
        script = "kind => document.querySelector('.live').tap.events.filter((e) => e.type === kind)"
        return self.page.evaluate(script, kind)

    def rendered(self, play: int = 1) -> np.ndarray:
        """Speech that left the worklet, int16 [T], in order and without gaps."""
        parts = self.page.evaluate(RENDERED, play)
        out: list[np.ndarray] = []
        expected = 0
        for sample, data in parts:
            assert sample == expected, f"sample {sample} was rendered where {expected} was due"
            out.append(np.frombuffer(base64.b64decode(data), "<i2"))
            expected += len(out[-1])
        return np.concatenate(out) if out else np.zeros(0, np.int16)

    def resumes(self, play: int = 1) -> list[int]:
        """Samples at which the player resumed after a silence, with a fade-in."""
        return [turn["sample"] for turn in self.turns if turn["play"] == play and turn["playing"] and turn["gap"] > 0]

    def sent(self) -> np.ndarray:
        """The server's audio, int16 [T], from its WAV."""
        self.page.wait_for_selector('[data-get="wav"]:not([hidden])')
        address = self.page.locator('[data-get="wav"]').get_attribute("href")
        with urllib.request.urlopen(address, timeout=90.0) as answer, wave.open(io.BytesIO(answer.read())) as file:
            return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def without_fades(pcm: np.ndarray, resumes: Sequence[int]) -> np.ndarray:
    """The samples outside fades."""
    keep = np.ones(len(pcm), bool)
    for sample in resumes:
        keep[sample : sample + FADE_SAMPLES] = False
    return pcm[keep]
