"""Ten minutes on the Inspect page: drawing cost depends on the pixels shown, not on the duration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspection.spoken import story
from ui.conftest import Server
from ui.inspect.test_inspect_page import Inspect

from studio.bench.page.inspect import write_repeated
from studio.core.traces.trace import collect_trace, open_trace
from studio.inspection.timeline import timeline

CALLS_PER_PX = 18  # of canvas, in all lanes together
DRAW_MS = 250.0  # too slow to look animated; a tenth is usual
# Canvas calls per picture, and its script time.
DRAWN = """async () => {
  const { scene } = document.querySelector('.inspect').viewer;
  const names = ['fillRect', 'strokeRect', 'stroke', 'fillText', 'measureText', 'drawImage'];
  let calls = 0;
  for (const name of names) {
    scene.paint[name] = function (...given) {
      calls++;
      return CanvasRenderingContext2D.prototype[name].apply(this, given);
    };
  }
  const found = {};
  for (const spanMs of [Infinity, 120_000, 10_000]) {
    scene.axis.fit();
    if (spanMs < Infinity) scene.axis.show(60_000, 60_000 + spanMs);
    do { scene.draw(); } while (!scene.isWhole);
    const took = [];
    calls = 0;
    for (let k = 0; k < 9; k++) {
      const began = performance.now();
      scene.draw();
      took.push(performance.now() - began);
    }
    found[spanMs] = { calls: calls / took.length, took };
  }
  for (const name of names) delete scene.paint[name];
  return found;
}"""


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve words and eight pauses per second, more than anybody speaks."""
    return write_repeated(collect_trace({}, story()), 600.0, tmp_path_factory.mktemp("long") / "ten")


@pytest.fixture(scope="module")
def tab(chromium: Any, server: Server, long_trace: Path) -> Iterator[Inspect]:
    tab = Inspect(chromium, server.url).open()
    tab.drop(long_trace)
    tab.page.wait_for_selector(".inspect[data-state=open] .view", timeout=120_000)
    tab.until("viewer.scene.drawn > 0 && viewer.scene.isWhole")
    yield tab
    tab.page.context.close()
    assert tab.wrong == []


def test_redrawing_gives_the_same_picture(long_trace: Path) -> None:
    short, long = timeline(collect_trace({}, story())), timeline(open_trace(long_trace))
    assert len(open_trace(long_trace).pcm) == 600 * 24_000
    assert len(long.words) == 2400 * len(short.words) and len(long.segments) == 2400 * len(short.segments)
    assert long.text == 2400 * short.text
    for k, word in enumerate(short.words):
        for number in (1, 1234, 2399):
            other = long.words[number * len(short.words) + k]
            assert (other.text, long.text[other.char_start : other.char_end]) == (
                word.text,
                short.text[word.char_start : word.char_end],
            )
            period_ms = other.heard_ms - word.heard_ms
            for name in ("typed_ms", "known_ms", "made_ms", "made_whole_ms", "heard_whole_ms"):
                assert getattr(other, name) - getattr(word, name) == pytest.approx(period_ms, abs=0.1), name
    assert {one.reason for one in long.pauses} == {"text", "compute"}


def test_drawing_cost_follows_the_pixels(tab: Inspect) -> None:
    width = tab.ask("viewer.scene.axis.width")
    for span, found in tab.page.evaluate(DRAWN).items():
        assert found["calls"] < CALLS_PER_PX * width, f"{span} ms in view"
        assert min(found["took"]) < DRAW_MS, f"{span} ms in view"  # the rest are delayed by other tests


def test_slow_machine_completes_the_picture(tab: Inspect) -> None:
    """Painting alone exceeds a frame's budget for new tiles; each frame still adds one."""
    tab.page.evaluate("""() => {
      const { scene } = document.querySelector('.inspect').viewer;
      scene.paint.drawImage = function (...given) {
        for (const end = performance.now() + 0.02; performance.now() < end; );
        return CanvasRenderingContext2D.prototype.drawImage.apply(this, given);
      };
      scene.picture.tiles.clear();
      scene.isWhole = false;
      scene.axis.fit();
      scene.ask();
    }""")
    tab.until("viewer.scene.isWhole")
    assert tab.ask("viewer.scene.picture.tiles.size") > 2, "a picture of one tile would be complete at once"
    tab.ask("delete viewer.scene.paint.drawImage")


def test_word_table_is_built_on_request(tab: Inspect) -> None:
    assert tab.page.locator("details.words tr").count() == 0
    tab.page.locator("details.words summary").click()
    tab.page.locator("details.words tr").nth(7200).wait_for(timeout=60_000)
    tab.page.locator("details.words summary").click()
