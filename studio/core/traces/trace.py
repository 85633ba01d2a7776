"""Traces: everything that happened to one utterance, as ``trace_writer`` writes it, live, and closes into one zip.

A trace holds meta.json (provenance), events.jsonl, audio.wav and layers.npz (frames uint8 [T, C] and
p_eos float32 [T]; of a recording that was sent through a model also what ``Trace.layers`` says). While it is
written, and after a crash, it is a folder where the layers are the raw files frames.u8 and p_eos.f32.
``open_trace`` reads both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import SpeakRequest
from studio.core.traces.in_force import Revisions
from studio.core.traces.trace_reader import layers_of, read_trace

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


def meta_of(ready: ev.Ready) -> dict[str, Any]:
    """What an utterance's first event says about it, as a trace's meta keeps it."""
    out = ready.to_dict()
    return {key: value for key, value in out.items() if key not in ("type", "t_ms")}
