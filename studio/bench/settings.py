"""Parameters of ``studio bench``; those of the durability harnesses are in ``studio.bench.durability``.

``command`` starts the app (``--port N`` is added); None starts this package's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studio.bench.options import (
    Compared,
    Count,
    Device,
    Parameters,
    Seed,
    Setting,
    Texts,
    Threads,
    Vocoder,
    VoiceName,
    Voices,
)
from studio.core.errors import BadOption
from studio.core.folders import DEMO, TEXTS, VOICES

if TYPE_CHECKING:
    from studio.bench.speed.subject import Subject

KINDS = ("short", "medium", "long", "mixed")  # of queries, see ``studio.bench.speed.load``
ARRIVALS = ("fixed", "poisson")

Systems = Annotated[
    tuple[str, ...],
    typer.Option(
        "--system",
        help="Foreign system instead of a voice (studio systems list). Repeatable, voices too: side by side.",
    ),
]


class PageSetting(Parameters):
    """The page in headless Chromium: key to first audible sample, stalls, first sound after one click.

    Attributes:
        texts: one text a line; the first ``warm`` are not counted. ``long_text`` is typed completely, for stalls.
    """

    n: Annotated[int, typer.Option("--count", min=1, help="Texts typed for first audio.")] = 20
    wpm: Annotated[float, typer.Option(help="Typing speed, words a minute.")] = 60.0
    window: Annotated[int | None, typer.Option("-m", help="Words seen; the page's default if absent.")] = None
    long_words: Annotated[int, typer.Option(help="Words of the text typed for stalls; 0 for none.")] = 120
    clicks: Annotated[int, typer.Option(min=0, help="Fresh pages for each of the two one-click starts.")] = 3
    clicks_only: Annotated[bool, typer.Option("--clicks-only", help="Only the first sound after one click.")] = False
    command: Sequence[str] | None = None
    texts: Path = TEXTS / "latency.txt"
    long_text: Path = TEXTS / "live.txt"
    warm: int = 1

    @property
    def is_partial(self) -> bool:
        """Whether the figures are incomplete, so that they are not saved."""
        return self.clicks_only


class TypeSetting(Parameters):
    """The terminal program: key to first sample at the output, underruns in minutes of typing.

    Attributes:
        texts: one a line, of which the first words are typed; the first ``warm`` are not counted.
        long_texts: typed completely, for underruns.
    """

    n: Annotated[int, typer.Option("--count", min=1, help="Texts typed for first sound.")] = 20
    wpm: Annotated[float, typer.Option(min=1, max=2000, help="Typing speed, words a minute.")] = 60.0
    minutes: Annotated[float, typer.Option(min=0.0, max=1440.0, help="Minutes of typing for underruns.")] = 10.0
    voice: VoiceName = ""
    voices: Voices = VOICES
    device: Device = "auto"
    texts: Path = TEXTS / "latency.txt"
    long_texts: Path = TEXTS / "live.txt"
    warm: int = 2


class InspectSetting(Parameters):
    """A trace of ten minutes on the Inspect page, in headless Chromium: first picture, frames a second."""

    minutes: Annotated[float, typer.Option(min=0.1, max=60.0, help="Minutes of sound.")] = 10.0
    trace: Annotated[Path | None, typer.Option(help="Trace to repeat up to that length, instead of a typed text.")] = (
        None
    )
    opened: Annotated[int, typer.Option(min=1, help="How often the trace is opened by address and by drop.")] = 3
    seconds: Annotated[float, typer.Option(min=0.5, max=120.0, help="Seconds of each kind of movement.")] = 5.0
    width: Annotated[int, typer.Option(min=320, max=4000, help="Width of the window, pixels.")] = 1280
    voice: VoiceName = ""
    voices: Voices = VOICES
    device: Device = "auto"
    texts: Path = TEXTS / "live.txt"  # the first one is typed at ``wpm`` words a minute
    wpm: float = 200.0
    command: Sequence[str] | None = None


class HighlightSetting(Parameters):
    """Delay between a word's sound and its highlight, also with an audio device that is 300 ms late."""

    text: str = "Speech flows from words as they arrive, and nobody has to wait until the last one is there."
    command: Sequence[str] | None = None
    shifts_ms: tuple[float, ...] = (0.0, 300.0)
    wpm: float = 90.0


