"""Traces: the events, sound and acoustic frames of one utterance.

A trace is a zip of meta.json (provenance), events.jsonl, audio.wav and layers.npz (frames uint8 [T, C], p_eos
float32 [T], and the arrays of ``Trace.layers``). While it is written, and after a crash, it is a folder with the raw
files frames.u8 and p_eos.f32 in place of layers.npz. ``open_trace`` reads both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import SpeakRequest
from studio.core.traces.trace_reader import decode_layers, read_trace

AUDIBLE_WAITS: tuple[ev.WaitReason, ...] = ("text", "compute", "network")
MAX_SILENCE_S = 3600.0
OVERLAPPED = "overlapped"  # ``source`` of a trace whose frames were vocoded again
_NOT_SPOKEN = ("recording", "forced", OVERLAPPED)  # values of ``source``; others are the origin of the text
# Keys of ``meta`` that repeat a request, and their types.
_REQUEST_KEYS: Mapping[str, tuple[type, ...]] = {
    "voice": (str,),
    "speaker": (str,),
    "seed": (int,),
    "temperature": (float, int, NoneType),
    "options": (dict,),
}
_NEVER = 2**63  # beyond every sample and every word


@dataclass(frozen=True)
class TraceWord:
    """One word; ``start`` and ``end`` are samples, None until it was spoken."""

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
    """One segment: it speaks ``words``, was fed ``seen``, and covers samples [start, end)."""

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
    """An utterance after all of its revisions, with every event in order.

    Attributes:
        meta: provenance, and ``rate_hz``.
        events: in a trace read from a file, audio events hold the final samples, and frames events only p_eos (the
            levels are in ``frames``).
        pcm: int16 [T], without waits.
        frames: uint8 [F, C], empty for families without.
        p_eos: float32 [F].
        layers: optional arrays: log_likelihood float32 [F]; attention float16 [F, K], shares on words attention_word
            int32 [F] and after it (``studio.core.traces.teacher_forcing.TeacherForcingResult``).
    """

    meta: dict[str, Any]
    events: list[ev.Event]
    pcm: np.ndarray
    frames: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    p_eos: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    layers: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    @property
    def request(self) -> SpeakRequest:
        """The request that repeats the utterance, with equal samples on the same software, files, device and threads.

        Raises:
            BadFile: the trace does not record it, or was not spoken by a voice.
        """
        if self.meta.get("source") == "forced":
            raise BadFile("this is a recording that was sent through a model", "nothing of it was spoken by a voice")
        if self.meta.get("source") == OVERLAPPED:
            raise BadFile("its frames were vocoded again, a segment at a time", "replay the original trace")
        if not all(type(self.meta.get(name, ())) in types for name, types in _REQUEST_KEYS.items()):
            raise BadFile("the trace does not say how it was spoken", "it is older than this program, or damaged")
        voice, speaker, seed, temperature, options = (self.meta[name] for name in _REQUEST_KEYS)
        return SpeakRequest(f"{voice}:{speaker}", seed, temperature, options)

    @property
    def is_spoken(self) -> bool:
        """Whether a voice spoke this sound: it is not a recording, and was not made from another trace."""
        return self.meta.get("source") not in _NOT_SPOKEN

    @property
    def rate_hz(self) -> int:
        return int(self.meta["rate_hz"])

    def words(self) -> list[TraceWord]:
        """Committed words in order, with their samples where they were spoken."""
        words: dict[int, dict[str, Any]] = {}
        spans: dict[int, dict[str, Any]] = {}
        later = LaterRevisions(self.events)
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
        segments: list[ev.Segment] = []
        ends: dict[int, ev.Eos] = {}
        later = LaterRevisions(self.events)
        for k, event in enumerate(self.events):
            if isinstance(event, ev.Segment):
                ends.pop(event.index, None)
                if event.sample < later.samples[k]:
                    segments.append(event)
            elif isinstance(event, ev.Eos):
                ends[event.segment] = event
        starts = [one.sample for one in segments] + [len(self.pcm)]
        out: list[TraceSegment] = []
        for one, end in zip(segments, starts[1:], strict=True):
            eos = ends.get(one.index)
            mark = (eos.p, eos.forced) if eos else (None, False)
            span = (one.frame, one.sample, end)
            out.append(TraceSegment(one.index, tuple(one.words), tuple(one.seen), *span, *mark))
        return out

    def waits(self) -> list[ev.Wait]:
        """All pauses in the output, in order."""
        return [event for event in self.events if isinstance(event, ev.Wait)]

    def effective_waits(self) -> list[ev.Wait]:
        """Pauses by sample; one within sound that was taken back is moved to where the revision begins."""
        later = LaterRevisions(self.events)
        waits = [
            event if event.sample <= later.samples[k] else replace(event, sample=later.samples[k])
            for k, event in enumerate(self.events)
            if isinstance(event, ev.Wait) and event.duration_ms > 0
        ]
        return sorted(waits, key=lambda one: one.sample)

    def audible_waits(self) -> list[tuple[int, int]]:
        """(sample, samples of silence) of every audible pause, in order.

        A wait begins when a listener who plays from the first sample on has played everything, so its length is the
        audible silence; waits for credit are caused by the listener and not audible.
        """
        return [
            (max(0, one.sample), round(one.duration_ms * self.rate_hz / 1000.0))
            for one in self.effective_waits()
            if one.reason in AUDIBLE_WAITS
        ]

    def pcm_with_waits(self) -> np.ndarray:
        """int16 PCM with the audible pauses as silence. Raises BadFile if they exceed an hour."""
        waits = self.audible_waits()
        if sum(samples for _, samples in waits) > MAX_SILENCE_S * self.rate_hz:
            raise BadFile("the pauses of this trace are longer than an hour", "take its audio without them")
        pieces: list[np.ndarray] = []
        at = 0
        for sample, silence in waits:
            pieces += [self.pcm[at:sample], np.zeros(silence, np.int16)]
            at = max(at, sample)
        return np.concatenate([*pieces, self.pcm[at:]])


def open_trace(path: str | Path, name: str = "") -> Trace:
    """Read a ``.trace`` zip, or the folder of an unfinished trace.

    Args:
        name: name in messages; by default the file's name.

    Raises:
        BadFile: it is absent, damaged, not a trace, or too large.
    """
    return Trace(*read_trace(Path(path), name=name))


def collect_trace(meta: Mapping[str, Any], events: Iterable[ev.Event]) -> Trace:
    """Build a trace from an utterance's events; its ``ready`` event completes ``meta``."""
    trace = Trace(dict(meta), [], np.zeros(0, np.int16))
    pcm, levels, p_eos = bytearray(), bytearray(), bytearray()
    channels = 0
    for event in events:
        trace.events.append(event)
        if isinstance(event, ev.Ready):
            trace.meta = ready_meta(event) | trace.meta
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
    trace.frames, trace.p_eos = decode_layers(bytes(levels), bytes(p_eos), channels)
    return trace


