"""Throughput without a model: the server's CPU time per frame, and the speed of ``studio measure``.

A real session serves an utterance with prepared events to a client that accepts everything at once. Each packet
releases the events of the next frame, so that the time between two packets is the server's.
"""

import asyncio
import gc
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from starlette.types import Message
from starlette.websockets import WebSocket

from studio.bench.settings import MeasuringSetting, WireSetting
from studio.core import events as ev
from studio.core.cards import Card, read_cards
from studio.core.clips import write_wav
from studio.core.errors import BadFile, StudioError
from studio.core.ports import Engine, SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, write_tiers
from studio.inspection.batch import measure
from studio.measure.latency import percentiles
from studio.measure.report import bar, print_table
from studio.serve.live.socket import SpeakSession
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

TARGET_MS = 0.03  # target of the mean
_WORD_FRAMES = 12  # a word of read speech
_CHANNELS = 80
_LIMIT_S = 0.02  # time-out per frame, 100 times the usual time
_PAUSES_S = (0.2, 0.4, 0.8)
_WORD_S = 0.3


def bench_wire(setting: WireSetting) -> dict[str, Any]:
    """Milliseconds per frame, in blocks of frames: wall time, and CPU time of the socket's thread.

    Wall time includes the trace writer's threads and other programs. ``process_ms`` is the CPU time of all threads.
    """
    card = next(iter(read_cards(setting.voices).values()))[0]
    blocks = max(1, setting.frames // setting.block)
    chunks = (setting.warm + blocks * setting.block) // setting.chunk
    frames = chunks * setting.chunk
    utterance = _Prepared(card, chunks, setting.chunk)
    client = _Client(utterance.go_on, setting)
    with tempfile.TemporaryDirectory() as folder, _nothing_collected():
        began_s = time.process_time()
        asyncio.run(_serve(_Prepares(utterance), client, Path(folder), 30.0 + _LIMIT_S * frames))
        process_s = time.process_time() - began_s
    clock_ms, cpu_ms = 1000.0 * np.diff(client.moments_s, axis=0).T / setting.block
    return {
        "frames": blocks * setting.block,
        "block": setting.block,
        "clock_ms": percentiles([*clock_ms]) | {"mean": float(clock_ms.mean())},
        "cpu_ms": percentiles([*cpu_ms]) | {"mean": float(cpu_ms.mean())},
        "process_ms": 1000.0 * process_s / frames,
        "target_ms": TARGET_MS,
    }


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Exclude existing objects from garbage collection, as the server does (``studio.serve.server``)."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _serve(engine: "_Prepares", client: "_Client", folder: Path, limit_s: float) -> None:
    settings = ServeSettings(traces_folder=folder / "traces")
    trace_store = TraceStore(settings.traces_folder, settings.max_traces, settings.max_traces_bytes)
    scope = {"type": "websocket", "path": "/ws/speak", "headers": [], "client": ("127.0.0.1", 1)}
    session = SpeakSession(WebSocket(scope, client.receive, client.send), cast(Engine, engine), trace_store, settings)
    serving = asyncio.create_task(session.run())
    await asyncio.wait((serving,), timeout=limit_s)
    if not serving.done():  # remaining tasks end with the loop
        raise TimeoutError(f"the server did not finish within {limit_s:g} s; its log says why")
    serving.result()


class _Client:
    """The client: opens one utterance, accepts everything at once, and closes at the end.

    Attributes:
        moments_s: wall and CPU time of the socket's thread before each block of frames and after the last.
    """

    def __init__(self, on_packet: Callable[[], None], setting: WireSetting) -> None:
        self.moments_s: list[tuple[float, float]] = []
        self._on_packet, self._setting, self._packets = on_packet, setting, 0
        self._over = asyncio.Event()
        opened = {"type": "open", "utterance": 1, "source": "keyboard"}  # as the page does
        self._says: list[Message] = [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": json.dumps(opened)},
        ]

    async def receive(self) -> Message:
        """The client's next message (ASGI)."""
        if self._says:
            return self._says.pop(0)
        await self._over.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: Message) -> None:
        """Receive a message of the server (ASGI)."""
        if message.get("bytes") is not None:
            self._packets += 1
            timed = self._packets * self._setting.chunk - self._setting.warm
            if timed >= 0 and timed % self._setting.block < self._setting.chunk:
                self.moments_s.append((time.perf_counter(), time.thread_time()))
            self._on_packet()
        elif '"type":"trace"' in message.get("text", ""):
            self._over.set()


