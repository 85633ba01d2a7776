"""Traces: everything that happened to one utterance, written live as a folder and closed into one zip.

A trace holds meta.json (provenance), events.jsonl, audio.wav and layers.npz (frames uint8 [T, C] and
p_eos float32 [T]; of a recording that was sent through a model also what ``Trace.layers`` says). While it is
written, and after a crash, it is a folder where the layers are the raw files frames.u8 and p_eos.f32.
``open_trace`` reads both.
"""

import contextlib
import json
import shutil
import threading
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO

import numpy as np

from studio.core import events as ev
from studio.core.clips import WAV_HEADER_BYTES, wav_header
from studio.core.errors import BadFile
from studio.core.ports import SpeakRequest
from studio.core.traces.in_force import Revisions
from studio.core.traces.tracefile import layers_of, read_trace

HEARD_WAITS: tuple[ev.WaitReason, ...] = ("text", "compute", "network")
MAX_SILENCE_S = 3600.0
# What ``meta`` says of how an utterance was spoken, and of which types.
_NOT_SPOKEN = ("recording", "forced", "overlapped")  # sources; others say where the text of a spoken one came from
_SPOKEN_BY: Mapping[str, tuple[type, ...]] = {
    "voice": (str,),
    "speaker": (str,),
    "seed": (int,),
    "temperature": (float, int, NoneType),
    "options": (dict,),
}
_as_json = json.JSONEncoder(ensure_ascii=False).encode  # one encoder: dumps would make one for each event


@dataclass(frozen=True)
class TraceWord:
    """One spoken word; ``start`` and ``end`` are samples, None while it has not been spoken."""

    i: int
    text: str
    written: int
    char_start: int
    char_end: int
    start: int | None = None
    end: int | None = None
    source: str = ""


@dataclass(frozen=True)
class TraceSegment:
    """One segment: it speaks ``words``, was fed ``seen``, and owns samples [start, end)."""

    index: int
    words: tuple[int, ...]
    seen: tuple[int, ...]
    frame: int
    start: int
    end: int
    p_eos: float | None = None
    forced: bool = False


