"""``studio bench``: what a voice costs: first audio, a step, how many it carries."""

from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import Count, Device, Json, Save, Settings, Texts, Threads, Vocoder, VoiceName, Voices, show
from studio.core.shipped import TEXTS, VOICES

Size = Annotated[
    str, typer.Option(help="paper or small: random weights of that size, for speed alone, in the voice's place.")
]
speed_bench = typer.Typer()


@speed_bench.command()
def latency(
    texts: Texts = TEXTS / "latency.txt",
    count: Count = 50,
    setting: Settings = None,
    typed: Annotated[int, typer.Option(min=0, help="Texts that come word by word.")] = 20,
    gap_ms: Annotated[float, typer.Option(min=0.0, help="From one word to the next of these.")] = 50.0,
    cold: Annotated[int, typer.Option(min=0, help="Engines opened anew for one text each.")] = 5,
    served: Annotated[int, typer.Option(min=0, help="Texts through the app's socket; 0 leaves them out.")] = 20,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """First audio and real-time factor: at once, word by word, cold (the ladder t0a .. t5), and t4 on a socket."""
    from studio.bench.latency import LatencySetting, bench_latency

    where: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "settings": tuple(setting or ())}
    how: dict[str, Any] = {"typed": typed, "gap_ms": gap_ms, "cold": cold, "served": served}
    asked = LatencySetting(**where, **how, texts=texts, count=count, quiet=as_json)
    show("latency", bench_latency(asked), as_json, save)


@speed_bench.command()
def cascade(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 20,
    arrivals: Annotated[
        Path | None,
        typer.Option(help='Replies as they came: JSON lines {"pieces": [[ms, text], ...]}; in the place of --texts.'),
    ] = None,
    first_word_ms: Annotated[float, typer.Option(min=0.0, max=60_000.0, help="From the question.")] = 129.0,
    word_ms: Annotated[float, typer.Option(min=0.0, max=10_000.0, help="From one word to the next.")] = 22.0,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """From a question to the first sound: a language model's replayed words, and the voice that speaks them."""
    from studio.bench.cascade import CascadeSetting, bench_cascade

    where: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "settings": tuple(setting or ())}
    came: dict[str, Any] = {"arrivals": arrivals, "first_word_ms": first_word_ms, "word_ms": word_ms}
    asked = CascadeSetting(**where, **came, texts=texts, count=count, quiet=as_json)
    show("cascade", bench_cascade(asked), as_json, save)


