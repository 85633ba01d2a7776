"""Parameters of the page benchmarks of ``studio bench``.

``command`` starts the app (``--port N`` is added); None starts this package's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Device, VoiceName, Voices
from studio.core.folders import TEXTS, VOICES


@dataclass(frozen=True, kw_only=True)
class PageSetting:
    """The page in headless Chromium: key to first audible sample, stalls, first sound after one click.

    Attributes:
        texts: one text a line; the first ``warm`` are typed and not counted. ``long_text`` is typed whole, for stalls.
    """

    n: Annotated[int, typer.Option("--count", min=1, help="Texts typed for first audio.")] = 20
    wpm: Annotated[float, typer.Option(help="Typing speed, words a minute.")] = 60.0
    window: Annotated[int | None, typer.Option("-m", help="Words seen; the page's default if absent.")] = None
    long_words: Annotated[int, typer.Option(help="Words of the text typed for stalls; 0 for none.")] = 120
    clicks: Annotated[int, typer.Option(min=0, help="Fresh pages for each of the two one-click starts.")] = 3
    clicks_only: Annotated[bool, typer.Option("--clicks-only", help="Only the first sound after one click.")] = False
    command: Sequence[str] | None = None
    texts: Path = TEXTS / "latency.txt"
    long_text: Path = TEXTS / "live.txt"
    warm: int = 1
    quiet: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether the figures are incomplete, so that they are not saved."""
        return self.clicks_only


@dataclass(frozen=True, kw_only=True)
class InspectSetting:
    """A trace of ten minutes on the Inspect page, in headless Chromium: first picture, frames a second.

    Attributes:
        texts: the first one is typed at ``wpm`` words a minute.
    """

    minutes: Annotated[float, typer.Option(min=0.1, max=60.0, help="Minutes of sound.")] = 10.0
    trace: Annotated[Path | None, typer.Option(help="Trace to repeat up to that length, instead of a typed text.")] = (
        None
    )
    opened: Annotated[int, typer.Option(min=1, help="How often the trace is opened by address and by drop.")] = 3
    seconds: Annotated[float, typer.Option(min=0.5, max=120.0, help="Seconds of each kind of movement.")] = 5.0
    width: Annotated[int, typer.Option(min=320, max=4000, help="Width of the window, pixels.")] = 1280
    voice: VoiceName = ""
    voices: Voices = VOICES
    device: Device = "auto"
    texts: Path = TEXTS / "live.txt"
    wpm: float = 200.0
    command: Sequence[str] | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class HighlightSetting:
    """Delay between a word's sound and its highlight, also with an audio device that is 300 ms late."""

    text: str = "Speech flows from words as they arrive, and nobody has to wait until the last one is there."
    command: Sequence[str] | None = None
    shifts_ms: tuple[float, ...] = (0.0, 300.0)
    wpm: float = 90.0
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class StartSetting:
    """Time from a start until the page answers, and the memory of one utterance.

    Attributes:
        text: file whose first line is spoken after the last start.
    """

    starts: Annotated[int, typer.Option(min=1, help="How often the app is started.")] = 5
    text: Path = TEXTS / "paragraphs.txt"
    command: Sequence[str] | None = None
    quiet: bool = False
