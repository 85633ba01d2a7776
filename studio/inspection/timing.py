"""Check word times: medians and intervals over several aligners, and recognition of audio cut at the boundaries."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.errors import BadFile, BadOption, BadText, NeedsPackage, Unavailable
from studio.core.events import Event, WordEnd, WordStart
from studio.core.traces.provenance import ANOTHER_SYSTEM
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, write_tiers
from studio.core.traces.trace import Trace, TraceWord
from studio.inspection.opening import Source, open_file
from studio.inspection.textgrid import read_words, word_spans
from studio.measure.recognisers.base import map_processes
from studio.measure.recognisers.pocketsphinx import align_all, dictionary_words
from studio.measure.recognisers.registry import Takes, open_aligner, open_recogniser
from studio.measure.tables import Column
from studio.measure.word_timing import BoundaryCut, SpokenSpan, WordBoundaries, cut_check, share_held, word_boundaries

COLUMNS = (
    Column("file", "text", "the utterance"),
    Column("i", "integer", "index of the word, from 0"),
    Column("word", "text", "the word"),
    Column("edge", "text", "start or end"),
    Column("at_s", "number", "where the aligners put it: the median over them"),
    Column("low_s", "number", "where the interval begins; empty with one take of one aligner"),
    Column("high_s", "number", "where it ends"),
    Column("own_s", "number", "where the trace, or the TextGrid beside a recording, has it"),
    Column("is_inside", "boolean", "whether that lies within the interval"),
    Column("holds", "boolean", "of an end: whether both words were heard beside a cut there; empty where not judged"),
)
_LONGEST_S = 120.0  # takes about 4 s to align


@dataclass(frozen=True, kw_only=True)
class TimingSetting:
    """Aligners and recogniser."""

    aligners: tuple[str, ...] = ("pocketsphinx",)  # by name (``studio.measure.recognisers.registry``)
    # TextGrids of other aligners, a folder each, with ``NAME.TextGrid`` for ``NAME.wav`` or ``NAME.trace``
    folders: tuple[Path, ...] = ()
    recogniser: str = ""  # transcribes the cuts; empty for no cut check
    moved_ms: float = 100.0  # offset of the control cuts, to either side


@dataclass(frozen=True)
class UtteranceTiming:
    """Word times of one utterance."""

    file: str
    length_s: float
    words: list[WordBoundaries]
    own: list[SpokenSpan | None]
    takes: dict[str, int]  # number of alignments of each aligner
    # cuts at the utterance's own boundaries, or without those at the aligners'
    cuts: list[BoundaryCut] = field(default_factory=list[BoundaryCut])
    moved: list[BoundaryCut] = field(default_factory=list[BoundaryCut])  # control cuts, moved to either side

    def rows(self) -> list[dict[str, Any]]:
        """A row for each placed boundary, with the keys of ``COLUMNS``."""
        held = {one.word: one.holds for one in self.cuts}
        rows: list[dict[str, Any]] = []
        for i, (word, own) in enumerate(zip(self.words, self.own, strict=True)):
            for edge, of in (("start", word.start), ("end", word.end)):
                own_s = None if own is None else own.start_s if edge == "start" else own.end_s
                if of is None and own_s is None:
                    continue
                is_sure = of is not None and np.isfinite(of.low)
                rows.append(
                    {
                        "file": self.file,
                        "i": i,
                        "word": word.word,
                        "edge": edge,
                        "at_s": of.value if of else None,
                        "low_s": of.low if of and is_sure else None,
                        "high_s": of.high if of and is_sure else None,
                        "own_s": own_s,
                        "is_inside": of.low <= own_s <= of.high if of and is_sure and own_s is not None else None,
                        "holds": held.get(i) if edge == "end" else None,
                    }
                )
        return rows

    def textgrid(self) -> str:
        """Point tiers for Praat: ``boundaries``, and the ends ``low`` and ``high`` of their intervals."""
        tiers: dict[str, dict[float, list[str]]] = {"boundaries": {}, "low": {}, "high": {}}
        for word in self.words:
            for of, label in ((word.start, f"[ {word.word}"), (word.end, f"{word.word} ]")):
                if of is None:
                    continue
                for name, at_s in (("boundaries", of.value), ("low", of.low), ("high", of.high)):
                    if np.isfinite(at_s):
                        place_s = round(min(max(at_s, 0.0), self.length_s), 6)
                        tiers[name].setdefault(place_s, []).append(label)
        grid = [
            TextGridTier(
                name, True, [TextGridEntry(at_s, at_s, " ".join(labels)) for at_s, labels in sorted(points.items())]
            )
            for name, points in tiers.items()
        ]
        return write_tiers(grid, self.length_s)


def time_all(
    sources: Sequence[Source], setting: TimingSetting, *, workers: int = 1, on_done: Callable[[], object] | None = None
) -> list[UtteranceTiming | str]:
    """Each utterance's timing or an error message, in order.

    Raises BadOption, BadFile, NeedsPackage: an aligner, the recogniser or a folder is not available.
    """
    for name in setting.aligners:
        open_aligner(name)
    if setting.recogniser:
        open_recogniser(setting.recogniser)
    for folder in setting.folders:
        if not folder.is_dir():
            raise BadFile(f"there is no folder {folder}", "give a folder of TextGrids")
    if not setting.aligners and not setting.folders:
        raise BadOption("there is no aligner", "give an aligner, or a folder of TextGrids")
    return map_processes(_timing_or_error, [(source, setting) for source in sources], workers, on_done)


def _timing_or_error(source: Source, setting: TimingSetting) -> UtteranceTiming | str:
    try:
        return _timing(source, setting)
    except (BadFile, BadOption, BadText, Unavailable, OSError, ValueError) as error:
        return f"{source.file}: {error}"


def _timing(source: Source, setting: TimingSetting) -> UtteranceTiming:
    trace = open_file(source.path, source.text or None)
    beside = read_words(source.reference) if source.reference else []
    is_recording = trace.meta.get("source") == "recording"
    own = beside if is_recording else word_spans(trace)
    texts = [one.text for one in own] or [word.text for word in trace.words()]
    if not texts or not len(trace.pcm):
        raise BadText("it has no words, or no sound", "give a trace, or a WAV with its text")
    alignments = _alignments(trace, texts, source, setting)
    if beside and not is_recording:
        alignments["beside"] = [beside]
    if not any(alignments.values()):
        raise BadFile("no aligner could place its words", "a word may be in no dictionary: give TextGrids of another")
    words = word_boundaries(texts, alignments)
    timing = UtteranceTiming(
        source.file,
        len(trace.pcm) / trace.rate_hz,
        words,
        list(own) or [None] * len(texts),
        {name: len(takes) for name, takes in alignments.items()},
    )
    if setting.recogniser:
        timing.cuts.extend(_cuts(trace, own or _median_words(words), setting, 0.0))
        for side in (-1.0, 1.0):
            timing.moved.extend(_cuts(trace, own or _median_words(words), setting, side * setting.moved_ms / 1000.0))
    return timing


def _alignments(trace: Trace, texts: Sequence[str], source: Source, setting: TimingSetting) -> dict[str, Takes]:
    alignments: dict[str, Takes] = {}
    for name in setting.aligners:
        alignments[name] = open_aligner(name)(trace.pcm, trace.rate_hz, " ".join(texts))
    for folder in setting.folders:
        grid = folder / f"{source.path.stem}.TextGrid"
        alignments[folder.name] = [read_words(grid)] if grid.is_file() else []
    return alignments


def _median_words(words: Sequence[WordBoundaries]) -> list[SpokenSpan]:
    """The words with the aligners' medians, without those that no aligner found."""
    return [SpokenSpan(one.word, one.start.value, one.end.value) for one in words if one.start and one.end]