@speed_bench.command()
def step(
    rows: Annotated[list[int] | None, typer.Option(min=1, max=1024, help="Batch sizes: 1, 2, 4, 8.")] = None,
    context: Annotated[list[int] | None, typer.Option(min=20, max=1900, help="Tokens held: 100, 500.")] = None,
    steps: Annotated[int, typer.Option(min=2, help="Timed, of each.")] = 40,
    stock: Annotated[
        bool,
        typer.Option("--stock/--no-stock", help="Beside a stock generate loop of transformers, and an exported graph."),
    ] = True,
    voice: VoiceName = "",
    size: Size = "",
    vocoder: Vocoder = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """A step over batch and context, beside the least that this machine's memory allows; what the pool gains."""
    from studio.bench.speed.step import StepSetting, bench_step
    from studio.bench.speed.step import show as show_steps
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    many: dict[str, Any] = {"rows": tuple(rows or StepSetting.rows), "contexts": tuple(context or StepSetting.contexts)}
    found = subject.about() | bench_step(StepSetting(subject=subject, **many, steps=steps, stock=stock, quiet=as_json))
    if not as_json:
        show_steps(found)
        for name in ("stock", "exported"):
            if "left_out" in (found[name] or {}):
                typer.echo(found[name]["left_out"], err=True)
    show(subject.result_name("step"), found, as_json, save)


@speed_bench.command()
def against(
    commit: Annotated[str, typer.Argument(help="An earlier commit of this checkout, as git names it.")],
    voice: Annotated[str, typer.Option(help="One of its voices, name[:speaker]; its first one unless named.")] = "",
    voice_from: Annotated[
        str, typer.Option(help="Another commit, whose voices are spoken; both codes read them.")
    ] = "",
    setting: Annotated[str, typer.Option(help="The family's options: name=value,name=value.")] = "",
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 12,
    rounds: Annotated[int, typer.Option(min=1, help="How often all texts are spoken, by new processes.")] = 3,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How long a frame takes in this code and in an earlier commit's, by turns, on the same weights; needs git."""
    from studio.bench.speed.against import AgainstSetting, bench_against

    of: dict[str, Any] = {"commit": commit, "voice": voice, "voice_from": voice_from, "setting": setting}
    asked = AgainstSetting(**of, texts=texts, count=count, rounds=rounds, quiet=as_json)
    show("against", bench_against(asked), as_json, save)


@speed_bench.command()
def wire(
    frames: Annotated[int, typer.Option(min=100, max=200_000, help="Timed.")] = 20_000,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """What Python costs the server for each frame between the engine's event and the socket."""
    from studio.bench.speed.wire import WireSetting, bench_wire

    show("wire", bench_wire(WireSetting(frames=frames, quiet=as_json)), as_json, save)


@speed_bench.command("load")
def load_(
    wpm: Annotated[float, typer.Option(min=1, max=2000, help="Typing speed, words a minute.")] = 60.0,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of each try with so many typists.")] = 20.0,
    most: Annotated[int, typer.Option(min=1, max=4096, help="Typists of the largest try.")] = 64,
    queries: Annotated[
        bool,
        typer.Option("--queries", help="Also whole texts at a rate (docs/speed.md); so do --rate, --kind, --arrivals."),
    ] = False,
    rate: Annotated[list[float] | None, typer.Option(min=0.01, help="Queries a second: 10, 30, 60, 70, 100.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="short, medium, long or mixed texts; mixed.")] = None,
    arrivals: Annotated[list[str] | None, typer.Option(help="fixed or poisson; both.")] = None,
    query_seconds: Annotated[float, typer.Option(min=1.0, help="Of each rate.")] = 200.0,
    places: Annotated[int, typer.Option(min=1, max=4096, help="Queries spoken at once.")] = 64,
    texts: Texts = TEXTS / "latency.txt",
    voice: VoiceName = "",
    size: Size = "",
    vocoder: Vocoder = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    threads: Threads = 1,
    seed: Annotated[int, typer.Option(help="Of phases, texts and arrivals.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How many live typists fit this machine, a newcomer's wait; with --queries also whole texts at a rate."""
    from studio.bench.material import read_texts
    from studio.bench.speed import load, newcomers, typists
    from studio.bench.speed.plots import plot_load
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    lines = read_texts(texts)
    common: dict[str, Any] = {"subject": subject, "lines": lines, "seed": seed, "quiet": as_json}
    chosen = {"rates": rate, "kinds": kind, "arrivals": arrivals}
    given: dict[str, Any] = {name: tuple(values) for name, values in chosen.items() if values}
    asked = load.LoadSetting(**common, **given, seconds=query_seconds, places=places)  # refuses before anything runs
    people = typists.TypistsSetting(**common, wpm=wpm, seconds=seconds, most=most)
    found = subject.about() | typists.bench_typists(people)
    found["newcomers"] = newcomers.bench_newcomers(people, found["typists_without_stall"])
    if not as_json:
        typists.show(found)
        newcomers.show(found["newcomers"])
    if queries or given:
        found["queries"] = load.bench_queries(asked)
        if not as_json:
            load.show(found | found["queries"])
    name = subject.result_name("load")
    show(name, found, as_json, save)
    if save:
        for path in plot_load(found, name):
            typer.echo(f"written to {path}", err=True)
    if "queries" in found and not as_json:
        typer.echo(typists.answer(found))  # again, since much was printed after it