def ready_meta(ready: ev.Ready) -> dict[str, Any]:
    """The fields of a ``ready`` event for a trace's ``meta``."""
    out = ready.to_dict()
    return {key: value for key, value in out.items() if key not in ("type", "t_ms")}


class LaterRevisions:
    """For each event k, how far back later revisions reach; samples and words before that are final.

    Attributes:
        samples: the first sample that was revised after event k; beyond every sample if none was.
        words: the number of words that were not revised after event k.
    """

    def __init__(self, events: Sequence[ev.Event]) -> None:
        self.samples, self.words = [_NEVER] * len(events), [_NEVER] * len(events)
        sample = word = _NEVER
        for k in range(len(events) - 1, -1, -1):
            self.samples[k], self.words[k] = sample, word
            event = events[k]
            if isinstance(event, ev.Revised):
                sample, word = min(sample, event.from_sample), min(word, event.words)

    def is_last(self, k: int) -> bool:
        """Whether no revision follows event k."""
        return self.samples[k] == _NEVER


class SentText:
    """The text as sent, built from ``text`` events without copying earlier text.

    Attributes:
        chars: its length.
    """

    def __init__(self) -> None:
        self.chars = 0
        self._pieces: list[tuple[int, str]] = []  # (start, text); each ends where the next begins

    def put(self, char_start: int, text: str) -> None:
        """Replace the text from a character on."""
        at = min(max(char_start, 0), self.chars)
        while self._pieces and self._pieces[-1][0] >= at:
            self._pieces.pop()
        self._pieces.append((at, text))
        self.chars = at + len(text)

    def __str__(self) -> str:
        ends = (at for at, _ in (*self._pieces[1:], (self.chars, "")))
        return "".join(text[: end - at] for (at, text), end in zip(self._pieces, ends, strict=False))


def sent_text(events: Iterable[ev.Event]) -> str:
    """The final text of an utterance."""
    text = SentText()
    for event in events:
        if isinstance(event, ev.TextReceived):
            text.put(event.char_start, event.text)
    return str(text)
