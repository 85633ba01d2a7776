"""The pages as an app that can be installed: manifest, icons, a page without a server, media keys."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from ui.browser import ANY_TIME, FLAGS, WAIT_MS, browser_path
from ui.conftest import _free_port
from ui.deployed.conftest import KEY
from ui.deployed.proxy import Proxy
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.waits import comes_to

pytestmark = pytest.mark.slow

READY = "async () => (await navigator.serviceWorker.ready).scope"
STORED = """async () => (await Promise.all((await caches.keys()).map(async (name) =>
  (await (await caches.open(name)).keys()).map((request) => request.url)))).flat()"""
SIZE = "async (url) => { const one = await createImageBitmap(await (await fetch(url)).blob()); return one.width; }"
SIGN_IN = """async (token) => {
  const headers = { 'Content-Type': 'application/json' };
  return (await fetch('./mos/owner/session', { method: 'POST', headers, body: JSON.stringify({ token }) })).status;
}"""
HANDLERS = """window.handlers = {};
navigator.mediaSession.setActionHandler = (action, run) => { handlers[action] = run; };"""


@pytest.fixture
def installed(playwright: Any, proxy: Proxy, tmp_path: Path) -> Iterator[Any]:
    """A page of a whole browser with a profile, which trusts the proxy's authority and has the key."""
    certutil = shutil.which("certutil")
    needs(certutil, "the system package libnss3-tools")
    store = tmp_path / ".pki" / "nssdb"
    store.mkdir(parents=True)
    for arguments in (("-N", "--empty-password"), ("-A", "-n", "proxy", "-t", "C,,", "-i", str(proxy.authority))):
        subprocess.run([str(certutil), "-d", f"sql:{store}", *arguments], check=True, timeout=60)
    context = playwright.chromium.launch_persistent_context(
        tmp_path / "profile",
        executable_path=browser_path("chromium", "chromium-browser", "google-chrome"),
        args=[*FLAGS, ANY_TIME],
        env={"HOME": str(tmp_path)},
        locale="de-DE",
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(f"{proxy.url}?key={KEY}")
    assert page.evaluate(READY) == proxy.url
    yield page
    context.close()


def test_app_can_be_installed(installed: Any, proxy: Proxy) -> None:
    client = installed.context.new_cdp_session(installed)
    assert client.send("Page.getInstallabilityErrors")["installabilityErrors"] == []
    found = client.send("Page.getAppManifest")
    assert found["errors"] == []
    manifest = json.loads(found["data"])
    at = lambda path: installed.evaluate("([a, b]) => new URL(a, b).href", [path, found["url"]])  # noqa: E731
    assert at(manifest["start_url"]) == at(manifest["scope"]) == proxy.url
    assert [at(one["url"]) for one in manifest["shortcuts"]] == [
        f"{proxy.url}{path}" for path in ("inspect", "compare")
    ]
    for icon in manifest["icons"]:
        assert icon["sizes"] == "{0}x{0}".format(installed.evaluate(SIZE, at(icon["src"])))
    assert {one.get("purpose", "any") for one in manifest["icons"]} == {"any", "maskable"}


def test_page_without_a_server(installed: Any, site: Site, proxy: Proxy) -> None:
    """It is all that is stored, whatever was used before."""
    live = LivePage(installed, proxy.url)
    live.open()
    live.type("one two three ")
    live.finish(spoken=1)
    assert installed.evaluate(SIGN_IN, site.token) == 200
    for path in ("inspect", "library", "results"):
        installed.goto(proxy.url + path)
    (stored,) = installed.evaluate(STORED)
    assert stored.endswith("/page/offline/")
    installed.goto(f"{proxy.url}?text=hello")
    proxy.stop()
    try:
        installed.reload()
        assert installed.title() == "Nicht verbunden · Streaming-TTS Studio"
        for path in ("library", "inspect?trace=abc"):
            installed.goto(proxy.url + path)
            installed.get_by_role("heading", name="Das Studio ist nicht erreichbar").wait_for()
        for path in ("rate#abc", "annotate", "api/voices"):  # no page of the app
            tab = installed.context.new_page()  # its error page may appear after `goto` has failed
            with pytest.raises(Exception, match="ERR_CONNECTION_REFUSED"):
                tab.goto(proxy.url + path)
            tab.close()
        proxy.start(_free_port())  # the proxy's answer is 502
        installed.goto(f"{proxy.url}?text=hello")
        installed.get_by_role("heading", name="Das Studio ist nicht erreichbar").wait_for()
    finally:
        proxy.stop()
        proxy.start(site.port)
    installed.get_by_role("link", name="Erneut versuchen").click()
    comes_to(lambda: installed.locator("#live-text").input_value(), "hello")


def test_media_keys(visit: Callable[..., LivePage]) -> None:
    live = visit(script=HANDLERS)
    state = lambda: live.page.evaluate("navigator.mediaSession.playbackState")  # noqa: E731
    assert state() == "none"
    live.type("one two three four five six ")
    comes_to(state, "playing")
    assert live.page.evaluate("navigator.mediaSession.metadata.title") == "Low"
    live.page.evaluate("handlers.pause()")
    comes_to(state, "paused")
    assert live.page.evaluate("document.querySelector('.live').tap.page.player.isPaused")
    live.page.evaluate("handlers.play()")
    comes_to(state, "playing")
    live.page.evaluate("handlers.stop()")
    comes_to(state, "none")
    live.wait_phase("idle")
    live.page.evaluate("handlers.play()")  # speaks the field again
    comes_to(state, "playing")