class StartSetting(Parameters):
    """Time from a start until the page answers, and the memory of one utterance."""

    starts: Annotated[int, typer.Option(min=1, help="How often the app is started.")] = 5
    text: Path = TEXTS / "paragraphs.txt"  # file whose first line is spoken after the last start
    command: Sequence[str] | None = None


class LatencySetting(Setting):
    """First audio and real-time factor: text at once, word by word, cold (the ladder t0a .. t5); t4 on a socket."""

    system: Systems = ()
    texts: Texts = TEXTS / "latency.txt"
    count: Count = 50
    settings: Compared = ()
    typed: Annotated[int, typer.Option(min=0, help="Texts that arrive word by word.")] = 20
    gap_ms: Annotated[float, typer.Option(min=0.0, help="Time between two of these words.")] = 50.0
    cold: Annotated[int, typer.Option(min=0, help="Engines opened for one text each.")] = 5
    served: Annotated[int, typer.Option(min=0, help="Texts through the app's socket; 0 for none.")] = 20
    cache: Path | None = None
    warm: int = 3  # texts that are spoken first and not counted
    pause_ms: float = 50.0  # pause between two utterances

    def __post_init__(self) -> None:
        if len(self.system) == 1:
            object.__setattr__(self, "voice", self.system[0])

    @property
    def result_name(self) -> str:
        """Name in bench/results."""
        return "systems-latency" if len(self.system) > 1 else "latency"

    def plots(self, figures: Mapping[str, Any]) -> list[Path]:
        """Write the plot of a saved comparison."""
        from studio.bench.speed.systems import plot_compared

        return plot_compared(figures, self.result_name) if "systems" in figures else []


class CascadeSetting(Setting):
    """From a question to the first sound: replayed words of a language model, and the voice that speaks them."""

    texts: Texts = TEXTS / "eval.txt"
    count: Count = 20
    arrivals: Annotated[
        Path | None, typer.Option(help='Recorded replies instead of --texts: JSON lines {"pieces": [[ms, text], ...]}.')
    ] = None
    first_word_ms: Annotated[
        float, typer.Option(min=0.0, max=60_000.0, help="From the question to the first word.")
    ] = 129.0
    word_ms: Annotated[float, typer.Option(min=0.0, max=10_000.0, help="From one word to the next.")] = 22.0
    settings: Compared = ()
    cache: Path | None = None
    pause_ms: float = 50.0  # pause between two replies


class WireSetting(Parameters):
    """CPU time of the server for each frame, from the engine's event to the socket."""

    frames: Annotated[int, typer.Option(min=100, max=200_000, help="Timed frames.")] = 20_000
    warm: int = 500  # frames that are not timed
    block: int = 120  # frames per timing
    chunk: int = 1  # frames of a packet
    voices: Path = VOICES  # its first card gives the length of a frame; nothing is spoken


class AdaptersSetting(Parameters):
    """First byte over each adapter for other clients (OpenAI's, ElevenLabs', ...), beside the studio's own socket."""

    n: Annotated[int, typer.Option("--count", min=2, max=100_000, help="Utterances over each adapter.")] = 300
    warm: int = 20  # rounds that are not counted
    voices: Path = VOICES  # its first card gives the length of a frame; nothing is computed


class MeasuringSetting(Parameters):
    """Seconds of sound that ``studio measure`` processes in a second."""

    sounds: Annotated[Path, typer.Option(help="Folder of recordings from which the clips are made.")] = DEMO
    clips: Annotated[int, typer.Option(min=1, max=100_000, help="Number of clips.")] = 1000
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 2
    with_pitch: Annotated[bool, typer.Option("--pitch/--no-pitch", help="Measure pitch, which takes most time.")] = True
    seed: Seed = 0


