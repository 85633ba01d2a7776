"""The owner's library page: search, add, edit, delete, open in Inspect, import files."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from serve.serving import eventually
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.site.test_axe import violations

from studio.core.clips import wav_bytes
from studio.core.traces.trace_writer import TraceWriter
from studio.library.index import Query
from studio.library.library import Library
from studio.serve.library.routes import PAGE

TOKEN = "k" * 22
NASTY = "<img src=x onerror=alert(1)> ${1}"


@pytest.fixture(autouse=True)
def library(site: Site) -> Any:
    """The server's library as `studio library` sees it, empty at the start of each test."""
    found = Library(site.folder / "library")
    for one in found.find(Query(limit=1000))[0]:
        found.remove(one)
    yield found
    found.close()


def said(number: int) -> bytes:
    return wav_bytes(pcm(1)[: 100 + number], RATE_HZ)


def spoken(folder: Path, name: str) -> Path:
    writer = TraceWriter(folder / name, {})
    writer.write(*story())
    return writer.close()


def titles(page: Any) -> list[str]:
    return page.locator(".entry h2").all_text_contents()


def shows(page: Any, wanted: list[str]) -> None:
    eventually(lambda: titles(page) == wanted, f"{wanted} and nothing else")


def opened(page: Any) -> Any:
    page.locator(".library[data-stage=open]").wait_for()
    return page


def entry(page: Any, title: str) -> Any:
    return page.locator(".entry", has=page.get_by_role("heading", name=title, exact=True))


def test_search_is_in_the_url(site: Site, library: Library, enter: Callable[..., Any], tmp_path: Path) -> None:
    library.add(spoken(tmp_path, "a").read_bytes(), title="typed live", tags=["demo"])
    library.add(said(1), "Straße am Meer", title="one", tags=["demo", "sea"])
    library.add(said(2), NASTY)
    page = opened(enter("library"))
    shows(page, [NASTY, "one", "typed live"])
    assert page.locator(".count").text_content() == "3 utterances"
    assert "v:a" in entry(page, "typed live").inner_text() and "3 words" in entry(page, "typed live").inner_text()
    page.get_by_label("Words").fill("STRASSE meer")
    shows(page, ["one"])
    page.get_by_role("button", name="demo 2").click()
    page.get_by_label("Words").fill("")
    shows(page, ["one", "typed live"])
    page.get_by_label("Voice", exact=True).select_option("v:a")
    shows(page, ["typed live"])
    assert page.url == f"{site.url}library?voice=v%3Aa&tag=demo"
    page.reload()
    shows(page, ["typed live"])
    assert page.get_by_role("button", name="demo 2").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="demo 2").press("Enter")
    page.get_by_label("Until").fill("2001-01-01")
    page.get_by_role("heading", name="No matches").wait_for()
    page.get_by_role("button", name="Clear filters").click()
    shows(page, [NASTY, "one", "typed live"])
    entry(page, "one").get_by_role("button", name="Filter by tag sea").click()
    shows(page, ["one"])
    assert page.url == f"{site.url}library?tag=sea"


def test_times_and_days_are_of_the_viewers_time_zone(library: Library, enter: Callable[..., Any]) -> None:
    added = library.add(said(1), title="one").note.added_at
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):  # a day and an hour apart
        when = datetime.fromtimestamp(added, ZoneInfo(zone))
        page = opened(enter("library", timezone_id=zone, locale="en-GB"))
        assert f"{when.day} {when:%b %Y, %H:%M} ·" in entry(page, "one").locator("p.muted").first.inner_text()
        for name, day, wanted in (("From", 0, ["one"]), ("Until", 0, ["one"]), ("Until", -1, [])):
            page.get_by_label(name, exact=True).fill(f"{when + timedelta(days=day):%Y-%m-%d}")
            shows(page, wanted)
        page.reload()
        page.get_by_role("heading", name="No matches").wait_for()


