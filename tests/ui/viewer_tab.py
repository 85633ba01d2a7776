"""A tab of the browser whose page shows traces: Inspect and Compare."""

from typing import Any

from serve.serving import eventually
from ui.waits import PATIENCE_S


class ViewerTab:
    """One tab; ``viewer`` is the page's own, as a script; ``wrong`` keeps errors of the page and foreign addresses."""

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
        """Wait until something holds; asked from outside: a page's policy may forbid what Playwright waits with."""
        eventually(lambda: self.ask(script), script, PATIENCE_S)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(f"() => {{ const viewer = {self.viewer}; return {script}; }}")
