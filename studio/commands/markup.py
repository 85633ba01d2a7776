"""Markup of a text that ``studio say`` speaks: Markdown as it arrives, and the pauses of SSML."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from studio.core.events import Committed, Wait, WordEnd, WordStart
from studio.core.speaking import Arrival

if TYPE_CHECKING:
    from studio.core.traces.trace import Trace


@dataclass(frozen=True)
class Pause:
    """Silence behind the words that end before a place of the text."""

    char: int
    duration_ms: float


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


def with_pauses(ssml: str) -> tuple[str, list[Pause]]:
    """The text of SSML, and its pauses. Raises BadText."""
    from studio.text.ssml import read_ssml

    text, pauses = "", list[Pause]()
    for part in read_ssml(ssml):
        text += " " * bool(text and part.text) + part.text
        if part.pause_ms:
            pauses.append(Pause(len(text), part.pause_ms))
    return text, pauses


def place_pauses(trace: "Trace", pauses: Iterable[Pause]) -> "Trace":
    """The trace with these pauses as its only waits: between the words before a place and those after it."""
    words = [event for event in trace.events if isinstance(event, Committed)]
    starts = {event.i: event.sample for event in trace.events if isinstance(event, WordStart)}
    ends = {event.i: event.sample for event in trace.events if isinstance(event, WordEnd)}

    def sample(char: int) -> int:
        """The middle between two words; the beginning or end of the sound where there are not two."""
        end = max((ends[word.i] for word in words if word.char_end <= char and word.i in ends), default=0)
        start = min((starts[word.i] for word in words if word.char_start >= char and word.i in starts), default=None)
        return len(trace.pcm) if start is None else (end + start) // 2 if end else 0

    waits = [Wait(reason="text", sample=sample(one.char), duration_ms=one.duration_ms) for one in pauses]
    spoken = [event for event in trace.events if not isinstance(event, Wait)]
    return replace(trace, events=[*spoken[:-1], *waits, *spoken[-1:]])
