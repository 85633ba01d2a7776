"""``studio bench``: what the server bears, and whether what it made is made again."""

from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import Device, Json, Save, Texts, Voices, show
from studio.core.shipped import DEMO, TEXTS, VOICES

robustness_bench = typer.Typer()


@robustness_bench.command()
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


@robustness_bench.command()
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


@robustness_bench.command("measure")
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


@robustness_bench.command()
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
