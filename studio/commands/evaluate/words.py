"""``studio eval`` wer, long, short, hour and heard: what a recogniser hears of a voice."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import (
    Cache,
    Count,
    Device,
    Json,
    Recogniser,
    Save,
    Settings,
    Speakers,
    Texts,
    VoiceName,
    Voices,
    show,
)
from studio.core.shipped import TEXTS, VOICES

word_commands = typer.Typer()


def _wer() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.wer import WerSetting, eval_wer

    return WerSetting, eval_wer


def _long() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.long import LongSetting, eval_long

    return LongSetting, eval_long


def _short() -> tuple[type[Any], Callable[[Any], dict[str, Any]]]:
    from studio.bench.evaluation.short import ShortSetting, eval_short

    return ShortSetting, eval_short


def _recognised(name: str, load: Callable[[], tuple[type[Any], Any]], file: str, most: int, what: str) -> None:
    """Add a command that has a voice speak texts, and a recogniser hear them."""

    @word_commands.command(name, help=what)
    def command(
        texts: Texts = TEXTS / file,
        count: Count = most,
        setting: Settings = None,
        voice: VoiceName = "",
        speaker: Speakers = None,
        voices: Voices = VOICES,
        device: Device = "auto",
        recogniser: Recogniser = "whisper",
        cache: Cache = None,
        as_json: Json = False,
        save: Save = False,
    ) -> None:
        of, measure = load()
        asked = of(
            voices=voices,
            voice=voice,
            device=device,
            cache=cache,
            recogniser=recogniser,
            quiet=as_json,
            texts=texts,
            count=count,
            settings=tuple(setting or ()),
            speakers=tuple(speaker or ()),
        )
        show(name, measure(asked), as_json, save)


_recognised("wer", _wer, "eval.txt", 100, "Word error rate of a voice by setting and speaker, beside the teacher's.")
_recognised("long", _long, "paragraphs.txt", 10, "Word error rate of the first and second half of long paragraphs.")
_recognised("short", _short, "eval.txt", 50, "Texts of one and two words, drawn from a file: heard right, and whole?")


@word_commands.command()
def hour(
    texts: Texts = TEXTS / "eval.txt",
    minutes: Annotated[float, typer.Option(min=0.1, max=600, help="Of speech, in one utterance.")] = 60.0,
    block: Annotated[float, typer.Option(min=0.05, max=60, help="Minutes that are compared, first and last.")] = 10.0,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    recogniser: Recogniser = "whisper",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """One utterance of an hour: word error rate of its last minutes beside its first, and memory as it goes on."""
    from studio.bench.evaluation.hour import HourSetting, eval_hour

    where: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "cache": cache}
    what: dict[str, Any] = {"recogniser": recogniser, "settings": tuple(setting or ()), "quiet": as_json}
    asked = HourSetting(**where, **what, texts=texts, minutes=minutes, block_minutes=block)
    show("hour", eval_hour(asked), as_json, save)


@word_commands.command()
def heard(
    texts: Texts = TEXTS / "live.txt",
    count: Count = 10,
    wpm: Annotated[float, typer.Option(min=1, max=1000, help="Typing speed, words a minute.")] = 60.0,
    keep: Annotated[Path | None, typer.Option(help="Folder for the captured WAV files.")] = None,
    voice: VoiceName = "",
    recogniser: Recogniser = "whisper",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Type texts live into the page, and transcribe what leaves its player."""
    from studio.bench.evaluation.heard import HeardSetting, eval_heard

    setting = HeardSetting(
        texts=texts, count=count, wpm=wpm, keep=keep, voice=voice, recogniser=recogniser, quiet=as_json
    )
    show("heard", eval_heard(setting), as_json, save)