class SubjectSetting(Parameters):
    """The model under test.

    Attributes:
        voices: folder of voices; ``voice`` is one of its names, empty for the first.
        size: random weights of a named size instead of a voice: ``paper`` (258M) or ``small``.
        vocoder: one of the card's, or for a size one of ``random_voice.VOCODERS`` (default vocstream, as in the paper).
    """

    voice: VoiceName = ""
    size: Annotated[
        str, typer.Option(help="paper or small: random weights of that size instead of a voice, for speed only.")
    ] = ""
    vocoder: Vocoder = ""
    voices: Voices = VOICES
    device: Device = "auto"
    threads: Threads = 1

    @property
    def subject(self) -> "Subject":
        """The model, to be loaded."""
        from studio.bench.speed.subject import Subject  # imports torch

        return Subject(**{field.name: getattr(self, field.name) for field in fields(SubjectSetting)})


class StepSetting(SubjectSetting):
    """A step by batch and context, beside the memory-bandwidth floor of this machine; the gain of batching.

    Attributes:
        steps: timed steps, after ``warm`` untimed ones.
        pooled: rows for the comparison of batched and single rows.
    """

    rows: Annotated[tuple[int, ...], typer.Option(min=1, max=1024, help="Batch sizes; 1, 2, 4, 8 by default.")] = (
        1, 2, 4, 8,
    )  # fmt: skip
    contexts: Annotated[
        tuple[int, ...],
        typer.Option("--context", min=20, max=1900, help="Tokens in the KV cache; 100, 500 by default."),
    ] = (100, 500)
    steps: Annotated[int, typer.Option(min=2, help="Timed steps for each.")] = 40
    stock: Annotated[
        bool, typer.Option("--stock/--no-stock", help="Also time a stock generate loop of transformers.")
    ] = True
    warm: int = 8
    pooled: int = 8

    @property
    def result_name(self) -> str:
        """Name in bench/results."""
        return self.subject.result_name("step")


class GpuSetting(Parameters):
    """The GPU: kernels against the reference, step times beside the floor, streams, first sound, memory; one JSON.

    ``python -m studio.bench.speed.gpu`` does the same where this command cannot be installed.
    """

    rows: Annotated[
        tuple[int, ...], typer.Option(min=1, max=512, help="Streams at once; 1, 8, 64, 512 by default.")
    ] = (1, 8, 64, 512)
    size: Annotated[tuple[str, ...], typer.Option(help="Sizes of the net; paper and small by default.")] = (
        "paper", "small",
    )  # fmt: skip
    device: Device = "cuda"
    result_name = "gpu-kernels"


class CodecSetting(Parameters):
    """A frame of Mimi's decoder on a CPU, at its true size with random weights, beside Kyutai's code if installed."""

    rows: Annotated[tuple[int, ...], typer.Option(min=1, max=64, help="Streams at once; 1, 8 by default.")] = (1, 8)
    frames: Annotated[int, typer.Option(min=2, max=10_000, help="Timed frames for each.")] = 40
    threads: Threads = 1


class KyutaiSetting(Parameters):
    """A step of Kyutai's 1.6b language model on a CPU, with random weights, beside Kyutai's code if installed."""

    rows: Annotated[tuple[int, ...], typer.Option(min=1, max=64, help="Streams at once; 1, 32 by default.")] = (1, 32)
    steps: Annotated[int, typer.Option(min=2, max=10_000, help="Timed steps for each number of streams.")] = 10
    layers: Annotated[int, typer.Option(min=1, max=16, help="Layers of the backbone; the published model has 16.")] = 16
    threads: Threads = 2  # of Kyutai's code; ours uses the second core for large products anyway


