"""The Library page's section of added speakers: a recording from a microphone, consent, refusals, the Live page."""

import json
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from ui.owner_site import Site
from ui.site.test_axe import violations
from ui.waits import until

from studio.core.folders import DEMO
from studio.core.speakers import CONSENT

RATE_HZ = 24_000
NAME = "Zoë"
MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
RECORDED_S = 8  # by the page: a second of silence, the speech, silence


def recorded() -> tuple[np.ndarray, str]:
    """Two sentences of one speaker, float [T], and their text."""
    manifest = json.loads((DEMO / "manifest.json").read_text(encoding="utf-8"))
    texts = {one["name"]: one["text"] for one in manifest["items"]}
    files = {one["item"]: one["file"] for one in manifest["files"] if one["file"].startswith("teacher-miles")}
    items = ("bridge", "ferry")
    return np.concatenate([soundfile.read(DEMO / files[item])[0] for item in items]), " ".join(
        texts[item] for item in items
    )


def wav(sound: np.ndarray) -> bytes:
    file = BytesIO()
    soundfile.write(file, sound, RATE_HZ, format="WAV")
    return file.getvalue()


@pytest.fixture(scope="module")
def chromium(launch: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A browser whose microphone hears a recording, once."""
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    silence = np.random.default_rng(0).normal(0.0, 1e-4, RATE_HZ)
    path.write_bytes(wav(np.concatenate((silence, 0.5 * recorded()[0], silence, silence))))
    fake = (*MICROPHONE, f"--use-file-for-fake-audio-capture={path}%noloop")
    return launch(*fake, any_time=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("owner"), "--empty", "--voice", "finch")
    yield found
    found.process.kill()
    found.process.wait(10.0)


@pytest.fixture
def opened(enter: Callable[..., Any]) -> Callable[..., Any]:
    """Opens the section."""

    def open_section(**options: Any) -> Any:
        page = enter("library", **options)
        page.get_by_text("Speakers from a recording").click()
        page.get_by_label("Name of the speaker").wait_for()
        return page

    return open_section


def add(page: Any) -> Any:
    return page.get_by_role("button", name="Add speaker")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_speaker_is_recorded_added_heard_and_removed(site: Site, opened: Callable[..., Any], theme: str) -> None:
    page = opened(color_scheme=theme)
    page.get_by_text("a speaker recogniser assigned 1 of 20 sentences to the right speaker").wait_for()
    assert add(page).is_disabled()
    page.get_by_text("Missing: a recording, a name, the consent.").wait_for()
    page.get_by_role("button", name="Record").click()
    page.get_by_text(re.compile(rf"Recording, {RECORDED_S}\.\d s, level good")).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text(re.compile(r"recording\.wav, \d\.\d s")).wait_for()
    bars = page.get_by_role("img", name="Waveform of the recording").locator("path").get_attribute("d")
    assert bars.count("M") == 240
    heard = page.locator(".recording audio")
    page.wait_for_function("audio => audio.duration > 4", arg=heard.element_handle())
    page.get_by_label("Name of the speaker").fill(NAME)
    page.get_by_label("Read this aloud").fill(recorded()[1])
    page.get_by_label("Who confirms that").fill("Zoë, by letter")
    page.get_by_text("Missing: the consent.").wait_for()
    assert add(page).is_disabled(), "nothing is sent without the consent"
    page.get_by_text(CONSENT).click()
    assert violations(page) == []
    for width in (390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    add(page).click()
    page.get_by_text(f"finch:{NAME} is added, from").wait_for()
    row = page.get_by_role("list", name="Added speakers").get_by_role("listitem")
    assert "consent confirmed" in row.inner_text() and "Zoë, by letter" in row.inner_text()
    assert violations(page) == []
    date = re.search(r"\d{4}-\d\d-\d\d", row.inner_text())
    assert date is not None
    spoken = page.request.post(
        f"{site.url}v1/audio/speech", data={"model": "finch", "voice": f"finch:{NAME}", "input": "Good morning."}
    )
    assert spoken.ok and spoken.headers["x-studio-speech"].endswith(f"consent given on {date[0]}")
    comment = f"Synthetic speech: voice finch:{NAME}, Streaming-TTS Studio. The speaker was cloned from a recording"
    sound = site.url + spoken.headers["x-studio-trace"].replace(".trace", ".wav")

    def says_so() -> None:
        assert f"{comment} with consent given on {date[0]}.".encode() in page.request.get(sound).body()

    until(says_so)  # the trace exists shortly after the response
    page.get_by_role("link", name=f"Hear finch:{NAME}").click()
    page.wait_for_function("name => document.querySelector('[data-set=\"speaker\"]')?.value === name", arg=NAME)
    page.get_by_role("link", name="Add a speaker from a recording").click()
    page.get_by_role("button", name=f"Remove finch:{NAME}").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_text(f"{NAME} is removed.").wait_for()
    assert not [*Path(site.folder / "speakers").iterdir()]
    assert NAME not in site.get("api/voices")


def test_server_requires_the_consent_and_the_owner(site: Site, opened: Callable[..., Any], chromium: Any) -> None:
    page = opened()
    sound, text = recorded()
    headers = {"X-Studio-Voice": "finch", "X-Studio-Name": "x", "X-Studio-Text": text}
    for given in ({}, {"X-Studio-Consent": ""}, {"X-Studio-Consent": "no"}, {"X-Studio-Consent": "true"}):
        said = page.request.post(f"{site.url}library/speakers/add", data=wav(sound), headers=headers | given)
        assert said.status == 422 and said.json()["code"] == "no_consent", said.text()
    stranger = chromium.new_context()
    for path in ("add", "remove"):
        said = stranger.request.post(f"{site.url}library/speakers/{path}", data=b"{}", headers=headers)
        assert said.status == 403
    assert stranger.request.get(f"{site.url}library/speakers").status == 403
    assert page.request.get(f"{site.url}library").headers["permissions-policy"].count("microphone=(self)") == 1
    assert "microphone=()" in stranger.request.get(site.url).headers["permissions-policy"]
    stranger.close()
    assert not Path(site.folder / "speakers").exists() or not [*Path(site.folder / "speakers").iterdir()]


def test_recordings_are_refused_with_their_reason(site: Site, opened: Callable[..., Any]) -> None:
    page = opened()
    sound, text = recorded()
    at = np.arange(5 * RATE_HZ) / RATE_HZ
    page.get_by_label("Name of the speaker").fill("nobody")
    page.get_by_text(CONSENT).click()
    other = "Nobody had told us that the shop would be closed on Monday."
    cases = (
        ("tone.wav", wav(0.2 * np.sin(2 * np.pi * 440 * at)), text, "is a tone of 440 Hz, not speech"),
        ("short.wav", wav(sound[: 2 * RATE_HZ]), text, "lasts 2.00 s; speak for 3 to 10 s"),
        ("loud.wav", wav(np.clip(30 * sound, -1, 1)), text, "is clipped"),
        ("notes.txt", b"hello", text, "The recording"),
        ("other.wav", wav(sound), other, "do not match"),
    )
    for name, data, says, message in cases:
        page.get_by_label("Read this aloud").fill(says)
        page.locator("#speaker-file").set_input_files({"name": name, "mimeType": "audio/wav", "buffer": data})
        page.get_by_text(re.compile(rf"^{re.escape(name)}")).wait_for()
        add(page).click()
        page.locator(".speakers .owner-notice[data-level=error]").get_by_text(message).wait_for()
    assert site.get("api/voices").count("nobody") == 0


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (MICROPHONE[:1], "does not let this page use the microphone. Allow it, or choose a file."),
        ((), "There is no microphone. Choose a file."),
    ],
)
def test_microphone_that_cannot_be_used(
    site: Site, launch: Callable[..., Any], devices: tuple[str, ...], message: str
) -> None:
    context = launch(*devices, f"{MICROPHONE[1]}=deny", any_time=True).new_context()
    site.sign_in(context)
    page = context.new_page()
    page.goto(f"{site.url}library")
    page.get_by_text("Speakers from a recording").click()
    page.get_by_role("button", name="Record").click()
    page.get_by_text(message).wait_for()
    page.get_by_role("button", name="Record").wait_for()
    context.close()
