"""``studio voices speaker``: add a speaker to a voice from a recording, list added speakers, remove one."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Voices
from studio.commands.common import Data, Json
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA, SPEAKERS_VARIABLE, VOICES, speakers_folder
from studio.core.speakers import CONSENT, LIMITS, MAX_SPEECH_S, MIN_SPEECH_S, SpeakerRequest, SpeakerStore
from studio.core.terminal import print_json, print_line

voices_speaker = typer.Typer(help="Speakers that are added to a voice from a recording.", no_args_is_help=True)
Address = Annotated[str, typer.Argument(metavar="VOICE:NAME", help="The voice, and the speaker's name.")]


@voices_speaker.command()
def add(
    address: Address,
    recording: Annotated[
        Path,
        typer.Argument(help=f"WAV, FLAC or MP3: {MIN_SPEECH_S:.0f} to {MAX_SPEECH_S:.0f} s of one person's speech."),
    ],
    text: Annotated[str, typer.Option(help="What the recording says.")] = "",
    consent: Annotated[bool, typer.Option("--consent", help=f"Needed: {CONSENT}.")] = False,
    consent_by: Annotated[str, typer.Option(help="Who confirms it, and how; stored with the speaker.")] = "",
    keep_recording: Annotated[
        bool, typer.Option("--keep-recording", help="Store the recording as well, not only what the voice uses of it.")
    ] = False,
    voices: Voices = VOICES,
    data: Data = DEFAULT_DATA,
) -> None:
    """Add a speaker to a voice from a recording, with the speaker's consent."""
    from studio.commands.lexicon import normaliser
    from studio.measure.references import read_reference
    from studio.systems.combined import open_voices

    voice, name = _split(address)
    # The consent is checked before the recording is read.
    SpeakerRequest.check_words(name, text, consent_by, has_consent=consent)
    clean = read_reference(recording, recording.name)
    wanted = SpeakerRequest(
        voice,
        name,
        text,
        clean.samples,
        clean.rate_hz,
        clean.sha256,
        has_consent=consent,
        consent_by=consent_by,
        recording=recording.read_bytes() if keep_recording else None,
    )
    speakers = speakers_folder(data)
    with closing(open_voices(voices, normaliser(None), "cpu", [voice], speakers=speakers)) as engine:
        added = engine.recomputer().speakers().add(wanted)
    for step in clean.steps:
        print_line(step, err=True)
    print_line(
        f"{voice}:{name} is added from {added.length_s:.1f} s. Hear it: {_say_command(address, speakers, voices)}"
    )
    print_line(LIMITS, err=True)


@voices_speaker.command("list")
def list_speakers(data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List added speakers, one a line, with the date of the consent."""
    from dataclasses import asdict

    speakers = [*SpeakerStore(speakers_folder(data)).read().values()]
    if as_json:
        print_json([asdict(one) for one in speakers], indent=1)
        return
    for one in speakers:
        by = f" by {one.consent_by}" if one.consent_by else ""
        print_line(f"{one.voice}:{one.name}: {one.length_s:.1f} s, consent confirmed {one.consent_at[:10]}{by}")
    if not speakers:
        print_line("No speaker was added: studio voices speaker add --help", err=True)


@voices_speaker.command()
def remove(address: Address, data: Data = DEFAULT_DATA) -> None:
    """Remove an added speaker, and its recording if one is stored."""
    SpeakerStore(speakers_folder(data)).remove(*_split(address))
    print_line(f"{address} is removed")


def _say_command(address: str, speakers: Path | None, voices: Path) -> str:
    """The command that speaks by an added speaker; their folder is a variable, as ``say`` has no option for it."""
    before = "" if speakers == speakers_folder() else f"{SPEAKERS_VARIABLE}={shlex.quote(str(speakers))} "
    after = "" if voices == VOICES else f" --voices {shlex.quote(str(voices))}"
    return f'{before}studio say "Good morning." --voice {shlex.quote(address)}{after}'


def _split(address: str) -> tuple[str, str]:
    voice, _, name = address.partition(":")
    if not voice or not name:
        raise BadOption(f"{address[:80]!r} names no voice and speaker", "give both, such as finch:maria")
    return voice, name