def test_utterance_is_added_from_live_and_named(
    site: Site, library: Library, enter: Callable[..., Any], tmp_path: Path
) -> None:
    library.add(said(1), title="before")
    page = opened(enter("library"))
    live = LivePage(page, site.url)
    live.open()
    live.type("one two three ")
    live.finish(spoken=1)
    page.get_by_role("link", name="Save to library", exact=True).click()
    tab = page
    tab.locator(".entry form").wait_for()
    assert tab.url == f"{site.url}library", "a reload adds nothing again"
    assert titles(tab) == ["one two three", "before"]
    assert tab.evaluate("document.activeElement.labels[0].textContent") == "Title"
    tab.keyboard.type("My first")
    tab.get_by_label("Tags, separated by commas").fill("demo, a b,,demo")
    tab.keyboard.press("Enter")
    shows(tab, ["My first", "before"])
    tab.get_by_role("button", name="a b 1").wait_for()
    kept = library.find(Query(text="first"))[0][0]
    assert (kept.text, kept.note.title, kept.note.tags) == ("one two three", "My first", ("a b", "demo"))

    entry(tab, "My first").get_by_role("link", name="Open").click()
    tab.locator(".inspect[data-state=open] .view h1", has_text="one two three").wait_for()
    assert tab.url == f"{site.url}inspect?kept={kept.name}"
    assert tab.locator(".keep").is_hidden(), "it is in the library already"
    page.goto(tab.url.replace(f"?kept={kept.name}", f"?trace={TOKEN}"))
    page.locator(".inspect .status[data-level=error]").wait_for()
    spoken(site.folder / "traces", TOKEN)
    page.reload()
    page.get_by_role("toolbar").get_by_role("link", name="Save to library", exact=True).click()
    page.locator(".entry form").wait_for()
    assert library.find(Query(text="two 3"))[1] == 1


def test_note_is_edited_and_an_invalid_one_refused(library: Library, enter: Callable[..., Any]) -> None:
    library.add(said(1), "the words", title="old", tags=["a"])
    page = opened(enter("library"))
    edit = entry(page, "old").get_by_role("button", name="Edit")
    edit.press("Enter")
    page.get_by_label("Title", exact=True).fill("lost")
    page.keyboard.press("Escape")
    shows(page, ["old"])
    edit.press("Enter")
    page.get_by_label("Title", exact=True).fill("new")
    page.get_by_label("Tags, separated by commas").fill("x" * 61)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").filter(has_text="is invalid").wait_for()
    assert violations(page) == []
    page.get_by_label("Tags, separated by commas").fill("b")
    page.keyboard.press("Enter")
    shows(page, ["new"])
    assert page.evaluate("document.activeElement.textContent") == "Edit"
    page.get_by_role("button", name="b 1").wait_for()
    assert library.find(Query())[0][0].note.tags == ("b",)
    assert violations(page) == []


def test_deletion_asks_once(library: Library, enter: Callable[..., Any]) -> None:
    library.add(said(1), title="one")
    library.add(said(2), title="two")
    page = opened(enter("library"))
    for answer, left in (("Cancel", ["two", "one"]), ("Delete", ["two"])):
        entry(page, "one").get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="Delete “one”?").wait_for()
        page.locator(".owner-ask").get_by_role("button", name=answer).click()
        shows(page, left)
    eventually(lambda: library.find(Query())[1] == 1, "one is left")
    library.remove(library.find(Query())[0][0])  # another client was faster
    page.get_by_role("button", name="Delete").click()
    page.locator(".owner-ask").get_by_role("button", name="Delete").click()
    page.locator(".library .status[data-level=error]", has_text="The library has no").wait_for()
    page.reload()
    page.get_by_role("heading", name="The library is empty").wait_for()
    assert "studio library add" in page.locator(".none").inner_text()
    assert violations(page) == []