class _Prepared:
    """An utterance with prepared events, released a chunk at a time; only the used part of the port."""

    def __init__(self, card: Card, chunks: int, chunk: int) -> None:
        self.id, self.card, self.provenance = 0, card, dict[str, Any]()
        self._steps: list[Sequence[ev.Event]] = _step_events(card, chunks, chunk)[::-1]  # the next one is the last
        self._news: Callable[[], None] = lambda: None

    def go_on(self) -> None:
        """Release the next chunk."""
        self._news()

    def set_listener(self, callback: Callable[[], None]) -> None:
        """See ``studio.core.ports.Utterance``."""
        self._news = callback
        callback()

    def poll_events(self, limit: int | None = None) -> Sequence[ev.Event]:
        """See ``studio.core.ports.Utterance``; all events of a step at once."""
        return self._steps.pop() if self._steps else []

    def add_event(self, event: ev.Event) -> None:
        """Ignore waits that other programs caused."""

    def cancel(self, played_sample: int = 0) -> None:
        """See ``studio.core.ports.Utterance``."""
        self._steps = [[ev.Failed(code="bench", message="the socket closed too early")]]
        self._news()


class _Prepares:
    """An engine of one utterance; only the used part of the port."""

    def __init__(self, utterance: _Prepared) -> None:
        self._utterance = utterance

    def cards(self) -> Sequence[Card]:
        """See ``studio.core.ports.Engine``."""
        return (self._utterance.card,)

    def open(self, request: SpeakRequest) -> _Prepared:
        """See ``studio.core.ports.Engine``."""
        return self._utterance

    def is_loaded(self, voice: str) -> bool:
        """See ``studio.core.ports.Engine``."""
        return True


