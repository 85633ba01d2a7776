"""Compare utterances of one text: words, a common time axis, and differences."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studio.core.checks import to_printable
from studio.core.errors import BadOption
from studio.core.events import TextReceived
from studio.core.traces.trace import Trace
from studio.inspection.comparison.common_axis import (
    HIGH_HZ,
    TimeMap,
    columns_s,
    match_words,
    on_axis,
    stretched,
    unstretched,
)
from studio.inspection.facts import facts, median
from studio.inspection.textgrid import word_spans
from studio.inspection.timeline import Timeline, timeline
from studio.measure.prosody import Prosody
from studio.measure.word_timing import SpokenSpan

MAX_UTTERANCES = 8  # the keys 1 to 8 select them
MIN_SHARED_WORDS = 0.5  # of the shorter text; with fewer, the texts count as different
_LEAST_WORDS = 3  # for a correlation


@dataclass(frozen=True)
class ComparedUtterance:
    """One utterance of a comparison."""

    name: str  # its label
    trace: Trace
    line: Timeline
    words: tuple[SpokenSpan, ...]  # words with known times, in the time of its sound
    texts: tuple[str, ...]  # all of its words

    @property
    def length_s(self) -> float:
        return len(self.trace.pcm) / self.trace.rate_hz

    @property
    def is_timed(self) -> bool:
        """Whether its words have times."""
        return bool(self.words)


@dataclass(frozen=True)
class ComparedWord:
    """A word in one utterance.

    Attributes:
        place: index among its timed words.
        known_to_heard_ms: lag from known to played; None for a recording.
        pitch_hz, level_db: median of the voiced part, and RMS in dB of full scale; None where unvoiced or not measured.
    """

    place: int  # a key of the JSON figures
    start_s: float
    end_s: float
    known_to_heard_ms: float | None = None
    pitch_hz: float | None = None
    level_db: float | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class PairFigures:
    """Differences of the second of two utterances from the first, over the words that both have.

    Attributes:
        duration_r: Pearson's correlation of word durations; None for fewer than three words, or without spread.
        duration_ratio: total duration of the second over that of the first.
        pitch_st, level_db: median differences over words.
        known_to_heard_ms: median difference of the lag over words.
    """

    words: int
    duration_r: float | None
    duration_ratio: float | None
    pitch_st: float | None = None
    level_db: float | None = None
    known_to_heard_ms: float | None = None


@dataclass(frozen=True)
class UtteranceComparison:
    """Utterances of one text.

    Attributes:
        reference: index of the utterance whose words are the rows: the first with word times.
        rows: for each of its timed words, the matching word of each utterance, or None.
        shares: for each, matched words over the words of the shorter text; 1 for the reference.
        own, by_word: time map of each to a common axis, without and with stretching.
    """

    utterances: tuple[ComparedUtterance, ...]
    reference: int
    rows: tuple[tuple[ComparedWord | None, ...], ...]
    shares: tuple[float, ...]
    own: tuple[TimeMap, ...]
    by_word: tuple[TimeMap, ...] = field(default=())

    @property
    def other_texts(self) -> list[int]:
        """Indices of utterances of another text."""
        return [k for k, share in enumerate(self.shares) if share < MIN_SHARED_WORDS]

    @property
    def can_stretch(self) -> bool:
        """Whether all utterances can be aligned word by word."""
        return bool(self.by_word)

    def maps(self, *, stretch: bool) -> tuple[TimeMap, ...]:
        """Time maps. Raises BadOption where stretching is impossible."""
        if stretch and not self.can_stretch:
            raise BadOption("these utterances cannot be aligned word by word", "compare them without stretch")
        return self.by_word if stretch else self.own

    def length_s(self, *, stretch: bool) -> float:
        """End of the axis."""
        return max(float(laid.axis_s[-1]) for laid in self.maps(stretch=stretch))


def compared_utterance(name: str, trace: Trace) -> ComparedUtterance:
    """Prepare an utterance. Raises BadFile where it has no timeline."""
    texts = tuple(word.text for word in trace.words())
    return ComparedUtterance(name, trace, timeline(trace), tuple(word_spans(trace)), texts)


def compare(utterances: Sequence[ComparedUtterance]) -> UtteranceComparison:
    """Compare utterances; ``with_prosody`` adds pitch and level.

    Raises BadOption: there is none, or more than eight; BadText: two long texts differ too much to be matched.
    """
    if not 1 <= len(utterances) <= MAX_UTTERANCES:
        raise BadOption(f"there are {len(utterances)} utterances to compare", f"give from 2 to {MAX_UTTERANCES}")
    reference = next((k for k, utterance in enumerate(utterances) if utterance.is_timed), 0)
    ours = utterances[reference]
    pairs = [
        match_words([word.text for word in ours.words], [word.text for word in utterance.words])
        for utterance in utterances
    ]
    lengths_s = [utterance.length_s for utterance in utterances]
    shares = tuple(_share(ours, utterance) for utterance in utterances)
    can_stretch = all(utterance.is_timed for utterance in utterances) and min(shares) >= MIN_SHARED_WORDS
    index_of = [dict(each) for each in pairs]
    words_of = [_compared_words(utterance) for utterance in utterances]
    rows = tuple(
        tuple(words_of[k][index_of[k][i]] if i in index_of[k] else None for k in range(len(utterances)))
        for i in range(len(ours.words))
    )
    # ``stretched`` requires the reference first
    order = [reference, *(k for k in range(len(utterances)) if k != reference)]
    maps = stretched([utterances[k].words for k in order], [pairs[k] for k in order], [lengths_s[k] for k in order])
    by_word = tuple(maps[order.index(k)] for k in range(len(utterances))) if can_stretch else ()
    return UtteranceComparison(tuple(utterances), reference, rows, shares, tuple(unstretched(lengths_s)), by_word)


def with_prosody(
    rows: Sequence[Sequence[ComparedWord | None]], measured: Sequence[Prosody]
) -> list[list[ComparedWord | None]]:
    """The rows with pitch and level of each word, from the prosody of each utterance."""

    def with_figures(word: ComparedWord | None, spoken: Prosody) -> ComparedWord | None:
        if word is None:
            return None
        part = spoken.within(word.start_s, word.end_s)
        return replace(word, pitch_hz=part.pitch_of(50), level_db=part.rms_db())

    return [[with_figures(word, spoken) for word, spoken in zip(row, measured, strict=True)] for row in rows]


def pair_figures(rows: Sequence[Sequence[ComparedWord | None]], one: int, other: int) -> PairFigures:
    """Differences of utterance ``other`` from ``one``."""
    both = [(row[one], row[other]) for row in rows]
    pairs = [(a, b) for a, b in both if a is not None and b is not None]
    first, second = np.array([[a.duration_s, b.duration_s] for a, b in pairs]).reshape(-1, 2).T
    has_spread = len(pairs) >= _LEAST_WORDS and first.std() > 1e-9 and second.std() > 1e-9
    return PairFigures(
        words=len(pairs),
        duration_r=float(np.corrcoef(first, second)[0, 1]) if has_spread else None,
        duration_ratio=float(second.sum() / first.sum()) if first.sum() > 0 else None,
        pitch_st=median(12.0 * float(np.log2(b.pitch_hz / a.pitch_hz)) for a, b in pairs if a.pitch_hz and b.pitch_hz),
        level_db=median(b.level_db - a.level_db for a, b in pairs if a.level_db is not None and b.level_db is not None),
        known_to_heard_ms=median(
            b.known_to_heard_ms - a.known_to_heard_ms
            for a, b in pairs
            if a.known_to_heard_ms is not None and b.known_to_heard_ms is not None
        ),
    )


def pairs_of(count: int) -> list[tuple[int, int]]:
    """All pairs of ``count`` utterances."""
    return list(itertools.combinations(range(count), 2))


def spectral_difference(comparison: UtteranceComparison, one: int, other: int, *, stretch: bool) -> np.ndarray:
    """Spectrogram of ``one`` minus that of ``other`` on the common axis, dB: float32 [bands, N], a column each 10 ms.

    Raises BadOption: there is no such utterance, or stretching is impossible.
    """
    if not all(0 <= k < len(comparison.utterances) for k in (one, other)):
        raise BadOption(f"there is no pair {one + 1} and {other + 1}", f"there are 1 to {len(comparison.utterances)}")
    at_s, maps = columns_s(comparison.length_s(stretch=stretch)), comparison.maps(stretch=stretch)
    pair = [comparison.utterances[k].trace for k in (one, other)]
    high_hz = min(HIGH_HZ, *(trace.rate_hz / 2.0 for trace in pair))  # present in both
    ours, theirs = (
        on_axis(trace.pcm, trace.rate_hz, maps[k], at_s, high_hz) for k, trace in zip((one, other), pair, strict=True)
    )
    return ours - theirs  # NaN where either has no sound


def clock_figures(utterance: ComparedUtterance) -> Mapping[str, Any]:
    """Summary figures of one utterance: voice, lengths, latencies."""
    figures = facts(utterance.trace, utterance.line)
    lag = figures["lags"]["known_to_heard_ms"]
    stalls = [pause for pause in figures["pauses"] if pause["is_stall"]]
    is_recording = figures["heard_by"] == "recording"
    return {
        "name": utterance.name,
        "about": figures["about"],
        "text": figures["text"].strip(),
        "audio_s": figures["audio_s"],
        "words": len(utterance.texts),
        "timed": len(utterance.words),
        "segments": len(figures["segments"]),
        "forced": len(figures["forced"]),
        "first_audio_ms": figures["ladder"].get("t2_t0_ms"),
        "known_to_heard_p50_ms": lag and lag["p50"],
        "known_to_heard_p95_ms": lag and lag["p95"],
        "stalls": None if is_recording else len(stalls),
        "stalled_ms": None if is_recording else sum(pause["duration_ms"] for pause in stalls),
        "rtf": figures["rtf"],
    }


def _compared_words(utterance: ComparedUtterance) -> list[ComparedWord]:
    """The timed words of an utterance, in their order."""
    by_sample = {word.start: word for word in utterance.line.words if word.start is not None}
    compared: list[ComparedWord] = []
    for index, one in enumerate(utterance.words):
        clocked = by_sample.get(round(one.start_s * utterance.trace.rate_hz))
        known_ms, heard_ms = (clocked.known_ms, clocked.heard_ms) if clocked else (None, None)
        lag_ms = None if known_ms is None or heard_ms is None else heard_ms - known_ms
        compared.append(ComparedWord(index, one.start_s, one.end_s, lag_ms))
    return compared


def _share(ours: ComparedUtterance, utterance: ComparedUtterance) -> float:
    """Matched words over the words of the shorter text; 1 where one text is unknown."""
    shorter = min(len(ours.texts), len(utterance.texts))
    return len(match_words(ours.texts, utterance.texts)) / shorter if shorter else 1.0


MAX_CHARS = 60
AT_ONCE_MS = 300.0  # a text that arrived in at most this time was not typed
_KINDS = ("voice", "speaker", "family", "vocoder", "seed", "temperature", "device")


def labels(traces: Sequence[Trace]) -> list[str]:
    """A label for each: the values that differ, else voice and speaker; ``recording`` without metadata.

    Equal labels are distinguished by how the text arrived.
    """
    metadata = [_metadata(trace.meta) for trace in traces]
    known = [one for one in metadata if one]
    names = dict.fromkeys(name for one in known for name in one)
    differing = [name for name in names if len({one[name] for one in known if name in one}) > 1]
    own = _by_voice(known)
    candidates = [(_label(one, differing, own), _arrival(trace)) for one, trace in zip(metadata, traces, strict=True)]
    ways = {name: {arrival for other, arrival in candidates if other == name} for name, _ in candidates}
    return [f"{name}, {arrival}" if arrival and len(ways[name]) > 1 else name for name, arrival in candidates]


def _arrival(trace: Trace) -> str:
    """How the text arrived; empty for a recording."""
    times_ms = [event.t_ms for event in trace.events if isinstance(event, TextReceived)]
    if not times_ms:
        return ""
    return "typed" if times_ms[-1] - times_ms[0] > AT_ONCE_MS else "text at once"


def _by_voice(metadata: Sequence[Mapping[str, str]]) -> list[str]:
    """Values determined by the voice: its temperature, where each voice has only one."""
    temperatures: dict[str, set[str]] = {}
    for one in metadata:
        temperatures.setdefault(one.get("voice", ""), set()).add(one.get("temperature", ""))
    return ["temperature"] if len(temperatures) > 1 and all(len(own) == 1 for own in temperatures.values()) else []


def _label(metadata: Mapping[str, str], differing: Sequence[str], own: Sequence[str]) -> str:
    if not metadata:
        return "recording"
    who = [metadata[name] for name in ("voice", "speaker") if name in differing and name in metadata]
    others = [name for name in differing if name not in ("voice", "speaker", "family", *own) and name in metadata]
    # a vocoder's name needs no key
    parts = [":".join(who), *(metadata[name] if name == "vocoder" else f"{name}={metadata[name]}" for name in others)]
    label = " ".join(filter(None, parts)) or ":".join(
        metadata[name] for name in ("voice", "speaker") if name in metadata
    )
    return label if len(label) <= MAX_CHARS else f"{label[: MAX_CHARS - 1]}…"


def _metadata(meta: Mapping[str, Any]) -> dict[str, str]:
    """A trace's metadata as printable text."""
    if meta.get("source") == "recording":
        return {}
    options = meta.get("options")
    named = {name: meta[name] for name in _KINDS if meta.get(name) not in (None, "")}
    named |= {name: value for name, value in options.items() if name not in named} if isinstance(options, dict) else {}
    return {to_printable(name, MAX_CHARS): to_printable(value, MAX_CHARS) for name, value in named.items()}