class HostSetting(Parameters):
    """CPU time of a frame on the host, with nets that cost nothing: engine and socket threads."""

    rows: Annotated[tuple[int, ...], typer.Option(min=1, max=1024, help="Streams at once; 1, 64, 512 by default.")] = (
        1, 64, 512,
    )  # fmt: skip
    frames: Annotated[int, typer.Option(min=20, help="Frames of each stream.")] = 400


class LoadSetting(SubjectSetting):
    """How many live typists fit this machine, a newcomer's wait; with --queries also whole texts at a rate.

    Attributes:
        wpm: words of six characters.
        query_seconds: duration of a run's arrivals (200 in paper 004).
        places: concurrency slots; further queries are refused.
        lines: texts to type and to query; those of ``texts`` by default.
        options: of every query; empty for the card's.

    Raises:
        BadOption: a kind of texts or of arrivals is unknown.
    """

    system: Systems = ()
    wpm: Annotated[float, typer.Option(min=1, max=2000, help="Typing speed, words a minute.")] = 60.0
    seconds: Annotated[float, typer.Option(min=1.0, help="Duration of each number of typists.")] = 20.0
    most: Annotated[int, typer.Option(min=1, max=4096, help="Typists in the largest run.")] = 64
    queries: Annotated[
        bool,
        typer.Option(
            "--queries", help="Also whole texts at a rate (docs/speed.md); implied by --rate, --kind, --arrivals."
        ),
    ] = False
    rates: Annotated[
        tuple[float, ...], typer.Option("--rate", min=0.01, help="Queries a second; 10, 30, 60, 70, 100.")
    ] = ()
    kinds: Annotated[tuple[str, ...], typer.Option("--kind", help="short, medium, long or mixed texts; mixed.")] = ()
    arrivals: Annotated[tuple[str, ...], typer.Option(help="fixed or poisson; both.")] = ()
    query_seconds: Annotated[float, typer.Option(min=1.0, help="Duration of each rate.")] = 200.0
    places: Annotated[int, typer.Option(min=1, max=4096, help="Concurrency slots: queries at once.")] = 64
    texts: Texts = TEXTS / "latency.txt"
    seed: Seed = 0
    lines: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if len(self.system) == 1:
            object.__setattr__(self, "voice", self.system[0])
        for values, known in ((self.kinds, KINDS), (self.arrivals, ARRIVALS)):
            if unknown := [one for one in values if one not in known]:
                raise BadOption(f"unknown value {unknown[0]!r}", f"choose {', '.join(known)}")

    @property
    def result_name(self) -> str:
        """Name in bench/results."""
        return "systems-load" if len(self.system) > 1 else self.subject.result_name("load")

    def plots(self, figures: Mapping[str, Any]) -> list[Path]:
        """Write the plots of a saved result."""
        from studio.bench.speed.load import plot_load
        from studio.bench.speed.systems import plot_compared

        if "systems" in figures:
            return plot_compared(figures, self.result_name)
        return plot_load(figures, self.result_name)


class ReplicasSetting(Parameters):
    """Replicas behind a front: sockets come and go, a replica is killed with -9 in turn, then all are replaced."""

    replicas: Annotated[int, typer.Option(min=2, max=16, help="Engine processes.")] = 2
    places: Annotated[int, typer.Option(min=1, max=64, help="Concurrency slots of each.")] = 4
    sockets: Annotated[int, typer.Option(min=1, max=1000, help="Sockets that come and go.")] = 200
    seconds: Annotated[float, typer.Option(min=0.0, help="Duration of the kills.")] = 65.0
    kill_every_s: Annotated[float, typer.Option("--kill-every", min=1.0, help="Seconds between two kills.")] = 20.0
    drain_s: Annotated[float, typer.Option("--drain", min=0.0, help="Deadline of a drain.")] = 60.0
    voices: Voices = VOICES
    device: Device = "auto"
    texts: Texts = TEXTS / "latency.txt"

    @property
    def result_name(self) -> str:
        """Name in bench/results."""
        return "replicas" if self.replicas == 2 else f"replicas-{self.replicas}"