def _step_events(card: Card, chunks: int, chunk: int) -> list[Sequence[ev.Event]]:
    """Events of each of ``chunks`` steps: sound with its frames, and each word's position and segment."""
    size, rate_hz, word_chunks = card.frame_samples, card.sample_rate_hz, -(-_WORD_FRAMES // chunk)
    pcm, levels = np.zeros(size * chunk, np.int16), np.zeros((chunk, _CHANNELS), np.uint8)
    about: dict[str, Any] = {
        "voice": card.name,
        "speaker": card.speakers_default_first[0],
        "family": card.family,
        "seed": 0,
    }
    ready = ev.Ready(utterance=0, rate_hz=rate_hz, frame_samples=size, **about)
    steps: list[Sequence[ev.Event]] = []
    for number in range(chunks):
        k, (i, part) = number * chunk, divmod(number, word_chunks)
        t_ms, sample = 1000.0 * k * size / rate_hz, k * size
        step: list[ev.Event] = [
            ev.Audio(t_ms=t_ms, sample=sample, pcm=pcm),
            ev.Frames(t_ms=t_ms, first_frame=k, p_eos=[0.25] * chunk, levels=levels),
        ]
        if part == 0:
            step[:0] = [
                ev.Committed(t_ms=t_ms, i=i, word="kettle", written=i, char_start=7 * i, char_end=7 * i + 6),
                ev.Segment(t_ms=t_ms, index=i, words=[i], seen=[i, i + 1, i + 2], sample=sample, frame=k),
                ev.WordStart(t_ms=t_ms, i=i, sample=sample, source="eos"),
            ]
        if part == word_chunks - 1:
            step.append(ev.Eos(t_ms=t_ms, segment=i, frame=k + chunk, p=0.75, forced=False))
            step.append(ev.WordEnd(t_ms=t_ms, i=i, sample=sample + len(pcm), source="eos"))
        steps.append(step)
    steps[0] = [ready, *steps[0]]
    return [*steps, [ev.Ended(samples=chunks * len(pcm))]]


def show_wire(out: Mapping[str, Any]) -> None:
    points = ("p50", "iqr", "p95", "mean")
    rows = [
        ["wall time", *(f"{out['clock_ms'][point]:.4f}" for point in points)],
        ["CPU of the socket's thread", *(f"{out['cpu_ms'][point]:.4f}" for point in points)],
        ["CPU of all threads, trace included", None, None, None, f"{out['process_ms']:.4f}"],
    ]
    title = f"Server time between the engine's event and the socket, {out['frames']:,} frames, ms a frame"
    columns = (f"in blocks of {out['block']}", "p50", "IQR", "p95", "mean")
    print_table(title, columns, rows, f"target: {out['target_ms']:g} ms; the client accepts everything at once")


def bench_measure(setting: MeasuringSetting) -> dict[str, Any]:
    """Create clips and measure them once; the time includes starting the processes.

    Each clip is one recording, or two with a pause between them, at a random level; half of them have a TextGrid, so
    that words are measured as well. The clips are on disk before the clock starts.

    Raises:
        BadFile: the folder has no sounds.
        NeedsPackage: pyworld for the pitch is not installed.
        StudioError: a clip could not be measured.
    """
    sounds = _sounds(setting.sounds)
    with tempfile.TemporaryDirectory() as scratch:
        draw = random.Random(setting.seed)
        clips = bar(range(setting.clips), "making clips", setting.quiet)
        audio_s = sum(_write(Path(scratch), number, sounds, draw) for number in clips)
        began_s = time.perf_counter()
        measurements = measure([scratch], with_pitch=setting.with_pitch, workers=setting.workers)
        wall_s = time.perf_counter() - began_s
    if measurements.problems:
        raise StudioError(f"{len(measurements.problems)} clips were not measured", measurements.problems[0])
    out: dict[str, Any] = {
        "sounds": setting.sounds.name,
        "clips": len(measurements.utterances),
        "words": len(measurements.words),
        "workers": setting.workers,
        "pitch": setting.with_pitch,
        "audio_s": audio_s,
        "wall_s": wall_s,
        "x_real_time": audio_s / wall_s,
    }
    return out


def _sounds(folder: Path) -> list[tuple[np.ndarray, int]]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".wav", ".flac"))
    if not paths:
        raise BadFile(f"there are no WAV or FLAC files in {folder}", "give a folder of recordings with --sounds")
    return [read_mono(path) for path in paths]


def _write(folder: Path, number: int, sounds: Sequence[tuple[np.ndarray, int]], draw: random.Random) -> float:
    """Write a clip with its text and, for every second one, a TextGrid; return its length in seconds."""
    pcm, rate_hz = draw.choice(sounds)
    alike = [one for one, rate in sounds if rate == rate_hz]
    if draw.random() < 0.5:
        pause = np.zeros(round(draw.choice(_PAUSES_S) * rate_hz), np.int16)
        pcm = np.concatenate([pcm, pause, draw.choice(alike)])
    pcm = np.rint(pcm * draw.uniform(0.3, 1.0)).astype(np.int16)
    length_s = len(pcm) / rate_hz
    words = [f"word{k}" for k in range(max(1, int(length_s / _WORD_S)))]
    path = folder / f"{number:05}.wav"
    write_wav(path, pcm, rate_hz)
    path.with_suffix(".txt").write_text(" ".join(words), encoding="utf-8")
    if number % 2:
        step_s = length_s / len(words)
        spans = [TextGridEntry(k * step_s, (k + 1) * step_s, word) for k, word in enumerate(words)]
        path.with_suffix(".TextGrid").write_text(write_tiers([TextGridTier("words", False, spans)], length_s), "utf-8")
    return length_s


def show_measure(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        ["sound, s", round(out["audio_s"], 1)],
        ["time, s", round(out["wall_s"], 1)],
        ["times real time", round(out["x_real_time"], 1)],
    ]
    with_pitch = "with pitch" if out["pitch"] else "without pitch"
    title = f"{out['clips']:,} clips measured by {out['workers']} processes, {with_pitch}, {out['words']:,} words"
    print_table(title, ("", ""), rows)
