"""A browser tab with a trace viewer: Inspect or Compare."""

from typing import Any

from serve.serving import eventually
from ui.waits import PATIENCE_S


class ViewerTab:
    """One tab; ``viewer`` is the page's viewer object in script; ``wrong`` collects page errors and foreign URLs."""

    viewer = ""

    def __init__(self, browser: Any, url: str, **context: Any) -> None:
        self.page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}).new_page()
        self.url, self.wrong = url, []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._seen(request.url))

    def _seen(self, url: str) -> None:
        if not url.startswith((self.url, self.url.replace("http", "ws"), "data:", "blob:")):
            self.wrong.append(url)

    def until(self, script: str) -> None:
        """Poll a condition from outside: a page's policy may forbid Playwright's own waiting."""
        eventually(lambda: self.ask(script), script, PATIENCE_S)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(f"() => {{ const viewer = {self.viewer}; return {script}; }}")
