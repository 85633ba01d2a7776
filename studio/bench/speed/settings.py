"""Parameters of the speed benchmarks of ``studio bench``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.evaluation.settings import Setting
from studio.bench.options import Compared, Count, Seed, Texts
from studio.core.folders import DEMO, TEXTS, VOICES


@dataclass(frozen=True, kw_only=True)
class LatencySetting(Setting):
    """First audio and real-time factor: text at once, word by word, cold (the ladder t0a .. t5); t4 on a socket.

    Attributes:
        warm: texts that are spoken first and not counted.
        pause_ms: pause between two utterances.
    """

    texts: Texts = TEXTS / "latency.txt"
    count: Count = 50
    settings: Compared = ()
    typed: Annotated[int, typer.Option(min=0, help="Texts that arrive word by word.")] = 20
    gap_ms: Annotated[float, typer.Option(min=0.0, help="Time between two of these words.")] = 50.0
    cold: Annotated[int, typer.Option(min=0, help="Engines opened for one text each.")] = 5
    served: Annotated[int, typer.Option(min=0, help="Texts through the app's socket; 0 for none.")] = 20
    cache: Path | None = None
    warm: int = 3
    pause_ms: float = 50.0


@dataclass(frozen=True, kw_only=True)
class CascadeSetting(Setting):
    """From a question to the first sound: replayed words of a language model, and the voice that speaks them.

    Attributes:
        pause_ms: pause between two replies.
    """

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 20
    arrivals: Annotated[
        Path | None,
        typer.Option(help='Recorded replies instead of --texts: JSON lines {"pieces": [[ms, text], ...]}.'),
    ] = None
    first_word_ms: Annotated[
        float, typer.Option(min=0.0, max=60_000.0, help="From the question to the first word.")
    ] = 129.0
    word_ms: Annotated[float, typer.Option(min=0.0, max=10_000.0, help="From one word to the next.")] = 22.0
    settings: Compared = ()
    cache: Path | None = None
    pause_ms: float = 50.0


@dataclass(frozen=True, kw_only=True)
class WireSetting:
    """CPU time of the server for each frame, from the engine's event to the socket.

    Attributes:
        warm: frames that are not timed.
        block: frames per timing.
        voices: its first card gives the length of a frame; nothing is spoken.
    """

    frames: Annotated[int, typer.Option(min=100, max=200_000, help="Timed frames.")] = 20_000
    warm: int = 500
    block: int = 100
    voices: Path = VOICES
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class MeasuringSetting:
    """Seconds of sound that ``studio measure`` processes in a second."""

    sounds: Annotated[Path, typer.Option(help="Folder of recordings from which the clips are made.")] = DEMO
    clips: Annotated[int, typer.Option(min=1, max=100_000, help="Number of clips.")] = 1000
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 2
    with_pitch: Annotated[bool, typer.Option("--pitch/--no-pitch", help="Measure pitch, which takes most time.")] = True
    seed: Seed = 0
    quiet: bool = False