@dataclass
class Trace:
    """An utterance as it went: what is in force at its end, and every event that led there.

    Attributes:
        meta: provenance, and ``rate_hz``.
        events: every event in order. In a trace read from a file, audio events hold the samples in force at the end,
            and frames events their p_eos only (the levels are in ``frames``).
        pcm: int16 [T], without waits.
        frames: uint8 [F, C], empty where the family has no such layer.
        p_eos: float32 [F].
        layers: further ones, where the utterance has them: log_likelihood float32 [F]; attention float16 [F, K], shares
            on words attention_word int32 [F] and after it (``studio.core.traces.forced.Attended``).
    """

    meta: dict[str, Any]
    events: list[ev.Event]
    pcm: np.ndarray
    frames: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    p_eos: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    layers: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    @property
    def request(self) -> SpeakRequest:
        """How to speak it again: with the sources, files, device and threads of ``meta``, the same samples.

        Raises:
            BadFile: the trace does not say, or nobody spoke it.
        """
        if self.meta.get("source") == "forced":
            raise BadFile("this is a recording that was sent through a model", "nothing of it was spoken by a voice")
        if self.meta.get("source") == "overlapped":
            raise BadFile("its frames were vocoded anew, a segment at a time", "replay the trace that it was made from")
        if not all(type(self.meta.get(name, ())) in kinds for name, kinds in _SPOKEN_BY.items()):
            raise BadFile("the trace does not say how it was spoken", "it is older than this program, or damaged")
        voice, speaker, seed, temperature, options = (self.meta[name] for name in _SPOKEN_BY)
        return SpeakRequest(f"{voice}:{speaker}", seed, temperature, options)

    @property
    def is_spoken(self) -> bool:
        """Whether a voice spoke it as it is heard: it is no recording, and not made from another trace."""
        return self.meta.get("source") not in _NOT_SPOKEN

    @property
    def rate_hz(self) -> int:
        """Sampling rate of the voice."""
        return int(self.meta["rate_hz"])

    def words(self) -> list[TraceWord]:
        """Every committed word in order, with its samples where it has been spoken."""
        words: dict[int, dict[str, Any]] = {}
        spans: dict[int, dict[str, Any]] = {}
        later = Revisions(self.events)
        for k, event in enumerate(self.events):
            match event:
                case ev.Committed(i=i, word=text, written=written, char_start=first, char_end=last):
                    if i < later.words[k]:
                        words[i] = {"text": text, "written": written, "char_start": first, "char_end": last}
                case ev.WordStart(i=i, sample=sample, source=source):
                    spans.pop(i, None)
                    if sample < later.samples[k]:
                        spans[i] = {"start": sample, "source": source}
                case ev.WordEnd(i=i, sample=sample, source=source):
                    if i in spans or later.is_last(k):
                        span = spans.setdefault(i, {})
                        span.pop("end", None)
                        span |= {"source": source} if sample > later.samples[k] else {"source": source, "end": sample}
                case _:
                    pass
        return [TraceWord(i=i, **words[i], **spans.get(i, {})) for i in sorted(words)]

    def segments(self) -> list[TraceSegment]:
        """Segments in order; each ends where the next begins, the last with the audio."""
        found: list[ev.Segment] = []
        ends: dict[int, ev.Eos] = {}
        later = Revisions(self.events)
        for k, event in enumerate(self.events):
            if isinstance(event, ev.Segment):
                ends.pop(event.index, None)
                if event.sample < later.samples[k]:
                    found.append(event)
            elif isinstance(event, ev.Eos):
                ends[event.segment] = event
        starts = [one.sample for one in found] + [len(self.pcm)]
        out: list[TraceSegment] = []
        for one, end in zip(found, starts[1:], strict=True):
            eos = ends.get(one.index)
            mark = (eos.p, eos.forced) if eos else (None, False)
            span = (one.frame, one.sample, end)
            out.append(TraceSegment(one.index, tuple(one.words), tuple(one.seen), *span, *mark))
        return out

    def waits(self) -> list[ev.Wait]:
        """Every pause in the output, in order, whatever its reason."""
        return [event for event in self.events if isinstance(event, ev.Wait)]

    def waits_in_force(self) -> list[ev.Wait]:
        """Pauses by sample; one in sound that was taken back lies where that began, for it was waited all the same."""
        later = Revisions(self.events)
        found = [
            event if event.sample <= later.samples[k] else replace(event, sample=later.samples[k])
            for k, event in enumerate(self.events)
            if isinstance(event, ev.Wait) and event.duration_ms > 0
        ]
        return sorted(found, key=lambda one: one.sample)

    def heard_waits(self) -> list[tuple[int, int]]:
        """(sample, samples of silence) for every pause that a listener hears, in order.

        An engine counts a wait from the moment when someone who listens from the first sample on has heard everything,
        so its length is what was heard; a wait for credit is the listener's own and never heard.
        """
        return [
            (max(0, one.sample), round(one.duration_ms * self.rate_hz / 1000.0))
            for one in self.waits_in_force()
            if one.reason in HEARD_WAITS
        ]

    def as_heard(self) -> np.ndarray:
        """int16 PCM with the pauses that a listener heard put back as silence. Raises BadFile past an hour of them."""
        waits = self.heard_waits()
        if sum(samples for _, samples in waits) > MAX_SILENCE_S * self.rate_hz:
            raise BadFile("the pauses of this trace are longer than an hour", "take its audio without them")
        pieces: list[np.ndarray] = []
        at = 0
        for sample, silence in waits:
            pieces += [self.pcm[at:sample], np.zeros(silence, np.int16)]
            at = max(at, sample)
        return np.concatenate([*pieces, self.pcm[at:]])


