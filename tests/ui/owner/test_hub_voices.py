"""The Library page's section of pulled voices, in a browser, against a hub on this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hub.hubserver import TOKEN, Hub, hub_server
from hub.kyutai_files import SPEAKERS_END, published_files
from safetensors.torch import save
from tinyvoice import write_tiny_voice
from ui.owner_site import Site
from ui.site.test_axe import violations

from studio.core.cards import read_card
from studio.hub.kyutai import DEFAULT_SPEAKERS, SPEAKERS

REPO, KYUTAI = "rook/tiny", "kyutai/tts-tiny"
OTHERS = ("vctk/p226_023.wav", "vctk/p228_023.wav", "cml-tts/fr/10087_11650_000028-0002.wav")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = write_tiny_voice(tmp_path_factory.mktemp("voice"))
    with hub_server() as server:
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        server.repository(REPO).commit(files | {"training.pt": b"\x80"})
        server.repository(KYUTAI).commit(published_files(tmp_path_factory.mktemp("kyutai")))
        speaker = save({"speaker_wavs": torch.zeros(1, 6, 3)})
        server.repository(SPEAKERS).commit({f"{path}{SPEAKERS_END}": speaker for path in (*DEFAULT_SPEAKERS, *OTHERS)})
        yield server


@pytest.fixture(scope="module", params=[("",)])
def site(request: pytest.FixtureRequest, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose client asks that hub; its parameters are the client's token, and more arguments."""
    folder = tmp_path_factory.mktemp("owner")
    token, *arguments = request.param
    env = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(folder), "HF_TOKEN": token}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HF_HUB_OFFLINE", raising=False)
        for name, value in (env | {"STUDIO_PULLED_VOICES": str(folder / "voices")}).items():
            patch.setenv(name, value)
        found = Site(folder, "--empty", *arguments)
    yield found
    found.process.kill()
    found.process.wait(10.0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_voice_is_looked_up_pulled_verified_and_removed(
    site: Site, hub: Hub, enter: Callable[..., Any], theme: str
) -> None:
    page = enter("library", color_scheme=theme)
    page.get_by_text("Voices from the hub").click()
    page.get_by_text("No voice was pulled yet.").wait_for()
    page.get_by_label("Repository").fill("nobody/nothing")
    page.get_by_role("button", name="Look it up").click()
    page.get_by_text("There is no repository nobody/nothing").wait_for()
    page.get_by_label("Repository").fill(REPO)
    page.get_by_role("button", name="Look it up").click()
    offer = page.locator(".hub-offer")
    offer.get_by_role("button", name="Accept the licence and pull").wait_for()
    assert "Apache-2.0" in offer.inner_text() and "training.pt (pickles" in offer.inner_text()
    assert violations(page) == []
    hub.faults.trickle_s = 0.005
    offer.get_by_role("button", name="Accept the licence and pull").click()
    page.get_by_role("progressbar", name="Download").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("The pull was stopped").wait_for()
    hub.faults.trickle_s = 0
    page.get_by_label("Name here").fill("my-tiny")
    page.get_by_role("button", name="Look it up").click()
    page.get_by_role("button", name="Accept the licence and pull").click()
    page.get_by_text("my-tiny is pulled.").wait_for()
    row = page.get_by_role("list", name="Pulled from the hub").get_by_role("listitem")
    assert REPO in row.inner_text() and "Apache-2.0" in row.inner_text() and "next start" in row.inner_text()
    page.get_by_role("button", name="Verify my-tiny").click()
    page.get_by_text("my-tiny: 3 files unchanged since the pull.").wait_for()
    assert violations(page) == []
    for width in (390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    page.get_by_role("button", name="Remove my-tiny").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_text("my-tiny is removed.").wait_for()
    page.get_by_text("No voice was pulled yet.").wait_for()
    assert not Path(site.folder / "voices" / "my-tiny").exists()


def test_speakers_of_a_published_model_are_chosen(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("library")
    page.get_by_text("Voices from the hub").click()
    page.get_by_label("Repository").fill(KYUTAI)
    page.get_by_role("button", name="Look it up").click()
    field = page.get_by_label("Speakers: up to 32 of 4")
    for path in OTHERS:
        field.fill(path)
        page.get_by_role("list", name="Chosen speakers").get_by_text(path).wait_for()
    field.fill("vctk/nobody")
    page.get_by_role("button", name=f"Remove {OTHERS[0]}").click()
    assert page.get_by_role("list", name="Chosen speakers").get_by_role("listitem").count() == 2
    assert violations(page) == []
    for width in (390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    page.get_by_role("button", name="Accept the licence and pull").click()
    page.get_by_text("tts-tiny is pulled.").wait_for()
    card = read_card(site.folder / "voices" / "tts-tiny")
    assert card.speakers == ("p228_023", "10087_11650_000028-0002")


def test_without_a_token_nothing_is_offered(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("library")
    page.get_by_text("Publish a voice").click()
    page.get_by_text("No voice here can be published").wait_for()
    assert not page.get_by_role("button", name="Publish").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("site", [(TOKEN, "--voice", "wren")], indirect=True)
def test_a_voice_is_published(site: Site, hub: Hub, enter: Callable[..., Any], theme: str) -> None:
    page = enter("library", color_scheme=theme)
    page.get_by_text("Publish a voice").click()
    page.get_by_label("Voice to publish").select_option("wren")
    assert "Licence: " in page.locator(".hub-voices[open]").inner_text()
    page.get_by_label("Publish as").fill("rook/a/b")
    page.get_by_role("button", name="Publish").click()
    page.locator("dialog").get_by_role("button", name="Publish").click()
    page.get_by_text("is no name of a repository").wait_for()
    page.get_by_label("Publish as").fill(f"rook/{theme}")
    page.get_by_label("Private").check()
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("readable by people that you admit").wait_for()
    page.locator("dialog").get_by_role("button", name="Publish").click()
    page.get_by_text("wren is published.").wait_for()
    assert page.get_by_role("link", name=f"rook/{theme}").get_attribute("href").startswith(hub.url)
    assert hub.repositories[f"rook/{theme}"].private
    assert violations(page) == []
    for width in (390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
