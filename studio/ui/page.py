"""Definition of a page: its address, title, access and content."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from studio.core.ports import Engine
from studio.serve.adapters.speech import SpeechRequests
from studio.ui.owner import Owner

Access = Literal["anyone", "owner", "link"]
TITLE = "Streaming-TTS Studio"


@dataclass(frozen=True)
class PageContext:
    """The data for building pages; without ``owner`` there are no owner pages, without ``speech`` no API page."""

    engine: Engine
    owner: Owner | None = None
    has_design_page: bool = False
    speech: SpeechRequests | None = None


@dataclass(frozen=True)
class Page:
    """One page: plain HTML with a script (``folder``), or Gradio components (``build``)."""

    path: str  # below the server's root; empty for the first page
    title: str
    # anyone; the owner, after signing in; or the holder of a signed link. Only the first two are in the navigation
    access: Access = "anyone"
    parent: str = ""  # the page of the navigation that links here; a page with a parent is not in the navigation
    folder: str = ""  # the folder of ``widgets`` with the page's HTML and script
    markup: tuple[str, ...] = ()  # folders whose HTML the page consists of; ``folder`` alone by default
    words: str = ""  # the folder of ``widgets`` with the page's texts in other languages, if it has them
    props: Callable[[], Mapping[str, Any]] = dict  # values for the script
    build: Callable[[PageContext], Any] | None = None  # puts Gradio components into the surrounding Blocks
    is_available: Callable[[PageContext], bool] = lambda context: True  # whether the server has the page's data

    @property
    def in_navigation(self) -> bool:
        """Whether the masthead links to the page."""
        return self.access != "link" and not self.parent

    @property
    def content(self) -> str:
        """The id of the element with the page's content, after the masthead."""
        return self.folder or f"{self.path}-page"