def open_trace(path: str | Path, name: str = "") -> Trace:
    """Read a ``.trace`` zip, or the folder that is being written or that a crash left.

    Args:
        name: what messages call it; the file's name without its folder where empty.

    Raises:
        BadFile: it is absent, damaged, not a trace, or larger than a trace may be.
    """
    return Trace(*read_trace(Path(path), name=name))


def collect(meta: Mapping[str, Any], events: Iterable[ev.Event]) -> Trace:
    """A trace in memory from an utterance's events; ``rate_hz`` and the like come from its ``ready``."""
    trace = Trace(dict(meta), [], np.zeros(0, np.int16))
    pcm, levels, p_eos = bytearray(), bytearray(), bytearray()
    channels = 0
    for event in events:
        trace.events.append(event)
        if isinstance(event, ev.Ready):
            trace.meta = meta_of(event) | trace.meta
        elif isinstance(event, ev.Audio):
            pcm[2 * event.sample :] = event.pcm.astype("<i2").tobytes()
        elif isinstance(event, ev.Frames):
            channels = event.levels.shape[1]
            levels[event.first_frame * channels :] = event.levels.astype(np.uint8).tobytes()
            p_eos[4 * event.first_frame :] = np.asarray(event.p_eos, "<f4").tobytes()
        elif isinstance(event, ev.Revised):
            del pcm[2 * event.from_sample :]
            frames = event.from_sample // trace.meta["frame_samples"]
            del levels[frames * channels :], p_eos[4 * frames :]
    trace.pcm = np.frombuffer(bytes(pcm), "<i2").astype(np.int16)
    trace.frames, trace.p_eos = layers_of(bytes(levels), bytes(p_eos), channels)
    return trace


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace that is whole into ``path``, a ``.trace``. Raises BadFile where its folder is in the way."""
    writer = TraceWriter(path.with_suffix(""), trace.meta)
    try:
        writer.write(*trace.events)
        writer.close(trace.layers)
    except BaseException:
        writer.drop()
        raise


def meta_of(ready: ev.Ready) -> dict[str, Any]:
    """What an utterance's first event says about it, as a trace's meta keeps it."""
    out = ready.to_dict()
    return {key: value for key, value in out.items() if key not in ("type", "t_ms")}


class TraceWriter:
    """Writes a trace live into a folder; ``write`` may be called from any thread.

    Args:
        folder: made here; must not hold a trace yet.
        meta: provenance; the voice, rate and frame length of the ``ready`` event are added to it.

    Raises:
        BadFile: the folder already holds something.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadFile(f"the folder {folder} is not empty", "a trace needs a folder of its own")
        self.folder = folder
        self.bytes_written = 0  # about: what was revised away counts, too
        self._meta = dict(meta)
        self._lock = threading.Lock()
        self._closed = False
        self._audio = (folder / "audio.wav").open("w+b", buffering=0)
        self._levels = (folder / "frames.u8").open("w+b", buffering=0)
        self._p_eos = (folder / "p_eos.f32").open("w+b", buffering=0)
        self._events = (folder / "events.jsonl").open("w", encoding="utf-8", buffering=1)
        self._gathered: dict[BinaryIO, tuple[int, bytearray]] = {}  # bytes of a batch, and where they begin
        self._write_meta()

    def write(self, *events: ev.Event) -> None:
        """Add events; what was closed takes no more, silently, as a late ``played`` may come after the end."""
        lines = [_as_json(event.to_dict()) for event in events]
        with self._lock:
            if self._closed:
                return
            for event, line in zip(events, lines, strict=True):
                self._put_layers(event)
                self.bytes_written += len(line) + _layer_bytes(event)
            self._put_gathered()
            self._events.write("".join(f"{line}\n" for line in lines))
            self._write_wav_header()

    def _put_layers(self, event: ev.Event) -> None:
        if isinstance(event, ev.Ready):
            self._meta = meta_of(event) | self._meta
            self._write_meta()
        elif isinstance(event, ev.Audio):
            self._gather(
                self._audio, WAV_HEADER_BYTES + 2 * event.sample, event.pcm.astype("<i2", copy=False).tobytes()
            )
        elif isinstance(event, ev.Frames):
            self._set_channels(event.levels.shape[1])
            levels = event.levels.astype(np.uint8, copy=False)
            self._gather(self._levels, event.first_frame * levels.shape[1], levels.tobytes())
            self._gather(self._p_eos, 4 * event.first_frame, np.asarray(event.p_eos, "<f4").tobytes())
        elif isinstance(event, ev.Revised):
            self._put_gathered()
            self._audio.truncate(WAV_HEADER_BYTES + 2 * event.from_sample)
            frames = event.from_sample // self._meta["frame_samples"]
            self._levels.truncate(frames * self._meta.get("channels", 0))
            self._p_eos.truncate(4 * frames)

    def _gather(self, file: BinaryIO, at: int, data: bytes) -> None:
        """Keep what goes into a file, in one piece where it follows what is kept already."""
        first, kept = self._gathered.get(file, (at, bytearray()))
        if first + len(kept) != at:
            _put(file, first, kept)
            first, kept = at, bytearray()
        kept += data
        self._gathered[file] = first, kept

    def _put_gathered(self) -> None:
        for file, (at, data) in self._gathered.items():
            _put(file, at, data)
        self._gathered.clear()

    def drop(self) -> None:
        """Close the files and remove them: nothing of this trace is kept."""
        with self._lock:
            self._closed = True
            for file in (self._audio, self._levels, self._p_eos, self._events):
                with contextlib.suppress(OSError):  # what could not be written before cannot be now
                    file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self, layers: Mapping[str, np.ndarray] | None = None) -> Path:
        """Make ``<folder>.trace``, remove the folder, and return the path of the trace.

        Args:
            layers: further ones, see ``Trace``.
        """
        target = self.folder.with_name(self.folder.name + ".trace")
        with self._lock:
            if self._closed:
                return target
            self._closed = True
            for file in (self._audio, self._levels, self._p_eos, self._events):
                file.close()
        raw = [(self.folder / name).read_bytes() for name in ("frames.u8", "p_eos.f32")]
        frames, p_eos = layers_of(raw[0], raw[1], self._meta.get("channels", 0))
        arrays: dict[str, Any] = {"frames": frames, "p_eos": p_eos, **(layers or {})}
        np.savez_compressed(self.folder / "layers.npz", **arrays)
        part = target.with_name(target.name + ".part")
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                for name in ("meta.json", "events.jsonl", "audio.wav"):
                    archive.write(self.folder / name, name)
                archive.write(self.folder / "layers.npz", "layers.npz", zipfile.ZIP_STORED)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        shutil.rmtree(self.folder)
        return target

    def _set_channels(self, channels: int) -> None:
        if self._meta.get("channels") != channels:
            self._meta["channels"] = channels
            self._write_meta()

    def _write_meta(self) -> None:
        text = json.dumps(self._meta, indent=1, ensure_ascii=False)
        (self.folder / "meta.json").write_text(text + "\n", encoding="utf-8")
        self._write_wav_header()

    def _write_wav_header(self) -> None:
        """Keep the header true after every packet, so that a crash leaves a WAV that any player opens."""
        samples = max(0, (self._audio.seek(0, 2) - WAV_HEADER_BYTES) // 2)
        self._audio.seek(0)
        self._audio.write(wav_header(int(self._meta.get("rate_hz", 24000)), samples))


def _layer_bytes(event: ev.Event) -> int:
    """What an event takes beside its line."""
    if isinstance(event, ev.Audio):
        return 2 * len(event.pcm)
    return event.levels.size + 4 * len(event.p_eos) if isinstance(event, ev.Frames) else 0


def _put(file: BinaryIO, at: int, data: bytes | bytearray) -> None:
    """Write at a place and forget what stood after it (a revised take begins there)."""
    file.seek(at)
    file.write(data)
    file.truncate()
