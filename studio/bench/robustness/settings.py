"""Parameters of the fuzz, soak and replay benchmarks of ``studio bench``.

``command`` starts the app; None starts this package's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Seed, Texts, Voices
from studio.core.folders import TEXTS, VOICES

if TYPE_CHECKING:
    from studio.bench.robustness.target import Routes


@dataclass(frozen=True, kw_only=True)
class FuzzSetting:
    """Send hostile requests and messages to the app; fails on a 500, a traceback, or a leaked resource.

    Attributes:
        routes: the app's routes, from its own tables.
        requests: over all targets together; a tenth more goes first as a warm-up.
        doors: names of studio.bench.robustness.fuzz_targets, empty for all.
    """

    requests: Annotated[int, typer.Option(min=100, help="Hostile requests and messages, over all targets.")] = 100_000
    flood_s: Annotated[float, typer.Option("--flood", min=0.0, help="Seconds of each flood; 0 for none.")] = 10.0
    settle_s: Annotated[
        float, typer.Option("--settle", min=1.0, help="Seconds before leaked resources are counted.")
    ] = 40.0
    seed: Seed = 0
    routes: "Routes"
    doors: Sequence[str] = ()
    command: Sequence[str] | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class SoakSetting:
    """Ordinary use for a long time: voices speak, a rater answers; fails when threads, descriptors or memory grow.

    Attributes:
        every_s: sampling interval of the server's resources.
    """

    minutes: Annotated[float, typer.Option(min=0.1, help="Duration.")] = 30.0
    live: Annotated[int, typer.Option(min=1, max=64, help="Concurrent utterances.")] = 4
    wpm: Annotated[float, typer.Option(min=1.0, help="Typing speed, words a minute.")] = 400.0
    texts: Texts = TEXTS / "latency.txt"
    seed: Seed = 0
    every_s: float = 5.0
    command: Sequence[str] | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplaySetting:
    """Record traces from the app, from `say` and from a campaign, and replay each; fails when a sample differs."""

    texts: Texts = TEXTS / "latency.txt"
    count: Annotated[
        int, typer.Option(min=3, help="Traces, a third each: typed into the app, said, of a campaign.")
    ] = 100
    seed: Seed = 0
    kept: Annotated[Path | None, typer.Option("--keep", help="Folder for the traces, empty or new.")] = None
    voices: Voices = VOICES
    device: Device = "auto"
    quiet: bool = False
