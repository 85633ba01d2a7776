"""Two or more utterances of one text side by side: their words, an axis for all of them, and what differs."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studio.core.errors import BadOption
from studio.core.traces.trace import Trace
from studio.inspection.comparison.common_axis import TimeMap, stretched, unstretched
from studio.inspection.comparison.matching import match_words
from studio.inspection.comparison.spectra import HIGH_HZ, columns_s, difference_db, on_axis
from studio.inspection.facts import facts
from studio.inspection.textgrid import spans
from studio.inspection.timeline import Timeline, timeline
from studio.measure.signal.prosody import Prosody
from studio.measure.timing.word_timing import SpokenSpan

MOST = 8  # utterances at once: as many as one can tell apart, and as the keys 1 to 8 reach
MOSTLY = 0.5  # of the shorter text's words: with fewer in common it is another text
_LEAST_WORDS = 3  # for a correlation


@dataclass(frozen=True)
class Take:
    """One utterance of a comparison.

    Attributes:
        name: how it is told from the others.
        words: those whose times are known, in the time of its sound.
        texts: of all of its words.
    """

    name: str
    trace: Trace
    line: Timeline
    words: tuple[SpokenSpan, ...]
    texts: tuple[str, ...]

    @property
    def length_s(self) -> float:
        """Of its sound, without pauses for text."""
        return len(self.trace.pcm) / self.trace.rate_hz

    @property
    def is_timed(self) -> bool:
        """Whether it is known where its words lie."""
        return bool(self.words)


@dataclass(frozen=True)
class WordSaid:
    """A word in one utterance.

    Attributes:
        place: among its timed words.
        known_to_heard_ms: from the moment that it was known; None for a recording.
        pitch_hz, level_db: median of where there is voice, and RMS in dB of full scale; None where there is none, or
            where they were not measured.
    """

    place: int
    start_s: float
    end_s: float
    known_to_heard_ms: float | None = None
    pitch_hz: float | None = None
    level_db: float | None = None

    @property
    def duration_s(self) -> float:
        """From its start to its end."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class PairFigures:
    """What the second of two utterances does differently, over the words that both have.

    Attributes:
        duration_r: Pearson's correlation of the words' durations; None of fewer than three words, or without spread.
        duration_ratio: all of the second's durations over all of the first's.
        pitch_st, level_db: median over words of how much higher and louder the second is.
        known_to_heard_ms: median over words of how much later the second was heard after the word was known.
    """

    words: int
    duration_r: float | None
    duration_ratio: float | None
    pitch_st: float | None = None
    level_db: float | None = None
    known_to_heard_ms: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Utterances of one text.

    Attributes:
        reference: the place of the one whose words are the rows: the first whose words have times.
        rows: for each of its timed words, the word in each utterance; None where that one lacks it.
        shares: of each, matched words over the words of the shorter text; the reference's is 1.
        own, by_word: maps of each to an axis, without stretch and with.
    """

    takes: tuple[Take, ...]
    reference: int
    rows: tuple[tuple[WordSaid | None, ...], ...]
    shares: tuple[float, ...]
    own: tuple[TimeMap, ...]
    by_word: tuple[TimeMap, ...] = field(default=())

    @property
    def strangers(self) -> list[int]:
        """Places of those that say another text."""
        return [k for k, share in enumerate(self.shares) if share < MOSTLY]

    @property
    def can_stretch(self) -> bool:
        """Whether every utterance's words can be laid over the reference's."""
        return bool(self.by_word)

    def maps(self, *, stretch: bool) -> tuple[TimeMap, ...]:
        """The axis of all. Raises BadOption where they cannot be stretched."""
        if stretch and not self.can_stretch:
            raise BadOption("these utterances cannot be laid word over word", "look at them without stretch")
        return self.by_word if stretch else self.own

    def length_s(self, *, stretch: bool) -> float:
        """Where the axis ends."""
        return max(float(laid.axis_s[-1]) for laid in self.maps(stretch=stretch))


def take_of(name: str, trace: Trace) -> Take:
    """An utterance to compare. Raises BadFile where it cannot be laid on a clock."""
    texts = tuple(word.text for word in trace.words())
    return Take(name, trace, timeline(trace), tuple(spans(trace)), texts)


def compare(takes: Sequence[Take]) -> Comparison:
    """Lay utterances beside each other; pitch and level come with ``with_prosody``.

    Raises:
        BadOption: none or more than eight.
        BadText: two long texts differ too much to be matched.
    """
    if not 1 <= len(takes) <= MOST:
        raise BadOption(f"there are {len(takes)} utterances to compare", f"give from 2 to {MOST}")
    reference = next((k for k, take in enumerate(takes) if take.is_timed), 0)
    ours = takes[reference]
    pairs = [match_words([word.text for word in ours.words], [word.text for word in take.words]) for take in takes]
    lengths_s = [take.length_s for take in takes]
    shares = tuple(_share(ours, take) for take in takes)
    can_stretch = all(take.is_timed for take in takes) and min(shares) >= MOSTLY
    places = [dict(each) for each in pairs]
    said = [_said(take) for take in takes]
    rows = tuple(
        tuple(said[k][places[k][i]] if i in places[k] else None for k in range(len(takes)))
        for i in range(len(ours.words))
    )
    # the reference goes first there
    order = [reference, *(k for k in range(len(takes)) if k != reference)]
    maps = stretched([takes[k].words for k in order], [pairs[k] for k in order], [lengths_s[k] for k in order])
    by_word = tuple(maps[order.index(k)] for k in range(len(takes))) if can_stretch else ()
    return Comparison(tuple(takes), reference, rows, shares, tuple(unstretched(lengths_s)), by_word)


def with_prosody(rows: Sequence[Sequence[WordSaid | None]], measured: Sequence[Prosody]) -> list[list[WordSaid | None]]:
    """The rows with pitch and level of each word, from the prosody of each utterance."""

    def heard(word: WordSaid | None, spoken: Prosody) -> WordSaid | None:
        if word is None:
            return None
        part = spoken.within(word.start_s, word.end_s)
        return replace(word, pitch_hz=part.pitch_of(50), level_db=part.rms_db())

    return [[heard(word, spoken) for word, spoken in zip(row, measured, strict=True)] for row in rows]


def pair_figures(rows: Sequence[Sequence[WordSaid | None]], one: int, other: int) -> PairFigures:
    """What utterance ``other`` does differently than ``one``."""
    both = [(row[one], row[other]) for row in rows]
    pairs = [(a, b) for a, b in both if a is not None and b is not None]
    first, second = np.array([[a.duration_s, b.duration_s] for a, b in pairs]).reshape(-1, 2).T
    has_spread = len(pairs) >= _LEAST_WORDS and first.std() > 1e-9 and second.std() > 1e-9
    return PairFigures(
        words=len(pairs),
        duration_r=float(np.corrcoef(first, second)[0, 1]) if has_spread else None,
        duration_ratio=float(second.sum() / first.sum()) if first.sum() > 0 else None,
        pitch_st=_middle(12.0 * float(np.log2(b.pitch_hz / a.pitch_hz)) for a, b in pairs if a.pitch_hz and b.pitch_hz),
        level_db=_middle(
            b.level_db - a.level_db for a, b in pairs if a.level_db is not None and b.level_db is not None
        ),
        known_to_heard_ms=_middle(
            b.known_to_heard_ms - a.known_to_heard_ms
            for a, b in pairs
            if a.known_to_heard_ms is not None and b.known_to_heard_ms is not None
        ),
    )


def pairs_of(count: int) -> list[tuple[int, int]]:
    """Every pair of so many utterances."""
    return list(itertools.combinations(range(count), 2))


def spectral_difference(found: Comparison, one: int, other: int, *, stretch: bool) -> np.ndarray:
    """Spectrogram of ``one`` less that of ``other`` on the common axis, dB: float32 [bands, N], a column each 10 ms.

    Raises:
        BadOption: there is no such utterance, or they cannot be stretched.
    """
    if not all(0 <= k < len(found.takes) for k in (one, other)):
        raise BadOption(f"there is no pair {one + 1} and {other + 1}", f"there are 1 to {len(found.takes)}")
    at_s, maps = columns_s(found.length_s(stretch=stretch)), found.maps(stretch=stretch)
    pair = [found.takes[k].trace for k in (one, other)]
    high_hz = min(HIGH_HZ, *(trace.rate_hz / 2.0 for trace in pair))  # what both have
    pictures = [
        on_axis(trace.pcm, trace.rate_hz, maps[k], at_s, high_hz) for k, trace in zip((one, other), pair, strict=True)
    ]
    return difference_db(*pictures)


def clock_figures(take: Take) -> Mapping[str, Any]:
    """What is said of one utterance beside the others: who speaks, how long it is, how long it took."""
    found = facts(take.trace, take.line)
    lag = found["lags"]["known_to_heard_ms"]
    stalls = [pause for pause in found["pauses"] if pause["is_stall"]]
    is_recording = found["heard_by"] == "recording"
    return {
        "name": take.name,
        "about": found["about"],
        "text": found["text"].strip(),
        "audio_s": found["audio_s"],
        "words": len(take.texts),
        "timed": len(take.words),
        "segments": len(found["segments"]),
        "forced": len(found["forced"]),
        "first_audio_ms": found["ladder"].get("t2_t0_ms"),
        "known_to_heard_p50_ms": lag and lag["p50"],
        "known_to_heard_p95_ms": lag and lag["p95"],
        "stalls": None if is_recording else len(stalls),
        "stalled_ms": None if is_recording else sum(pause["duration_ms"] for pause in stalls),
        "rtf": found["rtf"],
    }


def _said(take: Take) -> list[WordSaid]:
    """The timed words of an utterance, in their order."""
    by_sample = {word.start: word for word in take.line.words if word.start is not None}
    found: list[WordSaid] = []
    for place, one in enumerate(take.words):
        clocked = by_sample.get(round(one.start_s * take.trace.rate_hz))
        known, heard = (clocked.known_ms, clocked.heard_ms) if clocked else (None, None)
        lag_ms = None if known is None or heard is None else heard - known
        found.append(WordSaid(place, one.start_s, one.end_s, lag_ms))
    return found


def _share(ours: Take, take: Take) -> float:
    """How much of the shorter of two texts both say; 1 where one of them is not known."""
    shorter = min(len(ours.texts), len(take.texts))
    return len(match_words(ours.texts, take.texts)) / shorter if shorter else 1.0


def _middle(values: Any) -> float | None:
    there = list(values)
    return float(np.median(there)) if there else None
