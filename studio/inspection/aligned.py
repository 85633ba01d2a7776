"""Word times of third-party systems that send none: by a forced aligner, if its package and dictionary are there."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from studio.core.errors import NeedsPackage
from studio.core.events import Event, WordEnd, WordStart
from studio.core.traces.provenance import ANOTHER_SYSTEM
from studio.core.traces.trace import Trace, TraceWord
from studio.measure.recognisers.pocketsphinx import align_all, dictionary_words

_LONGEST_S = 120.0  # takes about 4 s to align


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