def _cuts(trace: Trace, words: Sequence[SpokenSpan], setting: TimingSetting, moved_s: float) -> list[BoundaryCut]:
    hear = open_recogniser(setting.recogniser).transcribe
    return cut_check(trace.pcm, trace.rate_hz, words, hear, moved_s=moved_s)


def summary(timings: Sequence[UtteranceTiming]) -> Mapping[str, Any]:
    """Over all utterances: widths of intervals, distances of own times from medians, shares of cuts that hold."""
    rows = [row for one in timings for row in one.rows()]
    widths = [1000.0 * (row["high_s"] - row["low_s"]) for row in rows if row["low_s"] is not None]
    away = [1000.0 * abs(row["own_s"] - row["at_s"]) for row in rows if None not in (row["own_s"], row["at_s"])]
    inside = [row["is_inside"] for row in rows if row["is_inside"] is not None]
    return {
        "utterances": len(timings),
        "boundaries": len(rows),
        "width_ms": _quantiles(widths),
        "own_away_ms": _quantiles(away),
        "own_inside": sum(inside) / len(inside) if inside else None,
        "cuts_held": share_held([one.cuts for one in timings]),
        "moved_held": share_held([one.moved for one in timings]),
    }


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    return {"p50": float(np.median(values)), "p90": float(np.quantile(values, 0.9))} if values else None


def with_aligned_words(trace: Trace) -> Trace:
    """The trace with better estimates of word times, still marked as estimates; unchanged if it has none to improve.

    A segment's words stay unchanged if the aligner does not find its text.
    """
    words = trace.words()
    is_estimate = bool(words) and all(one.source == "estimate" and one.end is not None for one in words)
    if trace.meta.get("device") != ANOTHER_SYSTEM or not is_estimate or len(trace.pcm) > _LONGEST_S * trace.rate_hz:
        return trace
    spans: dict[int, tuple[int, int]] = {}
    with suppress(NeedsPackage):
        for part, start, end in _parts(trace, words):
            spans |= _aligned(trace, part, start, end)
    if not spans:
        return trace
    return replace(trace, events=[_moved(event, spans) for event in trace.events])


def _parts(trace: Trace, words: Sequence[TraceWord]) -> list[tuple[list[TraceWord], int, int]]:
    """Words with the range of their samples: by segment, or one range for all if the segments lack a word."""
    segments = trace.segments()
    if [i for one in segments for i in one.words] != [one.i for one in words]:
        return [([*words], 0, len(trace.pcm))]
    by_number = {one.i: one for one in words}
    return [([by_number[i] for i in one.words], one.start, one.end) for one in segments]


def _aligned(trace: Trace, words: Sequence[TraceWord], start: int, end: int) -> dict[int, tuple[int, int]]:
    """Samples [first, last) of each word; none where the text is not found."""
    counts = [len(dictionary_words(one.text)) for one in words]
    text = " ".join(one.text for one in words)
    (times,) = align_all([(trace.pcm[start:end], trace.rate_hz)], [text])
    if times is None or len(times) != sum(counts) or 0 in counts:
        return {}
    spans: dict[int, tuple[int, int]] = {}
    at = 0
    for word, count in zip(words, counts, strict=True):
        edges_s = times[at].start_s, times[at + count - 1].end_s
        first, last = (min(end, start + round(edge_s * trace.rate_hz)) for edge_s in edges_s)
        spans[word.i] = first, last
        at += count
    return spans


def _moved(event: Event, spans: dict[int, tuple[int, int]]) -> Event:
    match event:
        case WordStart(i=i) if i in spans:
            return replace(event, sample=spans[i][0])
        case WordEnd(i=i) if i in spans:
            return replace(event, sample=spans[i][1])
    return event
