"""``studio bench``: what the pages do in a browser."""

from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import Device, Json, Save, VoiceName, Voices, show
from studio.core.shipped import TEXTS, VOICES

page_bench = typer.Typer()


@page_bench.command()
def page(
    count: Annotated[int, typer.Option(min=1, help="Texts typed for first audio.")] = 20,
    wpm: Annotated[float, typer.Option(help="Typing speed, words a minute.")] = 60.0,
    window: Annotated[int | None, typer.Option("-m", help="Words seen; the page's own unless given.")] = None,
    long_words: Annotated[int, typer.Option(help="Words of the text typed for stalls; 0 leaves it out.")] = 120,
    clicks: Annotated[int, typer.Option(min=0, help="Fresh pages for each of a newcomer's two clicks.")] = 3,
    clicks_only: Annotated[
        bool, typer.Option("--clicks-only", help="Only a newcomer's first sound, after one click.")
    ] = False,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """The page in headless Chromium: key to first audible sample, stalls, a newcomer's first sound after a click."""
    from studio.bench.page.key_to_ear import PageSetting, bench_page
    from studio.core.errors import BadOption

    if clicks_only and save:
        raise BadOption("a part of the figures is no result of the page", "leave out --save, or --clicks-only")
    setting = PageSetting(
        n=count, wpm=wpm, window=window, long_words=long_words, clicks=clicks, clicks_only=clicks_only, quiet=as_json
    )
    show("page", bench_page(setting), as_json, save)


@page_bench.command()
def inspect(
    minutes: Annotated[float, typer.Option(min=0.1, max=60.0, help="Of sound.")] = 10.0,
    trace: Annotated[
        Path | None,
        typer.Option(help="A trace that is repeated until it is so long, in place of a text that is typed."),
    ] = None,
    opened: Annotated[int, typer.Option(min=1, help="How often it is opened, each way.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.5, max=120.0, help="Of each way to move.")] = 5.0,
    width: Annotated[int, typer.Option(min=320, max=4000, help="Of the window, pixels.")] = 1280,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """A trace of ten minutes on the Inspect page, in headless Chromium: first picture, frames a second."""
    from studio.bench.page.inspecting.run import InspectSetting, bench_inspect

    of: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "trace": trace}
    setting = InspectSetting(**of, minutes=minutes, opened=opened, seconds=seconds, width=width, quiet=as_json)
    show("inspect", bench_inspect(setting), as_json, save)


@page_bench.command()
def highlight(as_json: Json = False, save: Save = False) -> None:
    """Whether words light when the ear hears them, also where the sound device says that it is 300 ms late."""
    from studio.bench.page.highlight import HighlightSetting, bench_highlight

    show("highlight", bench_highlight(HighlightSetting(quiet=as_json)), as_json, save)


@page_bench.command()
def start(
    starts: Annotated[int, typer.Option(min=1, help="How often the app is started.")] = 5,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Until the page answers after a start, and the memory that one utterance takes."""
    from studio.bench.page.start import StartSetting, bench_start

    setting = StartSetting(text=TEXTS / "paragraphs.txt", starts=starts, quiet=as_json)
    show("start", bench_start(setting), as_json, save)


@page_bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write.")],
    width: Annotated[int, typer.Option(help="Of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="The dark theme.")] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="Of the Inspect page, after it was spoken.")] = False,
) -> None:
    """Take a picture of the speaking page."""
    from studio.bench.page.key_to_ear import screenshot as take

    take(out, width=width, height=height, dark=dark, inspect=inspect)