DROP = """([target, files]) => {
  const data = new DataTransfer();
  for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
  target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_files_are_imported_with_their_metadata(library: Library, enter: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(enter("library"))
    files = [["a.wav", list(said(1))], ["b.trace", list(spoken(tmp_path, "a").read_bytes())], ["c.wav", [1, 2, 3]]]
    page.evaluate(DROP, [page.locator(".library").element_handle(), files])
    page.get_by_role("heading", name="a.wav, and 2 more").wait_for()
    assert violations(page) == []
    page.get_by_label("Spoken text").fill("Grüße, zwei")
    page.get_by_role("button", name="Add to library").click()
    page.get_by_role("heading", name="b.trace, and 1 more").wait_for()
    assert page.get_by_label("Spoken text").count() == 0, "from the trace itself"
    page.locator(".adding").get_by_label("Title").fill("Dropped")
    page.get_by_role("button", name="Add to library").click()
    page.get_by_role("heading", name="c.wav", exact=True).wait_for()
    page.get_by_role("button", name="Add to library").click()
    page.get_by_role("alert").filter(has_text="not a readable trace").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.locator(".adding form").wait_for(state="hidden")
    shows(page, ["Dropped", "Grüße, zwei"])
    found, _ = library.find(Query())
    assert [(one.kind, one.note.title, one.text) for one in found] == [
        ("trace", "Dropped", "One  two 3"),
        ("recording", "", "Grüße, zwei"),
    ]
    with page.expect_download() as download:
        entry(page, "Grüße, zwei").get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "fetched.wav")
    assert (tmp_path / "fetched.wav").read_bytes() == said(1)
    assert download.value.suggested_filename == f"utterance-{found[1].name}.wav"


def test_sound_is_played_and_saved(library: Library, enter: Callable[..., Any], tmp_path: Path) -> None:
    library.add(spoken(tmp_path, "a").read_bytes(), title="typed")
    library.add(wav_bytes(np.tile(pcm(10), 80), RATE_HZ), title="long")  # 20 s
    page = opened(enter("library"))
    entry(page, "long").get_by_role("button", name="Play").click()
    entry(page, "long").get_by_role("button", name="Stop").wait_for()
    entry(page, "typed").get_by_role("button", name="Play").click()
    entry(page, "long").get_by_role("button", name="Play").wait_for()  # one sound at a time
    entry(page, "typed").get_by_role("button", name="Play").wait_for()  # it has ended
    entry(page, "long").get_by_role("button", name="Play").click()
    entry(page, "long").get_by_role("button", name="Stop").click()
    entry(page, "long").get_by_role("button", name="Play").wait_for()
    assert entry(page, "long").get_by_role("button", name="SRT").count() == 0, "a recording without text"
    files = (
        ("Download", "wav", b"RIFF"),
        ("Trace", "trace", b"PK"),
        ("SRT", "srt", b"1\n"),
        ("WebVTT", "vtt", b"WEBVTT"),
    )
    for button, ending, begin in files:
        with page.expect_download() as download:
            entry(page, "typed").get_by_role("button", name=button).click()
        assert download.value.suggested_filename.endswith(f".{ending}")
        assert Path(download.value.path()).read_bytes().startswith(begin)
    assert violations(page) == []


def test_inspect_page_lists_the_newest(library: Library, enter: Callable[..., Any]) -> None:
    for number in range(10):
        library.add(said(number), title=f"number {number}")
    page = enter("inspect")
    page.locator(".recent li").first.wait_for()
    assert page.locator(".recent a").all_text_contents() == [f"number {n}" for n in range(9, 1, -1)]
    assert violations(page) == []
    page.get_by_role("link", name="number 9").click()
    page.locator(".inspect[data-state=open]").wait_for()
    assert page.url.endswith(f"inspect?kept={library.find(Query())[0][0].name}")
    assert page.locator(".recent").is_hidden()


def test_more_are_shown_on_request(library: Library, enter: Callable[..., Any]) -> None:
    for number in range(PAGE + 3):
        library.add(said(number), title=f"{number}")
    page = opened(enter("library"))
    newest = [f"{number}" for number in reversed(range(PAGE + 3))]
    shows(page, newest[:PAGE])
    page.get_by_role("button", name="Show more").click()
    shows(page, newest)
    assert page.get_by_role("button", name="Show more").is_hidden()


def test_without_the_token_nothing_is_shown(
    site: Site, library: Library, enter: Callable[..., Any], chromium: Any
) -> None:
    kept = library.add(said(1), "one", title="secret")
    page = enter("library?tag=x", token="wrong")
    page.get_by_label("Owner's access key").wait_for()
    assert "library" in page.url and "secret" not in page.content()
    page.goto(f"{site.url}inspect?kept={kept.name}")
    page.locator(".inspect .status", has_text="sign in on the Library page").wait_for()
    stranger = chromium.new_page()
    stranger.goto(f"{site.url}inspect?kept={kept.name}")
    stranger.locator(".inspect .status[data-level=error]", has_text="sign in on the Library page").wait_for()
    stranger.close()
    assert json.loads(site.get("library/entries", Authorization=f"Bearer {site.token}"))["of"] == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_nothing_is_cut_off_at_the_side(
    library: Library, enter: Callable[..., Any], tmp_path: Path, width: int, scheme: str
) -> None:
    library.add(spoken(tmp_path, "a").read_bytes(), title="x" * 200, tags=[f"{'tag' * 18} {n}" for n in range(6)])
    library.add(said(1), "word" * 300)
    page = opened(enter("library", viewport={"width": width, "height": 900}, color_scheme=scheme))
    page.locator(".entry").nth(1).get_by_role("button", name="Edit").click()
    page.locator("#library-file").set_input_files({"name": "n" * 90, "mimeType": "audio/wav", "buffer": said(3)})
    page.get_by_label("Spoken text").wait_for()
    script = "Math.max(...[...document.querySelectorAll('.library *')].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(script) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
