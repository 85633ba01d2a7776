"""The durability harnesses of ``tests/durability`` (kill, fuzz, soak, replay): their parameters, start and figures.

``command`` starts the app; None starts this package's own.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from studio.bench.options import Device, Parameters, Seed, Texts, Voices
from studio.core.errors import NeedsPackage
from studio.core.folders import TEXTS, VOICES
from studio.core.terminal import print_line
from studio.measure.report import print_table

FUZZ_TARGET_MS = 500.0  # target p99 of /health
SILENCE_TARGET_MS, HEALTH_TARGET_MS = 100.0, 100.0  # longest silence, and p99 of /health, during a flood
SOAK_TARGET_MIB = 1.0  # limit of growth per 1,000 utterances
Plant = Annotated[str, typer.Option(help="Plant a fault that the run must find; an unknown name lists them.")]


class _KillSetting(Parameters):
    plant: Plant = ""
    seed: Seed = 0

    @property
    def is_partial(self) -> bool:
        """Whether a fault is planted, so that the figures are not saved."""
        return bool(self.plant)


class MosKillSetting(_KillSetting):
    """kill -9 while raters answer; fails when an acknowledged answer is lost, or acknowledged before a sync."""

    kills: Annotated[int, typer.Option(min=0, help="Kills at random moments; 0 for none.")] = 200
    raters: Annotated[int, typer.Option(min=1, help="Concurrent raters.")] = 24
    traced_s: Annotated[float, typer.Option("--traced", min=0.0, help="Seconds under strace; 0 for none.")] = 10.0
    think_s: tuple[float, float] = (0.1, 0.6)
    life_s: tuple[float, float] = (0.0, 0.8)  # range of seconds from a server's first acknowledgement to its end


class AnnotationKillSetting(_KillSetting):
    """kill -9 while annotators work; fails when an acknowledged edit is lost, or a repeated one is applied twice."""

    kills: Annotated[int, typer.Option(min=1, help="Kills at random moments.")] = 50
    annotators: Annotated[int, typer.Option(min=1, max=32, help="Concurrent annotators, a document each.")] = 2
    life_s: tuple[float, float] = (0.0, 0.6)  # range of seconds from a server's first acknowledgement to its end
    think_s: float = 0.03  # longest pause between two edits of one annotator


class FuzzSetting(Parameters):
    """Send hostile requests and messages to the app; fails on a 500, a traceback, or a leaked resource.

    Attributes:
        routes: a ``Routes`` of the harness; None for all of the app's.
        requests: over all targets together; a tenth more goes first as a warm-up.
        targets: names of the harness's fuzz_targets, empty for all.
    """

    requests: Annotated[int, typer.Option(min=100, help="Hostile requests and messages, over all targets.")] = 100_000
    flood_s: Annotated[float, typer.Option("--flood", min=0.0, help="Seconds of each flood; 0 for none.")] = 10.0
    settle_s: Annotated[
        float, typer.Option("--settle", min=1.0, help="Seconds before leaked resources are counted.")
    ] = 40.0
    seed: Seed = 0
    routes: Any = None
    targets: Sequence[str] = ()
    command: Sequence[str] | None = None


class FloodSetting(Parameters):
    """Speak 12 s while other connections request pages and views of a trace; fails on silence or a slow /health.

    Attributes:
        kinds: names of the harness's floods, empty for all.
        lead_s: time between the beginning of a flood and that of the utterance.
    """

    connections: Annotated[int, typer.Option(min=1, max=400, help="Connections of a flood.")] = 64
    minutes: Annotated[float, typer.Option(min=0.1, max=60.0, help="Sound of the viewed trace.")] = 5.0
    text: Annotated[str, typer.Option(help="Text of the utterance.")] = (
        "Speech flows from words as they arrive, and nobody has to wait until the last one is there. "
        "While one person listens, others may open pages, look at what was spoken, and download it again. "
        "None of that can be heard in this sentence, which goes on until it ends."
    )
    kinds: Sequence[str] = ()
    lead_s: float = 1.0
    command: Sequence[str] | None = None

    @property
    def is_partial(self) -> bool:
        """Whether floods are left out, so that the figures are not saved."""
        return bool(self.kinds)


class SoakSetting(Parameters):
    """Ordinary use for a long time: voices speak, a rater answers; fails when threads, descriptors or memory grow."""

    minutes: Annotated[float, typer.Option(min=0.1, help="Duration.")] = 30.0
    live: Annotated[int, typer.Option(min=1, max=64, help="Concurrent utterances.")] = 4
    wpm: Annotated[float, typer.Option(min=1.0, help="Typing speed, words a minute.")] = 400.0
    visitors: Annotated[
        int, typer.Option(min=0, max=32, help="Who open pages and traces, upload sounds, and keep utterances.")
    ] = 0
    texts: Texts = TEXTS / "latency.txt"
    seed: Seed = 0
    every_s: float = 5.0  # sampling interval of the server's resources
    command: Sequence[str] | None = None


class ReplaySetting(Parameters):
    """Record traces from the app, from `say` and from a campaign, and replay each; fails when a sample differs."""

    texts: Texts = TEXTS / "latency.txt"
    count: Annotated[
        int, typer.Option(min=3, help="Traces, a third each: typed into the app, said, of a campaign.")
    ] = 100
    seed: Seed = 0
    keep_folder: Annotated[Path | None, typer.Option("--keep", help="Folder for the traces, empty or new.")] = None
    voices: Voices = VOICES
    device: Device = "auto"


_HARNESSES = {
    MosKillSetting: "mos_kill:bench_mos_kill",
    AnnotationKillSetting: "annotation_kill:bench_annotation_kill",
    FuzzSetting: "fuzz:bench_fuzz",
    FloodSetting: "silence:bench_flood",
    SoakSetting: "soak:bench_soak",
    ReplaySetting: "replaying:bench_replay",
}


def run_harness(setting: Any) -> dict[str, Any]:
    """The figures of the harness with these parameters. Raises NeedsPackage outside a checkout."""
    tests = Path(__file__).parents[2] / "tests"
    if not (tests / "durability" / "harness").is_dir():
        raise NeedsPackage(
            "this command runs tests/durability, which an installed package does not have", "run it in a checkout"
        )
    if str(tests) not in sys.path:
        sys.path.append(str(tests))
    module, _, function = _HARNESSES[type(setting)].partition(":")
    return getattr(import_module(f"durability.harness.{module}"), function)(setting)


def show_mos_kill(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        ["answers acknowledged", out["acknowledged"]],
        ["of them lost", out["lost"]],
        ["trials answered twice", out["doubled"]],
        ["copies of a paused server", out["copies"]],
        ["integrity_check at the end", out["integrity"]],
        ["acknowledged under strace", out["strace"].get("answers")],
        ["of them after a sync of the log", out["strace"].get("synced")],
        ["failures", len(out["failures"])],
    ]
    note = "SQLite: " + ", ".join(f"{name} {value}" for name, value in out["settings"].items())
    planted = f", with {out['plant']} planted" if out["plant"] else ""
    print_table(f"{out['kills']} times kill -9 under {out['raters']} raters{planted}", ("", ""), rows, note)
    for failure in out["failures"][:10]:
        print_line(failure)


def show_annotation_kill(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        ["edits acknowledged", out["acknowledged"]],
        ["retries while the server was down", out["sent_again"]],
        ["marks at the end", out["marks"]],
        ["failures", len(out["failures"])],
    ]
    planted = f", with {out['plant']} planted" if out["plant"] else ""
    print_table(f"{out['kills']} times kill -9 under {out['annotators']} annotators{planted}", ("", ""), rows)
    for failure in out["failures"][:10]:
        print_line(failure)


def show_fuzz(out: Mapping[str, Any]) -> None:
    rows = [
        [
            one["door"],
            one["sent"],
            one["wrongs"],
            " ".join(f"{status}:{n}" for status, n in one["answers"].items())[:90],
        ]
        for one in out["doors"]
    ]
    print_table("Hostile requests and messages", ("target", "sent", "wrong answers", "answers"), rows)
    before, after = out["before"], out["after"]
    held = [[name, before[name], after[name]] for name in before]
    print_table(
        "Resources of the server", ("", "before", "after"), held, f"{len(out['log'])} warnings and errors in its log"
    )
    health = [["meanwhile", out["health_ms"]["p50"], out["health_ms"]["p99"]]]
    health += [[name.replace("_", " "), one["p50"], one["p99"]] for name, one in out["floods"].items()]
    print_table("/health, ms", ("during", "p50", "p99"), health, f"target: p99 of {FUZZ_TARGET_MS:g} ms")
    for line in out["failures"]:
        print_line(line)


def show_flood(out: Mapping[str, Any]) -> None:
    rows = [
        [
            name,
            f"{one['first_ms']:.0f}",
            f"{one['silence_ms']:.0f}",
            f"{one['longest_ms']:.0f}",
            f"{one['health_p99_ms']:.0f}",
            " ".join(f"{status}:{n}" for status, n in one["answers"].items()),
        ]
        for name, one in out["floods"].items()
    ]
    columns = ("flood", "first sound, ms", "silence, ms", "longest, ms", "/health p99, ms", "answers")
    title = f"An utterance beside floods of {out['connections']} connections"
    note = f"targets: silence of {SILENCE_TARGET_MS:g} ms, /health of {HEALTH_TARGET_MS:g} ms"
    print_table(title, columns, rows, note)
    for line in out["failures"]:
        print_line(line)


def show_soak(out: Mapping[str, Any]) -> None:
    first, last = out["first"], out["last"]
    rows = [
        ["utterances", out["utterances"], ""],
        ["speech, s", out["audio_s"], ""],
        ["stalls", out["stalls"], ""],
        ["answers of raters", out["answers"], ""],
        *([["requests of visitors", sum(out["visits"].values()), ""]] if "visits" in out else []),  # not in old files
        ["threads, most in the first and the last third", first["most"]["threads"], last["most"]["threads"]],
        ["descriptors, the same", first["most"]["descriptors"], last["most"]["descriptors"]],
        ["memory, MiB", first["memory_mib"], last["memory_mib"]],
        ["memory for every 1,000 utterances, MiB", out["memory_mib_per_1000"], f"at most {SOAK_TARGET_MIB:g}"],
        *[
            [
                f"memory of the server and of its processes, after {one['at_s']} s",
                one["memory_mib"],
                one["children_mib"],
            ]
            for one in out.get("over_time", ())
        ],
        ["/health, ms: p50 and p99", out["health_ms"]["p50"], out["health_ms"]["p99"]],
    ]
    print_table(f"{out['minutes']:g} minutes of {out['live']} live utterances and a rater", ("", "", ""), rows)
    for line in out["failures"]:
        print_line(line)


def show_replay(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        [name, one["n"], one["same"], f"{one['samples']:,}", round(one["audio_s"], 1)]
        for name, one in out["by_origin"].items()
    ]
    rows.append(["all", out["n"], out["same"], "", round(out["audio_s"], 1)])
    notes = [f"{one['origin']} {one['how']}: {_why(one)}" for one in out["different"][:10]]
    note = "; ".join([*notes, *out["made_otherwise"]])
    columns = ("made by", "traces", "the same, bit for bit", "samples", "audio s")
    print_table(f"Traces of {', '.join(out['voices'])} replayed", columns, rows, note)


def _why(one: Mapping[str, Any]) -> str:
    if one["first_difference"] is not None:
        return f"sample {one['first_difference']:,} differs"
    return "it is longer or shorter" if one["samples"] else "it has no samples"
