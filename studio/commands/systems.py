"""``studio systems``: third-party TTS systems as voices of the studio."""

from typing import Annotated, Any

import typer

from studio.commands.common import Json
from studio.core.errors import BadOption
from studio.core.terminal import print_json, print_line

systems = typer.Typer(no_args_is_help=True, help="Other people's TTS systems as voices: add, list, test, remove.")

SystemName = Annotated[str, typer.Argument(help="The system's name: a-z, 0-9 and -.")]


@systems.command()
def add(
    ctx: typer.Context,
    name: SystemName,
    command: Annotated[
        str,
        typer.Option(help='A program: text on its input, or in place of {text}; WAV or PCM out: "espeak-ng --stdout".'),
    ] = "",
    lines: Annotated[
        str, typer.Option(help="A program that takes text while it speaks: JSON lines in, lines and samples out.")
    ] = "",
    python: Annotated[
        str, typer.Option(help='A function of another Python: "/path/to/venv/bin/python module:function".')
    ] = "",
    openai: Annotated[str, typer.Option(help="A server like OpenAI's: https://api.openai.com/v1.")] = "",
    studio: Annotated[
        str, typer.Option(help="Another studio: http://host:7860. --voice is name or name/speaker.")
    ] = "",
    elevenlabs: Annotated[str, typer.Option(help="A server like ElevenLabs': wss://api.elevenlabs.io.")] = "",
    elevenlabs_multi: Annotated[
        str, typer.Option(help="A server like ElevenLabs', by its socket of several contexts.")
    ] = "",
    cartesia: Annotated[str, typer.Option(help="A server like Cartesia's: wss://api.cartesia.ai.")] = "",
    deepgram: Annotated[str, typer.Option(help="A server like Deepgram's: wss://api.deepgram.com.")] = "",
    kyutai: Annotated[str, typer.Option(help="A server like Kyutai's moshi-server: ws://host:8080.")] = "",
    realtime: Annotated[
        str, typer.Option(help="A socket of events like OpenAI's Realtime API; its whole address, with --dialect.")
    ] = "",
    folder: Annotated[str, typer.Option(help="A folder of NAME.wav with their texts in NAME.txt.")] = "",
    dialect: Annotated[str, typer.Option(help="With --realtime: riva, sglang, vllm or nari.")] = "",
    model: Annotated[str, typer.Option(help="Its model.")] = "",
    key_env: Annotated[str, typer.Option(help="Environment variable that has its key.")] = "",
    voice: Annotated[str, typer.Option(help="Its voice.")] = "",
    speakers: Annotated[
        list[str] | None, typer.Option("--speaker", help="Another voice of it that users may choose. Repeatable.")
    ] = None,
    stream_format: Annotated[
        str, typer.Option(help="With --openai: audio, or sse for its events (speech.audio.delta).")
    ] = "",
    sample_rate_hz: Annotated[
        int | None, typer.Option(help="Rate of plain PCM (16 bit, mono); a WAV states its own.")
    ] = None,
    cut: Annotated[str, typer.Option(help="Where text is cut for it: sentence, clause, words or text.")] = "",
    words: Annotated[int | None, typer.Option(help="Words of a cut, with --cut words.")] = None,
    title: Annotated[str, typer.Option(help="Its title in lists.")] = "",
    licence: Annotated[str, typer.Option(help="The licence of its speech.")] = "",
    timeout_s: Annotated[float | None, typer.Option(help="Longest wait for its sound, seconds.")] = None,
    max_concurrent: Annotated[int | None, typer.Option(help="Utterances at once.")] = None,
) -> None:
    """Add a system, which then is a voice everywhere: the page, say, synth, benches, listening tests."""
    import shlex
    import shutil

    from studio.systems.combined import systems_file
    from studio.systems.settings import KINDS, change_systems, check_system

    values = {one: value for one, value in ctx.params.items() if value not in (None, "", []) and one != "name"}
    given = [(kind, values.pop(key)) for kind in KINDS if (key := kind.replace("-", "_")) in values]
    if len(given) != 1:
        raise BadOption("the kind of the system is not clear", f"give one of --{', --'.join(KINDS)}")
    [(kind, value)] = given
    field = {"command": "command", "lines": "command", "python": "python", "folder": "folder"}.get(kind, "url")
    system = check_system(name, {"kind": kind, field: value, **values})
    program = shlex.split(command or lines or python)[:1]
    if program and "{" not in program[0] and shutil.which(program[0]) is None:  # {voice} may be a part of it
        raise BadOption(f"there is no program {program[0]!r:.200}", "install it, or give its whole path")
    file = systems_file()

    def declare(declared: dict[str, Any]) -> None:
        if name in declared:
            raise BadOption(f"there is a system {name!r} already", f"remove it first: studio systems remove {name}")
        declared[name] = system

    change_systems(file, declare)
    print_line(f"{name} is added to {file}. Hear it: studio systems test {name}")


@systems.command("list")
def list_systems(as_json: Json = False) -> None:
    """List the systems, one a line, with what they cannot do."""
    from studio.systems.adapters.registry import open_adapter
    from studio.systems.combined import declared_systems, systems_file
    from studio.systems.engine import system_card

    by_name = declared_systems()
    if as_json:
        print_json({name: system.model_dump() for name, system in by_name.items()}, indent=1)
        return
    if not by_name:
        print_line(f"There are no systems in {systems_file()}: studio systems add --help", err=True)
    for name, system in by_name.items():
        card = system_card(name, system, open_adapter(system))
        print_line(f"{name}: {card.title}. Speakers: {', '.join(card.speakers)}. {card.notes}")


@systems.command()
def test(
    name: SystemName,
    text: Annotated[str, typer.Option(help="What it speaks; a sentence if absent.")] = "",
) -> None:
    """Speak a sentence by a system, and say when its sound came or what is wrong."""
    from contextlib import closing

    from studio.systems.combined import declared_systems
    from studio.systems.engine import RemoteEngine
    from studio.systems.managed import TEST_TEXT, speak_test

    by_name = declared_systems()
    if name not in by_name:
        raise BadOption(f"there is no system {name!r:.80}", f"there are {', '.join(by_name) or 'none yet'}")
    with closing(RemoteEngine(name, by_name[name])) as engine:
        spoken = speak_test(engine, name, text or TEST_TEXT)
    timing = f"first sound after {spoken.first_ms:.0f} ms, {spoken.length_s:.2f} s of speech"
    print_line(f"{name} works: {timing}, word times: {', '.join(spoken.sources)}")


@systems.command()
def remove(name: SystemName) -> None:
    """Remove a system."""
    from studio.systems.combined import systems_file
    from studio.systems.settings import change_systems

    file = systems_file()

    def undeclare(declared: dict[str, Any]) -> None:
        if name not in declared:
            raise BadOption(f"there is no system {name!r:.80} in {file}", f"there are {', '.join(declared) or 'none'}")
        del declared[name]

    change_systems(file, undeclare)
    print_line(f"{name} is removed")
