"""``studio type``: type in the terminal and hear it while you type."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Device, FamilyOption, Threads, Vocoder, VoiceName, Voices
from studio.commands.common import Speed
from studio.core.errors import BadOption, needs
from studio.core.folders import VOICES


def type_(
    voice: VoiceName = "",
    option: FamilyOption = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed and text give the same samples.")] = 0,
    speed: Speed = 1.0,
    record: Annotated[
        Path | None,
        typer.Option(help="Record every line in this folder: a WAV of what was heard, and a trace. Ctrl+R: on or off."),
    ] = None,
    output: Annotated[str, typer.Option(help="Audio output, by its name or a part of it.")] = "",
    null_audio: Annotated[
        bool, typer.Option("--null-audio", help="Play into a sink that only keeps time; needs no loudspeaker.")
    ] = False,
    light: Annotated[bool, typer.Option("--light", help="Dark text on a light ground.")] = False,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    threads: Threads = 1,
) -> None:
    """Type in the terminal and hear it while you type; words light up when you hear them."""
    from studio.core.cards import parse_voice
    from studio.core.options import merge_options, parse_options
    from studio.core.ports import SpeakRequest
    from studio.markup.parts import MarkedEngine
    from studio.systems.combined import all_cards, open_voices
    from studio.text.normalise import best

    with needs("a program in the terminal needs the package textual", "desktop"):
        from studio.desktop.app import TypeApp
    from studio.desktop.devices import NULL, TO_NOTHING, output_names
    from studio.desktop.session import Session

    outputs = [NULL] if null_audio else [*output_names(TO_NOTHING), NULL]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadOption("studio type needs a terminal", "for a pipe there is: studio say - -o out.wav")
    card, _ = parse_voice(voice, all_cards(voices))
    options = merge_options(card.options, parse_options(card.options, option or []), {})
    request = SpeakRequest(voice=voice or card.name, seed=seed, options=options)
    names = [card.name, *(name for name in all_cards(voices) if name != card.name)]
    with (
        closing(open_voices(voices, best(), device, names, threads=threads, vocoder=vocoder, warms_up=True)) as engine,
        closing(
            Session(MarkedEngine(engine, "plain", speed), request, NULL if null_audio else output, record)
        ) as session,
    ):
        TypeApp(session, outputs, record or Path(), is_light=light).run()
