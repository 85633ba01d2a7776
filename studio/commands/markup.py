"""What texts of commands are written in, and Markdown as it arrives."""

from collections.abc import Iterable, Iterator
from typing import Literal

from studio.core.speaking import Arrival

Markup = Literal["plain", "markdown", "ssml", "breaks"]


def without_markdown(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Arrivals without what is not spoken of Markdown."""
    from studio.core.errors import needs

    with needs("Markdown needs markdown-it-py, which is not installed", "app"):
        from studio.text.markdown import MarkdownStream
    stream, last_ms = MarkdownStream(), None
    for one in arrivals:
        last_ms = one.t_ms
        if text := stream.feed(one.text):
            yield Arrival(one.t_ms, text)
    if rest := stream.end():
        yield Arrival(last_ms, rest)
