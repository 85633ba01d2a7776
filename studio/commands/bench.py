"""``studio bench``: how fast it speaks, and how much the server bears."""

from pathlib import Path
from typing import Annotated, Any

import typer

from studio.commands.common import Count, Device, Json, Save, Settings, Texts, Threads, Vocoder, VoiceName, Voices, show
from studio.core.shipped import DEMO, TEXTS, VOICES

Size = Annotated[
    str, typer.Option(help="paper or small: random weights of that size, for speed alone, in the voice's place.")
]
bench = typer.Typer(
    no_args_is_help=True, help="Measure how fast it speaks, how much it bears, and the listening tests."
)


@bench.command()
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


@bench.command()
def step(
    rows: Annotated[list[int] | None, typer.Option(min=1, max=1024, help="Batch sizes: 1, 2, 4, 8.")] = None,
    context: Annotated[list[int] | None, typer.Option(min=20, max=1900, help="Tokens held: 100, 500.")] = None,
    steps: Annotated[int, typer.Option(min=2, help="Timed, of each.")] = 40,
    stock: Annotated[
        bool, typer.Option("--stock/--no-stock", help="Beside a stock generate loop of transformers.")
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
    """A step over batch and context, beside the least that this machine's memory allows."""
    from studio.bench.speed.step import StepSetting, bench_step
    from studio.bench.speed.step import show as show_steps
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    many: dict[str, Any] = {"rows": tuple(rows or StepSetting.rows), "contexts": tuple(context or StepSetting.contexts)}
    found = subject.about() | bench_step(StepSetting(subject=subject, **many, steps=steps, stock=stock, quiet=as_json))
    if not as_json:
        show_steps(found)
        if "left_out" in (found["stock"] or {}):
            typer.echo(found["stock"]["left_out"], err=True)
    show(subject.result_name("step"), found, as_json, save)


@bench.command("load")
def load_(
    wpm: Annotated[float, typer.Option(min=1, max=2000, help="Typing speed, words a minute.")] = 60.0,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of each try with so many typists.")] = 20.0,
    most: Annotated[int, typer.Option(min=1, max=4096, help="Typists of the largest try.")] = 64,
    queries: Annotated[bool, typer.Option("--queries", help="Also whole texts at a rate (docs/speed.md).")] = False,
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
    """How many live typists fit this machine; with --queries also the latency of whole texts at a rate."""
    from studio.bench.material import read_texts
    from studio.bench.speed import load, typists
    from studio.bench.speed.plots import plot_load
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    lines = read_texts(texts)
    common: dict[str, Any] = {"subject": subject, "lines": lines, "seed": seed, "quiet": as_json}
    found = subject.about() | typists.bench_typists(
        typists.TypistsSetting(**common, wpm=wpm, seconds=seconds, most=most)
    )
    if not as_json:
        typists.show(found)
    if queries or rate or kind or arrivals:
        chosen = {"rates": rate, "kinds": kind, "arrivals": arrivals}
        given: dict[str, Any] = {name: tuple(values) for name, values in chosen.items() if values}
        setting = load.LoadSetting(**common, **given, seconds=query_seconds, places=places)
        found["queries"] = load.bench_queries(setting)
        if not as_json:
            load.show(found | found["queries"])
    name = subject.result_name("load")
    show(name, found, as_json, save)
    if save:
        for path in plot_load(found, name):
            typer.echo(f"written to {path}", err=True)
    if not as_json:
        typer.echo(typists.answer(found))


@bench.command()
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
    from studio.bench.page import PageSetting, bench_page
    from studio.core.errors import BadOption

    if clicks_only and save:
        raise BadOption("a part of the figures is no result of the page", "leave out --save, or --clicks-only")
    setting = PageSetting(
        n=count, wpm=wpm, window=window, long_words=long_words, clicks=clicks, clicks_only=clicks_only, quiet=as_json
    )
    show("page", bench_page(setting), as_json, save)


@bench.command()
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
    from studio.bench.inspecting.run import InspectSetting, bench_inspect

    of: dict[str, Any] = {"voices": voices, "voice": voice, "device": device, "trace": trace}
    setting = InspectSetting(**of, minutes=minutes, opened=opened, seconds=seconds, width=width, quiet=as_json)
    show("inspect", bench_inspect(setting), as_json, save)


@bench.command()
def highlight(as_json: Json = False, save: Save = False) -> None:
    """Whether words light when the ear hears them, also where the sound device says that it is 300 ms late."""
    from studio.bench.highlight import HighlightSetting, bench_highlight

    show("highlight", bench_highlight(HighlightSetting(quiet=as_json)), as_json, save)


@bench.command()
def start(
    starts: Annotated[int, typer.Option(min=1, help="How often the app is started.")] = 5,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Until the page answers after a start, and the memory that one utterance takes."""
    from studio.bench.start import StartSetting, bench_start

    setting = StartSetting(text=TEXTS / "paragraphs.txt", starts=starts, quiet=as_json)
    show("start", bench_start(setting), as_json, save)


@bench.command("mos-load")
def mos_load(
    raters: Annotated[int, typer.Option(min=1, help="People who begin within a second.")] = 300,
    trials: Annotated[int, typer.Option(min=1, help="Screens of each.")] = 12,
    think: Annotated[tuple[float, float], typer.Option(help="Seconds between hearing and answering.")] = (2.0, 8.0),
    bare: Annotated[bool, typer.Option("--bare", help="The routes alone, without engine and page.")] = False,
    seed: Annotated[int, typer.Option(help="Of the times and the answers.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Raters over HTTP, all at once: how long each call takes; fails when an answer is lost or doubled."""
    from studio.bench.mos.load import LoadSetting, bench_mos_load

    setting = LoadSetting(raters=raters, trials=trials, think_s=think, bare=bare, seed=seed, quiet=as_json)
    found = bench_mos_load(setting)
    show("mos-load", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@bench.command("annotation-kill")
def annotation_kill(
    kills: Annotated[int, typer.Option(min=1, help="Random moments of kill -9.")] = 50,
    annotators: Annotated[int, typer.Option(min=1, max=32, help="Who mark all the while, each for themselves.")] = 2,
    plant: Annotated[str, typer.Option(help="A fault that must be found: acknowledge-before-write.")] = "",
    seed: int = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """kill -9 while annotators mark; fails when an acknowledged edit is gone, or one sent again is there twice."""
    from studio.bench.annotation_kill import AnnotationKillSetting, bench_annotation_kill
    from studio.core.errors import BadOption

    if plant and save:
        raise BadOption("a run with a planted fault is no result", "leave out --save")
    setting = AnnotationKillSetting(kills=kills, annotators=annotators, plant=plant, seed=seed, quiet=as_json)
    found = bench_annotation_kill(setting)
    show("annotation-kill", found, as_json, save)
    if found["failures"]:
        raise typer.Exit(1)


@bench.command("mos-kill")
def mos_kill(
    kills: Annotated[int, typer.Option(min=0, help="Random moments of kill -9; 0 leaves this part out.")] = 200,
    raters: Annotated[int, typer.Option(min=1, help="People who answer all the while.")] = 24,
    traced: Annotated[float, typer.Option(min=0.0, help="Seconds under strace; 0 leaves this part out.")] = 10.0,
    plant: Annotated[str, typer.Option(help="acknowledge-before-commit or synchronous-off: the run must fail.")] = "",
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """kill -9 while raters answer; fails when an acknowledged answer is gone, or was acknowledged before a sync."""
    from studio.bench.mos.kill import KillSetting, bench_mos_kill
    from studio.core.errors import BadOption

    if plant and save:
        raise BadOption("a run with a planted fault is no result", "leave out --save")
    setting = KillSetting(kills=kills, raters=raters, traced_s=traced, plant=plant, seed=seed, quiet=as_json)
    found = bench_mos_kill(setting)
    show("mos-kill", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@bench.command("mos-coverage")
def mos_coverage(
    runs: Annotated[int, typer.Option(min=1, help="Simulated tests of each cell.")] = 400,
    tests: Annotated[list[str] | None, typer.Option("--test", help="preference, elo, mos; all unless given.")] = None,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often the intervals of listening tests hold the truth: few raters, few scripts, scores near the ceiling."""
    from studio.bench.mos.coverage import CoverageSetting, bench_mos_coverage
    from studio.core.errors import BadOption

    wanted = tuple(tests or CoverageSetting.tests)
    if unknown := set(wanted) - set(CoverageSetting.tests):
        raise BadOption(f"there is no test {min(unknown)!r}", f"choose {', '.join(CoverageSetting.tests)}")
    setting = CoverageSetting(runs=runs, seed=seed, tests=wanted, quiet=as_json)
    show("mos-coverage", bench_mos_coverage(setting), as_json, save)


@bench.command("mos-ordinal")
def mos_ordinal(
    runs: Annotated[int, typer.Option(min=1, help="Simulated tests of each cell.")] = 400,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often the ordinal model's expected scores hold the truth: few raters, few scripts, high scores."""
    from studio.bench.mos.coverage import CoverageSetting, bench_mos_coverage

    setting = CoverageSetting(runs=runs, seed=seed, tests=("ordinal",), quiet=as_json)
    show("mos-ordinal", bench_mos_coverage(setting), as_json, save)


@bench.command("mos-looks")
def mos_looks(
    runs: Annotated[int, typer.Option(min=1, help="Tests of two systems that are alike, of each kind.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How often a test that is looked at five times stops for a difference that is not there."""
    from studio.bench.mos.looks import LooksSetting, bench_mos_looks

    show("mos-looks", bench_mos_looks(LooksSetting(runs=runs, seed=seed, quiet=as_json)), as_json, save)


@bench.command("mos-plan")
def mos_plan(
    runs: Annotated[int, typer.Option(min=1, help="Tests tried with the planned number.")] = 400,
    small_pilots: Annotated[
        int, typer.Option(min=0, help="Pilots as small as labs have them; 0 leaves them out.")
    ] = 40,
    seed: Annotated[int, typer.Option(help="Of the crowd.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether the planner's number of raters is enough in another population of the same variances."""
    from studio.bench.mos.plan import PlanSetting, bench_mos_plan

    setting = PlanSetting(runs=runs, small_pilots=small_pilots, seed=seed, quiet=as_json)
    show("mos-plan", bench_mos_plan(setting), as_json, save)


@bench.command()
def fuzz(
    requests: Annotated[int, typer.Option(min=100, help="Hostile requests and messages, over all doors.")] = 100_000,
    flood: Annotated[float, typer.Option(min=0.0, help="Seconds of each flood; 0 leaves them out.")] = 10.0,
    settle: Annotated[float, typer.Option(min=1.0, help="Seconds until what is held is counted.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Of what is sent.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Try to break the app: fails on a 500, a traceback, or anything that is not given back."""
    from studio.bench.robustness.fuzz import FuzzSetting, bench_fuzz
    from studio.commands.routes import all_routes

    setting = FuzzSetting(
        routes=all_routes(), requests=requests, flood_s=flood, settle_s=settle, seed=seed, quiet=as_json
    )
    found = bench_fuzz(setting)
    show("fuzz", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@bench.command()
def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 30.0,
    live: Annotated[int, typer.Option(min=1, max=64, help="Utterances that are spoken at any moment.")] = 4,
    wpm: Annotated[float, typer.Option(min=1.0, help="Typing speed, words a minute.")] = 400.0,
    texts: Texts = TEXTS / "latency.txt",
    seed: Annotated[int, typer.Option(help="Of the rater's answers.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Ordinary use for long: voices speak, a rater answers; fails when threads, descriptors or memory grow."""
    from studio.bench.robustness.soak import SoakSetting, bench_soak
    from studio.core.files import MAX_TEXTS_BYTES, read_bounded

    lines = read_bounded(texts, MAX_TEXTS_BYTES).decode("utf-8").splitlines()
    spoken = [line.partition("|")[2] or line for line in lines if line.strip()]
    setting = SoakSetting(texts=spoken, minutes=minutes, live=live, wpm=wpm, seed=seed, quiet=as_json)
    found = bench_soak(setting)
    show("soak", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@bench.command("measure")
def measure_(
    sounds: Annotated[Path, typer.Option(help="A folder of recordings, from which the clips are made.")] = DEMO,
    clips: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 2,
    pitch: Annotated[bool, typer.Option(help="Measure pitch, which takes most of the time.")] = True,
    seed: Annotated[int, typer.Option(help="Of what the clips are made of.")] = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How many seconds of sound studio measure does in a second."""
    from studio.bench.measuring import MeasuringSetting, bench_measure

    setting = MeasuringSetting(sounds=sounds, clips=clips, workers=workers, with_pitch=pitch, seed=seed, quiet=as_json)
    show("measure", bench_measure(setting), as_json, save)


@bench.command()
def replay(
    texts: Texts = TEXTS / "latency.txt",
    count: Annotated[
        int, typer.Option(min=3, help="Traces, a third each: typed to the app, said, of a campaign.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Of voices, options, temperatures and seeds.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="A folder for the traces, empty or new.")] = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Make traces by the app, by say and for a campaign, and make each again; fails when a sample differs."""
    from studio.bench.robustness.replaying import ReplaySetting, bench_replay

    setting = ReplaySetting(voices=voices, texts=texts, count=count, seed=seed, kept=keep, device=device, quiet=as_json)
    found = bench_replay(setting)
    show("replay", found, as_json, save)
    raise typer.Exit(1 if found["failures"] else 0)


@bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write.")],
    width: Annotated[int, typer.Option(help="Of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="The dark theme.")] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="Of the Inspect page, after it was spoken.")] = False,
) -> None:
    """Take a picture of the speaking page."""
    from studio.bench.page import screenshot as take

    take(out, width=width, height=height, dark=dark, inspect=inspect)


@bench.command()
def summary() -> None:
    """Write docs/results/README.md from the newest files of bench/results/."""
    from studio.bench.summary import summarise

    typer.echo(summarise())
