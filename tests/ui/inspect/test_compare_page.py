"""The Compare page: opening, gapless switching, alignment, resynthesis, errors."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from serve.serving import eventually
from ui.compare_page import Compare, Spans, put
from ui.conftest import Server
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.site.test_axe import violations

from studio.core.sound_files import read_mono
from studio.core.traces.trace import open_trace
from studio.inspection.comparison.compare import compare as compare_traces
from studio.inspection.comparison.compare import compared_utterance
from studio.library.library import Library
from studio.ui.html_file import write_comparison

COUNT_DASHES = """() => {
  window.dashed = 0;
  const paint = CanvasRenderingContext2D.prototype, stroke = paint.strokeRect;
  paint.strokeRect = function (...at) {
    window.dashed += this.getLineDash().length > 0;
    return stroke.apply(this, at);
  };
}"""
SLOW, QUICK, OTHER, LONG = (letter * 22 for letter in "sqol")
SLOW_SPANS: Spans = [("one", 0, 40), ("two", 40, 80), ("three", 100, 140)]
QUICK_SPANS: Spans = [("one", 0, 20), ("two", 20, 40), ("three", 40, 80)]


@pytest.fixture(scope="module")
def trace_store(site: Site) -> Site:
    folder = site.folder / "traces"
    put(folder, SLOW, SLOW_SPANS, m=1)
    put(folder, QUICK, QUICK_SPANS, 440.0, m=3)
    put(folder, OTHER, [("nothing", 0, 10), ("of", 10, 20), ("that", 20, 30)], m=2)
    return site


@pytest.fixture
def compare(chromium: Any, trace_store: Site) -> Iterator[Callable[..., Compare]]:
    tabs: list[Compare] = []

    def start(url: str = trace_store.url, **context: Any) -> Compare:
        tabs.append(Compare(chromium, url, **context))
        return tabs[-1]

    yield start
    for tab in tabs:
        tab.page.context.close()
        assert tab.wrong == []


def test_two_traces_are_shown_word_aligned_and_in_their_own_time(compare: Callable[..., Compare]) -> None:
    tab = compare().open(SLOW, QUICK).opened(2)
    page = tab.page
    assert page.locator(".view h1").text_content() == "one two three"
    assert page.locator("[data-take]").all_text_contents() == ["1 m=1", "2 m=3"]
    starts = "viewer.scene.takes.map((take, k) => viewer.scene.maps[k].axis(take.words[2].startMs))"
    assert tab.ask("viewer.scene.isStretched")
    assert tab.ask(starts) == pytest.approx([1750.0, 1750.0])  # 0.75 s, 0.75 s, and a pause of 0.5 s or none
    page.click('[data-do="stretch"]')
    tab.until("viewer.scene.difference")
    assert tab.ask(starts) == pytest.approx([2500.0, 1000.0])
    assert tab.ask("viewer.scene.difference.endMs") == pytest.approx(3500.0)
    page.locator(".scene").focus()
    page.keyboard.press("s")
    assert tab.ask(starts) == pytest.approx([1750.0, 1750.0])
    row = page.locator("details.words tr").nth(3)
    assert row.locator("td").nth(1).text_content().startswith("1,000 + 1,000; 440 Hz")
    assert "50%" not in page.locator(".pair-figures").text_content()
    assert "67%" in page.locator(".pair-figures").text_content()  # 2 s of words against 3 s


# Press 2 in the first frame drawn after a playback time was seen.
SWITCH_AT_MS = """(ms) => new Promise((done) => {
  const look = () => {
    const { player } = document.querySelector('.compare').viewer;
    if (!player.isPlaying || player.atMs <= ms) return requestAnimationFrame(look);
    document.querySelector('.scene').dispatchEvent(new KeyboardEvent('keydown', { key: '2', bubbles: true }));
    return done();
  };
  look();
})"""


@pytest.mark.parametrize("lane", [0, 1, 2], ids=["first", "second", "difference"])
def test_playhead_covers_no_name(compare: Callable[..., Compare], lane: int) -> None:
    tab = compare().open(SLOW, QUICK).opened(2)
    tab.ask("viewer.player.place(viewer.scene.axis.ms(20))")
    box = tab.ask("viewer.scene.canvas.getBoundingClientRect().toJSON()")
    top = box["y"] + tab.ask(f"viewer.scene.lane({lane})")

    def seen(first: float, height: float) -> bytes:
        clip = {"x": box["x"], "y": top + first, "width": 60, "height": height}
        return tab.page.screenshot(clip=clip)

    with_it = seen(2, 16), seen(30, 60)
    tab.page.add_style_tag(content=".compare .head { display: none; }")
    assert seen(2, 16) == with_it[0] and seen(30, 60) != with_it[1]


def test_switching_continues_at_the_same_word_without_a_gap(compare: Callable[..., Compare]) -> None:
    tab = compare().open(SLOW, QUICK).opened(2)
    tab.page.locator(".scene").focus()
    tab.page.keyboard.press("]")
    tab.page.keyboard.press("]")  # two
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Space")
    tab.page.evaluate(SWITCH_AT_MS, 850)  # within the word, on a busy machine too
    found = tab.ask(
        "(({before, current, maps, heard, isPlaying}) => ({heard, isPlaying, own: current.offsetMs,"
        " overlap: before.stopS - current.startS, came: maps()[1].axis(current.offsetMs),"
        " left: maps()[0].axis(before.offsetMs + 1000 * (current.startS - before.startS))}))(viewer.player)"
    )
    assert found["heard"] == 1 and found["isPlaying"]
    assert found["overlap"] > 0, "the old one still plays when the new one starts"
    assert found["came"] == pytest.approx(found["left"], abs=1e-6), "at the same position"
    assert 500.0 <= found["own"] < 1000.0, "word two"
    assert tab.page.locator('[data-take="1"]').get_attribute("aria-pressed") == "true"
    tab.until("!viewer.player.isPlaying")
    assert tab.ask("viewer.player.atMs") == pytest.approx(tab.ask("viewer.player.lastMs"))


def test_captured_sound_is_continuous(compare: Callable[..., Compare]) -> None:
    """Captured at the output: never silent around the switch, then an octave higher."""
    tab = compare().open(SLOW, QUICK).opened(2)
    tab.page.evaluate(
        "() => { const real = AudioContext; window.AudioContext = class extends real { constructor() { super();"
        " const meter = new AnalyserNode(this, {fftSize: 256}); const end = this.destination;"
        " Object.defineProperty(this, 'destination', {value: meter}); meter.connect(end);"
        " window.levels = []; const part = new Float32Array(256);"
        " setInterval(() => { meter.getFloatTimeDomainData(part); const at = this.currentTime;"
        " window.levels.push([at, Math.sqrt(part.reduce((sum, x) => sum + x * x, 0) / 256)]); }, 2); } }; }"
    )
    tab.page.locator(".scene").focus()
    tab.page.keyboard.press("Space")
    tab.until("viewer.player.isPlaying && viewer.player.atMs > 200")
    tab.page.keyboard.press("2")
    switched_s = tab.ask("viewer.player.current.startS")
    tab.until(f"viewer.player.context.currentTime > {switched_s} + 0.2")
    levels = [level for at, level in tab.ask("window.levels") if abs(at - switched_s) < 0.15]
    assert len(levels) > 5 and min(levels) > 0.05, levels  # a tone of 6000 has .13


def test_position_is_kept_when_the_axis_changes(compare: Callable[..., Compare]) -> None:
    tab = compare().open(SLOW, QUICK).opened(2)
    tab.page.locator("details.words summary").click()
    tab.page.locator("details.words button", has_text="three").click()
    tab.until("viewer.player.current && !viewer.player.isPlaying")  # it was played to its end
    tab.ask("viewer.jump(viewer.scene.maps[0].axis(2600))")
    tab.page.click('[data-do="stretch"]')
    assert tab.ask("viewer.player.atMs") == pytest.approx(2600.0)
    tab.page.click('[data-do="stretch"]')
    assert tab.ask("viewer.scene.maps[0].own(viewer.player.atMs)") == pytest.approx(2600.0)
    assert tab.ask("viewer.scene.chosen") == 2


def test_another_pair_can_be_chosen(compare: Callable[..., Compare], trace_store: Site) -> None:
    put(trace_store.folder / "traces", LONG, SLOW_SPANS, m=6)
    tab = compare().open(SLOW, QUICK, LONG).opened(3)
    tab.page.select_option('[data-pair="other"]', "2")
    tab.until("viewer.scene.difference?.one === 2 && viewer.scene.difference.other === 0")
    figures = tab.page.locator(".pair-figures").text_content()
    assert "100%" in figures and "3 against 1" in figures
    tab.page.locator("[data-take='2']").click()
    assert tab.ask("viewer.player.heard") == 2
    tab.page.get_by_role("button", name="Remove 2 m=3").click()
    tab.opened(2)
    assert tab.page.url.endswith(f"compare?trace={SLOW}&trace={LONG}")


def test_different_text_is_reported_and_not_aligned(compare: Callable[..., Compare]) -> None:
    tab = compare().open(SLOW, OTHER).opened(2)
    notice = tab.page.locator(".notes").text_content()
    assert "“m=2” says another text: 0% of its words" in notice and "cannot be stretched" in notice
    assert tab.page.locator('[data-do="stretch"]').is_disabled()
    tab.page.locator(".scene").focus()
    tab.page.keyboard.press("s")
    assert not tab.ask("viewer.scene.isStretched")


def test_missing_stimuli_are_refused(compare: Callable[..., Compare]) -> None:
    tab = compare().open(SLOW, "x" * 22)
    assert "umber 2 of 2 cannot be opened: there is no such trace" in tab.message("there is no such trace")
    tab.page.fill(".compare .link", "nonsense")
    tab.page.get_by_role("button", name="Add", exact=True).click()
    tab.message("names no utterance")
    tab.page.locator(".open-list button").nth(1).click()
    tab.opened(1)
    tab.page.fill(".compare .link", f"{tab.url}inspect?trace={QUICK}")
    tab.page.keyboard.press("Enter")
    tab.opened(2)
    tab = compare().open(more="kept=" + "f" * 12)
    tab.message("only the owner can open")


def test_one_text_is_synthesised_with_all_options_of_a_card(compare: Callable[..., Compare], server: Server) -> None:
    tab = compare(server.url).open(more="text=one+two+three&n=1")
    ways = tab.page.locator(".ways button")
    assert ways.all_text_contents() == [
        "Both schemes",
        "Look-ahead 1 to 6",
        "Words per step 1 to 6",
        "All voices (2)",
        "4 variations",
        "Both vocoders",
        "Current settings",
    ]
    ways.nth(1).click()
    tab.message("Speaking 1 of 6: m = 1")
    tab.opened(6)
    assert tab.page.locator("[data-take]").all_text_contents() == [f"{m} m={m}" for m in range(1, 7)]
    assert tab.page.locator(".view .about").text_content() == "tone:low · scheme S1 · hop n 1 · seed 0"
    assert tab.page.url.count("trace=") == 6, "the comparison has a shareable URL"
    ways.nth(0).click()
    tab.opened(8)
    ways.nth(3).click()
    tab.message("At most 8 utterances can be compared")


def test_utterance_is_vocoded_again(compare: Callable[..., Compare], server: Server) -> None:
    """Causal, then per segment: the fake engine negates the samples, so the two can be distinguished."""
    tab = compare(server.url).open(more="text=one+two+three")
    way = tab.page.locator(".ways button", has_text="Both vocoders")
    way.click()
    tab.message("segment at a time")
    tab.opened(2)
    tokens = parse_qs(urlsplit(tab.page.url).query)["trace"]
    sounds = [read_mono(urlopen(f"{server.url}traces/{token}.wav", timeout=30).read())[0] for token in tokens]
    assert len(set(tokens)) == 2 and len(sounds[0]) and (sounds[1] == -sounds[0]).all()
    starts = tab.ask("viewer.scene.takes.map((take) => take.words.map((word) => word.startMs))")
    assert len(starts[0]) == 3 and starts[0] == starts[1], "word boundaries are unchanged"
    for _ in range(3):
        way.click()
        eventually(way.is_enabled, "it has spoken again")
    tab.opened(8)
    tab.page.locator(".open-list button").first.click()
    tab.opened(7)
    way.click()
    tab.message("remove one first")


def test_utterance_of_a_real_voice_is_vocoded_again(
    compare: Callable[..., Compare], tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = Server(tmp_path_factory.mktemp("tiny"), script="ui/tiny_server.py")
    try:
        tab = compare(running.url).open(more="text=one+two+three")
        tab.page.locator(".ways button", has_text="Both vocoders").click()
        tab.message("segment at a time")
        tab.opened(2)
        tokens = parse_qs(urlsplit(tab.page.url).query)["trace"]
        causal, overlapped = (
            read_mono(urlopen(f"{running.url}traces/{token}.wav", timeout=30).read())[0] for token in tokens
        )
        assert len(causal) == len(overlapped) > 0 and (causal != overlapped).any()
    finally:
        running.stop()


def test_estimated_word_boundaries_are_dashed(compare: Callable[..., Compare], trace_store: Site) -> None:
    guessed = "g" * 22
    put(trace_store.folder / "traces", guessed, SLOW_SPANS, source="estimate", m=1)
    tab = compare().open(guessed, QUICK).opened(2)
    assert "with dashes" in tab.page.locator(".notes").text_content()
    assert tab.ask("viewer.scene.takes.map((take) => take.words.map((word) => word.isEstimate))") == [
        [True] * 3,
        [False] * 3,
    ]
    tab.page.evaluate(COUNT_DASHES)
    tab.ask("viewer.scene.draw()")
    assert tab.page.evaluate("window.dashed") == 3
    tab = compare().open(SLOW, QUICK).opened(2)
    assert "with dashes" not in tab.page.locator(".notes").text_content()


def test_options_refused_by_a_voice_are_left_out_and_reported(compare: Callable[..., Compare], server: Server) -> None:
    tab = compare(server.url).open(more="text=one+two&m=2")
    tab.page.locator(".ways button", has_text="Words per step").click()
    tab.opened(2)
    said = tab.message("Left out")
    assert said.count("Left out") == 4 and "n = 3" in said and "window m = 2" in said
    tab = compare(server.url).open()
    tab.page.locator(".ways button").first.click()
    tab.message("Enter a text first")


def test_stopping_keeps_what_is_spoken(compare: Callable[..., Compare], server: Server) -> None:
    long = "+".join(["elephants"] * 30)
    tab = compare(server.url).open(more=f"text={long}")
    tab.page.locator(".ways button", has_text="Look-ahead").click()
    tab.message("Speaking 2 of 6")
    tab.page.get_by_role("button", name="Stop").click()
    tab.opened(1)
    assert tab.page.get_by_role("button", name="Stop").count() == 0
    free = "fetch('health').then((r) => r.json()).then((m) => m.places_free)"
    eventually(lambda: tab.page.evaluate(free) == 4, "its place is free again")


def test_live_and_inspect_link_here(
    visit: Callable[..., LivePage], compare: Callable[..., Compare], server: Server
) -> None:
    live = visit()
    live.page.locator('[data-option="m"]').fill("2")
    live.type("One two three. ")
    live.finish(spoken=1)
    link = live.page.locator('[data-get="compare"]').get_attribute("href")
    assert "m=2" in link
    tab = compare(server.url)
    tab.page.goto(link)
    tab.arrive().opened(1).message("Only one utterance")
    assert tab.page.locator(".says").input_value() == "One two three."
    assert "m = 2" in tab.page.locator(".base").text_content()
    tab.page.get_by_role("link", name="Inspect 1 tone:low").click()
    tab.page.locator(".inspect .against").click()
    tab.opened(1)
    tab.page.locator(".ways button", has_text="Current settings").click()
    tab.opened(2)


def test_library_utterances_are_selected_and_compared(trace_store: Site, enter: Callable[..., Any]) -> None:
    library = Library(trace_store.folder / "library")
    for token in (SLOW, QUICK):
        library.add((trace_store.folder / "traces" / f"{token}.trace").read_bytes(), title=token[:4])
    library.close()
    page = enter("library")
    page.locator(".library[data-stage=open]").wait_for()
    page.locator(".entry", has_text=SLOW[:4]).get_by_label("Choose").check()
    assert page.get_by_role("link", name="Compare 2").count() == 0
    page.locator(".entry", has_text=QUICK[:4]).get_by_label("Choose").check()
    assert violations(page) == []
    page.get_by_role("link", name="Compare 2").click()
    eventually(lambda: page.evaluate(f"{Compare.viewer}?.scene.difference"), "the comparison")
    assert page.locator("[data-take]").all_text_contents() == ["1 m=1", "2 m=3"]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_nothing_is_cut_off_and_axe_passes(compare: Callable[..., Compare], width: int, scheme: str) -> None:
    tab = compare(viewport={"width": width, "height": 900}, color_scheme=scheme).open(SLOW, QUICK).opened(2)
    shown = (
        "[...document.querySelectorAll('.compare :is(button, canvas, h1, dd, select)')].filter((e) => e.offsetParent)"
    )
    inside = f"{shown}.filter((e) => !e.closest('.scroll'))"
    assert tab.page.evaluate(f"Math.max(...{inside}.map((e) => e.getBoundingClientRect().right))") <= width
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    tab.page.locator("details.words summary").click()
    assert violations(tab.page) == []


def test_row_header_of_a_wide_table_stays_visible(compare: Callable[..., Compare]) -> None:
    tab = compare(viewport={"width": 390, "height": 900}).open(SLOW, QUICK).opened(2)
    table = tab.page.locator("details.utterances .scroll")
    assert table.evaluate("(e) => e.scrollWidth > e.clientWidth"), "fully visible"
    table.evaluate("(e) => { e.scrollLeft = e.scrollWidth; }")
    left = "(e) => e.getBoundingClientRect().left"
    assert table.locator("tr:last-child th").evaluate(left) == table.evaluate(left)


def test_exported_file_needs_no_network(chromium: Any, trace_store: Site, tmp_path: Path) -> None:
    traces = [open_trace(trace_store.folder / "traces" / f"{token}.trace") for token in (SLOW, QUICK)]
    path = tmp_path / "compared.html"
    write_comparison(
        compare_traces([compared_utterance(name, trace) for name, trace in zip("ab", traces, strict=True)]), path
    )
    tab = Compare(chromium, path.as_uri(), offline=True)
    tab.page.goto(path.as_uri())
    tab.opened(2)
    assert tab.page.locator("[data-take]").all_text_contents() == ["1 a", "2 b"]
    assert not tab.page.locator(".open").is_visible()
    tile = "viewer.scene.difference.picture.tile(1, 0, { leftMs: Infinity })"
    whole = f"[...{tile}.getContext('2d').getImageData(0, 0, 100, 80).data].join()"
    before = tab.ask(whole)
    tab.page.select_option('[data-pair="other"]', "0")
    tab.page.select_option('[data-pair="one"]', "1")
    tab.until("viewer.scene.difference?.one === 0")
    assert tab.ask(whole) != before, "negated"
    tab.page.context.close()
    assert tab.wrong == []
