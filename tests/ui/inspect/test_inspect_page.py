"""The Inspect page and its exported file: opening, playback, navigation by pointer and keys."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspection.spoken import RATE_HZ, pcm, story
from ui.conftest import Server
from ui.live_page import LivePage
from ui.viewer_tab import ViewerTab

from studio.core.clips import write_wav
from studio.core.traces.captions import cues, srt, webvtt
from studio.core.traces.trace import open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.ui.html_file import write_inspection


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = TraceWriter(tmp_path_factory.mktemp("inspect") / "a", {})
    writer.write(*story())
    return writer.close()


class Inspect(ViewerTab):
    """One tab with the page or an exported file."""

    viewer = "document.querySelector('.inspect').viewer"

    def open(self, path: str = "inspect") -> "Inspect":
        self.page.goto(self.url + path)
        self.page.wait_for_selector(".inspect[data-ready], .inspect[data-state=open]", state="attached")
        return self

    def drop(self, file: Path) -> None:
        self.page.set_input_files(".inspect .open input[type=file]", file)

    def opened(self) -> "Inspect":
        self.page.wait_for_selector(".inspect[data-state=open] .view")
        self.until("viewer.scene.drawn > 0 && viewer.scene.boxes.pitch")  # rendered last, and moves what is below
        return self

    def point(self, ms: float, lane: str) -> tuple[float, float]:
        """Page coordinates of a time in a lane."""
        box = self.page.locator(".scene").bounding_box()
        x = self.ask(f"viewer.scene.axis.x({ms})")
        y = self.ask(f"viewer.scene.boxes.{lane}.y + viewer.scene.boxes.{lane}.height / 2")
        return box["x"] + x, box["y"] + y


@pytest.fixture
def inspect(chromium: Any, server: Server) -> Iterator[Callable[..., Inspect]]:
    tabs: list[Inspect] = []

    def start(url: str = server.url, **context: Any) -> Inspect:
        tabs.append(Inspect(chromium, url, **context))
        return tabs[-1]

    yield start
    for tab in tabs:
        tab.page.context.close()
        assert tab.wrong == []


def test_sample_opens_at_once(inspect: Callable[..., Inspect]) -> None:
    tab = inspect().open()
    tab.page.get_by_role("button", name="Open a sample").click()
    tab.opened()
    assert "You hear this sentence begin" in tab.page.locator(".view h1").inner_text()


def test_dropped_trace_is_shown_with_its_data(inspect: Callable[..., Inspect], trace: Path) -> None:
    tab = inspect().open()
    tab.drop(trace)
    tab.opened()
    assert tab.page.locator(".view h1").text_content() == "One  two 3"
    assert "2 segments, 1 forced to end" in tab.page.locator(".about").text_content()
    assert tab.page.locator(".legend li").all_text_contents() == [
        "waits for text",
        "stall: the computer",
        "forced to end",
    ]
    for name, form in (("SRT", srt), ("WebVTT", webvtt)):
        with tab.page.expect_download() as download:
            tab.page.get_by_role("button", name=name, exact=True).click()
        assert Path(download.value.path()).read_text() == form(cues(open_trace(trace), as_heard=True))
        assert download.value.suggested_filename == f"captions.{'srt' if name == 'SRT' else 'vtt'}"
    tab.page.mouse.move(*tab.point(851.0, "heard"))
    readout = tab.page.locator(".readout").text_content()
    assert "sample 3,6" in readout and "frame 6" in readout and "“two”" in readout and "with three" in readout
    tab.page.mouse.move(*tab.point(745.0, "heard"))
    assert "waits for text, 90 ms" in tab.page.locator(".readout").text_content()
    assert not tab.page.locator("details.words tr").count(), "a long table would delay the picture"
    tab.page.locator("details.words summary").click()
    words = tab.page.locator("details.words tr:not(:first-child)")
    words.nth(2).wait_for()
    assert words.nth(1).locator("td").all_text_contents() == ["0.500", "0.800", "0.800", "0.800", "0.875", "eos"]


def test_recording_is_shown_with_its_text_and_a_wrong_file_is_refused(
    inspect: Callable[..., Inspect], trace: Path, tmp_path: Path
) -> None:
    tab = inspect().open()
    (tmp_path / "a.trace").write_bytes(b"nothing")
    tab.drop(tmp_path / "a.trace")
    tab.page.wait_for_selector('.inspect .status[data-level="error"]')
    assert "not a readable trace" in tab.page.locator(".inspect .status").text_content()
    write_wav(tmp_path / "a.wav", pcm(), RATE_HZ)
    tab.page.fill(".wav-text input", "eins zwei")
    tab.drop(tmp_path / "a.wav")
    tab.opened()
    assert tab.page.locator(".view h1").text_content() == "eins zwei"
    assert tab.page.get_by_role("button", name="SRT").count() == 0
    assert tab.ask("Object.keys(viewer.scene.boxes).join()") == "ruler,wave,pitch,picture"  # no word has a time
    tab.drop(trace)  # replaced by another one
    tab.page.wait_for_function("() => document.querySelector('.view h1').textContent.startsWith('One')")


def test_playback_from_here_loops_and_stops_at_a_seam(inspect: Callable[..., Inspect], trace: Path) -> None:
    tab = inspect().open()
    tab.drop(trace)
    tab.opened()
    tab.page.mouse.click(*tab.point(820.0, "wave"))
    assert tab.ask("viewer.player.atMs") == pytest.approx(820.0, abs=4.0)
    assert tab.ask("viewer.player.audio.currentTime") == pytest.approx(0.22, abs=0.01), (
        "the file's time equals the clock's"
    )
    tab.page.keyboard.press("Space")
    tab.until("viewer.player.audio.ended")
    tab.page.keyboard.press("n")  # 200 ms around the only seam
    tab.until("!viewer.player.isPlaying && viewer.player.atMs === 900")
    assert tab.ask("viewer.scene.selection") == [700, 900]
    tab.page.keyboard.press("h")
    assert tab.ask("[viewer.player.speed, viewer.player.audio.preservesPitch]") == [0.5, True]
    tab.page.keyboard.press("h")
    tab.page.keyboard.press("l")
    tab.page.evaluate(
        f"() => {{ window.turns = 0; const p = {tab.viewer}.player, at = p.place.bind(p);"
        " p.place = (ms) => { window.turns++; at(ms); }; }"
    )
    tab.page.keyboard.press("Space")
    tab.page.wait_for_function("() => window.turns >= 3")  # several loops
    tab.page.keyboard.press("Space")
    assert tab.ask("viewer.player.loop") == [700, 900]
    tab.page.keyboard.press("Escape")
    assert tab.ask("viewer.scene.selection") is None


def test_keys_and_pointer_navigate(inspect: Callable[..., Inspect], trace: Path) -> None:
    tab = inspect().open()
    tab.drop(trace)
    tab.opened()
    whole = tab.ask("viewer.scene.axis.spanMs")
    x, y = tab.point(850.0, "wave")
    tab.page.mouse.move(x, y)
    tab.page.keyboard.down("Control")
    tab.page.mouse.wheel(0, -200)
    tab.page.keyboard.up("Control")
    tab.until(f"viewer.scene.axis.spanMs < {whole / 2}")
    assert tab.point(850.0, "wave")[0] == pytest.approx(x, abs=4.0), "the point under the pointer stays there"
    left = tab.ask("viewer.scene.axis.leftMs")
    tab.page.locator(".scene").focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.ask("viewer.scene.axis.leftMs") > left
    tab.page.keyboard.press("0")
    assert tab.ask("viewer.scene.axis.spanMs") == whole
    tab.page.keyboard.press("]")
    tab.page.keyboard.press("]")
    assert tab.ask("viewer.scene.chosen") == 1
    assert tab.ask("viewer.scene.selection") == [800, 875]
    start, end = tab.point(650.0, "wave"), tab.point(750.0, "wave")
    tab.page.mouse.move(*start)
    tab.page.mouse.down()
    tab.page.mouse.move(*end, steps=4)
    tab.page.mouse.up()
    assert tab.ask("viewer.scene.selection") == pytest.approx([650.0, 750.0], abs=4.0)
    tab.page.click('[data-do="picture"]')
    assert tab.ask("viewer.scene.pictureName") == "heard"


def test_spoken_utterance_opens_by_its_link(visit: Callable[..., LivePage], inspect: Callable[..., Inspect]) -> None:
    live = visit()
    said = "Speech flows from words as they arrive, and what is heard is told while the voice still waits for credit."
    live.type(f"{said} ")
    live.finish(spoken=1)
    link = live.page.locator('[data-get="inspect"]').get_attribute("href")
    tab = inspect(live.url).open(link.removeprefix(live.url)).opened()
    assert tab.page.locator(".view h1").text_content() == said
    assert "played as the player reported" in tab.page.locator(".about").text_content()
    spent = tab.ask("viewer.view.facts.lags.known_to_heard_ms.min")
    assert spent > 0, "nothing is played before the text was known"


def test_picture_of_the_utterance_is_below_the_live_page(visit: Callable[..., LivePage]) -> None:
    live = visit()
    assert not live.page.locator(".timeline").is_visible()
    live.type("Words known, made and heard. ")
    live.finish(spoken=1)
    picture = live.page.locator(".timeline canvas")
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.timeline.scene?.drawn > 0")
    assert "Median delay, word typed to heard: " in live.page.locator(".timeline p").text_content()
    assert set(live.page.evaluate("Object.keys(document.querySelector('.live').tap.page.timeline.scene.boxes)")) == {
        "ruler",
        "typed",
        "made",
        "heard",
        "wave",
    }
    assert 200 < picture.bounding_box()["height"] < 400
    live.press("clear")
    live.page.wait_for_function("() => document.querySelector('.timeline').hidden")
    live.type("Once more. ")
    live.finish(spoken=2)
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.timeline.scene?.drawn > 0")
    picture.click()
    live.page.wait_for_url("**/inspect?trace=*")


def test_exported_file_needs_no_network(chromium: Any, trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "exported.html"
    write_inspection(open_trace(trace), path)
    tab = Inspect(chromium, path.as_uri(), color_scheme="dark", offline=True)
    tab.page.goto(path.as_uri())
    tab.opened()
    assert tab.page.locator(".view h1").text_content() == "One  two 3"
    assert not tab.page.locator(".open").is_visible()
    tab.page.locator(".scene").focus()
    tab.page.keyboard.press("Space")
    tab.until("viewer.player.audio.ended")
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    tab.page.context.close()
    assert tab.wrong == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_nothing_is_cut_off_at_the_side(inspect: Callable[..., Inspect], trace: Path, width: int, scheme: str) -> None:
    tab = inspect(viewport={"width": width, "height": 900}, color_scheme=scheme).open()
    tab.drop(trace)
    tab.opened()
    shown = "[...document.querySelectorAll('.inspect :is(.bar button, canvas, h1, dd)')].filter((e) => e.offsetParent)"
    assert tab.page.evaluate(f"Math.max(...{shown}.map((e) => e.getBoundingClientRect().right))") <= width
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.ask("viewer.scene.canvas.width") >= 0.7 * min(width, 1240) - 60
