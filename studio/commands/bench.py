"""``studio bench``: speed, load, robustness, and the statistics of listening tests."""

from pathlib import Path
from typing import Annotated, Any

import typer

from studio.bench.mos import settings as mos
from studio.bench.options import Device, Seed, Texts, Threads, Vocoder, VoiceName, Voices
from studio.bench.page import settings as page
from studio.bench.robustness import settings as robustness
from studio.bench.speed import settings as speed
from studio.commands.common import Json, Save, show
from studio.commands.measurements import add_measurement
from studio.core.folders import TEXTS, VOICES

Size = Annotated[
    str, typer.Option(help="paper or small: random weights of that size instead of a voice, for speed only.")
]
bench = typer.Typer(no_args_is_help=True, help="Measure speed, load, robustness, and the listening tests.")
for _name, _setting, _target in (
    ("latency", speed.LatencySetting, "speed.latency:bench_latency"),
    ("cascade", speed.CascadeSetting, "speed.cascade:bench_cascade"),
    ("wire", speed.WireSetting, "speed.wire:bench_wire"),
    ("measure", speed.MeasuringSetting, "speed.measuring:bench_measure"),
    ("page", page.PageSetting, "page.key_to_ear:bench_page"),
    ("inspect", page.InspectSetting, "page.inspecting.run:bench_inspect"),
    ("highlight", page.HighlightSetting, "page.highlight:bench_highlight"),
    ("start", page.StartSetting, "page.start:bench_start"),
    ("mos-load", mos.MosLoadSetting, "mos.load:bench_mos_load"),
    ("mos-kill", mos.MosKillSetting, "mos.kill:bench_mos_kill"),
    ("annotation-kill", mos.AnnotationKillSetting, "robustness.annotation_kill:bench_annotation_kill"),
    ("mos-coverage", mos.CoverageSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-ordinal", mos.OrdinalSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-looks", mos.LooksSetting, "mos.looks:bench_mos_looks"),
    ("mos-plan", mos.PlanSetting, "mos.plan:bench_mos_plan"),
    ("fuzz", robustness.FuzzSetting, "robustness.fuzz:bench_fuzz"),
    ("soak", robustness.SoakSetting, "robustness.soak:bench_soak"),
    ("replay", robustness.ReplaySetting, "robustness.replaying:bench_replay"),
):
    add_measurement(bench, _name, _setting, _target)


@bench.command()
def summary() -> None:
    """Write docs/results, README.md and a page for each paper, from the newest files of bench/results."""
    from studio.bench.summary import summarise

    typer.echo(summarise())


@bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write.")],
    width: Annotated[int, typer.Option(help="Width of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Height of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="Use the dark theme.")] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="The Inspect page of what was spoken.")] = False,
) -> None:
    """Take a screenshot of the Live page while it speaks."""
    from studio.bench.page.key_to_ear import screenshot as take

    take(out, width=width, height=height, dark=dark, inspect=inspect)


@bench.command()
def step(
    rows: Annotated[list[int] | None, typer.Option(min=1, max=1024, help="Batch sizes; 1, 2, 4, 8 by default.")] = None,
    context: Annotated[
        list[int] | None, typer.Option(min=20, max=1900, help="Tokens in the KV cache; 100, 500 by default.")
    ] = None,
    steps: Annotated[int, typer.Option(min=2, help="Timed steps for each.")] = 40,
    stock: Annotated[
        bool, typer.Option("--stock/--no-stock", help="Also time a stock generate loop of transformers.")
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
    """A step by batch and context, beside the memory-bandwidth floor of this machine; the gain of batching."""
    from studio.bench.speed.step import StepSetting, bench_step
    from studio.bench.speed.step import show as show_steps
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    many: dict[str, Any] = {"rows": tuple(rows or StepSetting.rows), "contexts": tuple(context or StepSetting.contexts)}
    figures = subject.about() | bench_step(
        StepSetting(subject=subject, **many, steps=steps, stock=stock, quiet=as_json)
    )
    if not as_json:
        show_steps(figures)
        if "left_out" in (figures["stock"] or {}):
            typer.echo(figures["stock"]["left_out"], err=True)
    show(subject.result_name("step"), figures, as_json, save)


@bench.command("load")
def load_(
    wpm: Annotated[float, typer.Option(min=1, max=2000, help="Typing speed, words a minute.")] = 60.0,
    seconds: Annotated[float, typer.Option(min=1.0, help="Duration of each number of typists.")] = 20.0,
    most: Annotated[int, typer.Option(min=1, max=4096, help="Typists in the largest run.")] = 64,
    queries: Annotated[
        bool,
        typer.Option(
            "--queries", help="Also whole texts at a rate (docs/speed.md); implied by --rate, --kind, --arrivals."
        ),
    ] = False,
    rate: Annotated[list[float] | None, typer.Option(min=0.01, help="Queries a second; 10, 30, 60, 70, 100.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="short, medium, long or mixed texts; mixed.")] = None,
    arrivals: Annotated[list[str] | None, typer.Option(help="fixed or poisson; both.")] = None,
    query_seconds: Annotated[float, typer.Option(min=1.0, help="Duration of each rate.")] = 200.0,
    places: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent queries.")] = 64,
    texts: Texts = TEXTS / "latency.txt",
    voice: VoiceName = "",
    size: Size = "",
    vocoder: Vocoder = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    threads: Threads = 1,
    seed: Seed = 0,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How many live typists fit this machine, a newcomer's wait; with --queries also whole texts at a rate."""
    from studio.bench.material import read_texts
    from studio.bench.speed import load, newcomers, typists
    from studio.bench.speed.plots import plot_load
    from studio.bench.speed.subject import Subject

    subject = Subject(voices=voices, voice=voice, size=size, vocoder=vocoder, device=device, threads=threads)
    common: dict[str, Any] = {"subject": subject, "lines": read_texts(texts), "seed": seed, "quiet": as_json}
    chosen = {"rates": rate, "kinds": kind, "arrivals": arrivals}
    given: dict[str, Any] = {name: tuple(values) for name, values in chosen.items() if values}
    asked = load.QueriesSetting(**common, **given, seconds=query_seconds, places=places)  # refuses before anything runs
    people = typists.TypistsSetting(**common, wpm=wpm, seconds=seconds, most=most)
    figures = subject.about() | typists.bench_typists(people)
    figures["newcomers"] = newcomers.bench_newcomers(people, figures["typists_without_stall"])
    if not as_json:
        typists.show(figures)
        newcomers.show(figures["newcomers"])
    if queries or given:
        figures["queries"] = load.bench_queries(asked)
        if not as_json:
            load.show(figures | figures["queries"])
    name = subject.result_name("load")
    show(name, figures, as_json, save)
    if save:
        for path in plot_load(figures, name):
            typer.echo(f"written to {path}", err=True)
    if "queries" in figures and not as_json:
        typer.echo(typists.answer(figures))  # again, since much was printed after it
