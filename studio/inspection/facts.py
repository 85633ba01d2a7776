"""Figures of an utterance, as data and as terminal tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.checks import to_printable
from studio.core.speakers import consent_date
from studio.core.traces.trace import Trace
from studio.inspection.textgrid import word_spans
from studio.inspection.timeline import Timeline
from studio.measure.latency import STEPS, ladder
from studio.measure.seams import seam_jumps
from studio.measure.word_timing import SpokenSpan, timing_score

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_CHARS = 80  # of one printed value
COLLARS_MS = (25, 50, 100)
_IDENTITY = (
    "source",
    "placed_by",
    "voice",
    "speaker",
    "family",
    "vocoder",
    "seed",
    "temperature",
    "speed",
    "options",
    "device",
    "git_sha",
)
_LAGS = (
    ("known_to_heard_ms", "known_ms", "heard_ms"),
    ("typed_to_heard_ms", "typed_ms", "heard_ms"),
    ("known_to_made_ms", "known_ms", "made_ms"),
    ("made_to_heard_ms", "made_ms", "heard_ms"),
)
_NAMES = {
    "known_to_heard_ms": "known → heard",
    "typed_to_heard_ms": "first key → heard",
    "known_to_made_ms": "known → made",
    "made_to_heard_ms": "made → heard",
}
_LANES = {
    "player": "as the player reported it",
    "listener": "as a listener hears it who never pauses",
    "recording": "the recording's own time",
}


def facts(trace: Trace, line: Timeline) -> dict[str, Any]:
    """All figures of an utterance; times in ms since ``ready``."""
    segments = line.segments
    joins = [one.start for one in segments if one.start > 0]
    steps = ladder(trace) if line.heard_by != "recording" else None
    return {
        "about": {name: trace.meta[name] for name in _IDENTITY if name in trace.meta} | _consent(trace),
        "text": line.text,
        "rate_hz": trace.rate_hz,
        "audio_s": len(trace.pcm) / trace.rate_hz,
        "frames": len(trace.frames),
        "heard_by": line.heard_by,
        "words": [dict(vars(one)) for one in line.words],
        "segments": [dict(vars(one)) for one in segments],
        "forced": [one.index for one in segments if one.forced],
        "pauses": [dict(vars(one)) | {"duration_ms": one.duration_ms, "is_stall": one.is_stall} for one in line.pauses],
        "seams": [dict(vars(one)) for one in seam_jumps(trace.pcm, trace.rate_hz, joins)],
        "lags": {name: _spread(_differences(line, start, end)) for name, start, end in _LAGS},
        "ladder": {f"{step}_{start}_ms": steps.since(step, start) for step, start in STEPS} if steps else {},
        "log_likelihood": _mean(trace.layers.get("log_likelihood")),
        "rtf": steps.rtf if steps and steps.compute_ms else None,
    }


def _consent(trace: Trace) -> dict[str, str]:
    """The date of the consent for a speaker that was added from a recording."""
    return {"consent_given": date} if (date := consent_date(trace.meta)) else {}


def compare_with_reference(trace: Trace, true: Sequence[SpokenSpan]) -> dict[str, Any]:
    """Word times of a trace against those of a reference, in the time of the sound; F1 by collar in ms."""
    spans = word_spans(trace)
    scores = {collar_ms: timing_score(spans, true, collar_ms / 1000.0) for collar_ms in COLLARS_MS}
    one = scores[COLLARS_MS[0]]
    return {
        "words": one.true,
        "matched": one.matched,
        "miou": one.miou,
        "f1": {str(collar_ms): score.f1 for collar_ms, score in scores.items()},
        "start_ms": _spread([1000.0 * away_s for away_s in one.start_s]),
        "end_ms": _spread([1000.0 * away_s for away_s in one.end_s]),
    }


def _differences(line: Timeline, start: str, end: str) -> list[float]:
    pairs = ((getattr(word, start), getattr(word, end)) for word in line.words)
    return [last - first for first, last in pairs if first is not None and last is not None]


def _mean(values: np.ndarray | None) -> float | None:
    """Mean of the known values."""
    return None if values is None or np.isnan(values).all() else float(np.nanmean(values))


def _spread(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, (0, 50, 95))
    return {"min": float(low), "p50": float(middle), "p95": float(high), "n": len(values)}


def render_facts(figures: Mapping[str, Any]) -> "Iterable[RenderableType]":
    """Terminal tables: words, lags, latency, pauses and seams."""
    yield from _headings(figures)
    if figures["words"]:
        yield _words(figures)
    if lags := {name: spread for name, spread in figures["lags"].items() if spread}:
        yield table(
            "How long each word took (ms)",
            ("from → to", "least", "median", "p95", "words"),
            [(_NAMES[name], one["min"], one["p50"], one["p95"], one["n"]) for name, one in lags.items()],
        )
    if compared := figures.get("reference"):
        rows = [("words matched", f"{compared['matched']} of {compared['words']}"), ("mIoU", compared["miou"])]
        rows += [(f"F1, starts and ends within {collar} ms", f1) for collar, f1 in compared["f1"].items()]
        for name, what in (("start_ms", "start"), ("end_ms", "end")):
            if spread := compared[name]:
                rows.append((f"{what}: median, p95 (ms)", f"{spread['p50']:.1f}, {spread['p95']:.1f}"))
        yield table("Against the reference", ("", "value"), rows)
    if figures["ladder"]:
        steps = [(name.replace("_ms", "").replace("_", " after "), value) for name, value in figures["ladder"].items()]
        yield table("Latency (ms)", ("step", "time"), steps)
    if figures["pauses"]:
        yield table("Pauses in what was heard", ("reason", "count", "ms", "longest"), _pauses(figures["pauses"]))
    if figures["seams"]:
        loudest = sorted(figures["seams"], key=lambda one: -abs(one["level_db"]))[:10]
        rows = [(one["sample"] / figures["rate_hz"], *_jumps(one)) for one in loudest]
        columns = ("at (s of sound)", "level (dB)", "spectrum (dB)", "roughness")
        yield table(f"Seams by their jump in level ({len(loudest)} of {len(figures['seams'])})", columns, rows)


def _headings(figures: Mapping[str, Any]) -> Iterable[str]:
    about = dict(figures["about"])
    voice = ":".join(str(about.pop(name)) for name in ("voice", "speaker") if name in about)
    if about.pop("source", "") == "forced":
        voice = f"a recording through {voice}"
    raw = about.pop("options", None)  # untrusted
    options = ",".join(f"{name}={value}" for name, value in raw.items()) if isinstance(raw, Mapping) else ""
    rest = (f"{name} {to_printable(value, _MAX_CHARS)}" for name, value in about.items())
    yield "  ".join(filter(None, (to_printable(voice) or "a recording", to_printable(options), *rest)))
    ends = f"{len(figures['segments'])} segments ({len(figures['forced'])} forced to end)"
    parts = [f"{figures['audio_s']:.2f} s at {figures['rate_hz']} Hz", f"{len(figures['words'])} words"]
    if figures["segments"]:
        parts += [ends, f"{figures['frames']} frames"]
    if figures["rtf"] is not None:
        parts.append(f"rtf {figures['rtf']:.3f}")
    yield ", ".join(parts)
    if figures["log_likelihood"] is not None:
        yield f"log-likelihood of a frame, mean: {figures['log_likelihood']:.1f}"
    yield f"heard: {_LANES[figures['heard_by']]}"
    if not figures["words"]:
        yield "no words are known: give the text of a recording with --text"


def _words(figures: Mapping[str, Any]) -> "RenderableType":
    seen = {one["index"]: one["seen"] for one in figures["segments"]}
    texts = {one["i"]: one["text"] for one in figures["words"]}
    segments = {one["index"]: one for one in figures["segments"]}

    def row(one: Mapping[str, Any]) -> tuple[object, ...]:
        saw = " ".join(texts.get(i, "?") for i in seen.get(one["segment"], ()) if i != one["i"])
        segment = segments.get(one["segment"])
        ends_it = segment is not None and segment["p_eos"] is not None and one["i"] == segment["words"][-1]
        end = ("forced" if segment["forced"] else "eos") if segment is not None and ends_it else ""
        names = ("typed_ms", "known_ms", "made_ms", "heard_ms", "heard_whole_ms")
        return (one["text"], *(_whole(one[name]) for name in names), end, saw)

    columns = ("word", "typed", "known", "made", "heard", "heard whole", "end", "seen with")
    return table("Words (ms since ready)", columns, [row(one) for one in figures["words"]])


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _pauses(pauses: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    rows: dict[str, list[float]] = {}
    for one in pauses:
        name = f"{one['reason']} (stall)" if one["is_stall"] else one["reason"]
        rows.setdefault(name, []).append(one["duration_ms"])
    return [(name, len(values), sum(values), max(values)) for name, values in sorted(rows.items())]


def _jumps(seam: Mapping[str, Any]) -> tuple[float, float, float]:
    return seam["level_db"], seam["spectrum_db"], seam["roughness"]


def table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> "RenderableType":
    """A terminal table: the first column and columns of texts to the left, numbers to the right, "-" for none."""
    from rich.markup import escape
    from rich.table import Table

    result = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        is_text = index == 0 or column in ("end", "seen with")
        result.add_column(column, justify="left" if is_text else "right", overflow="fold")
    for one in rows:
        result.add_row(*map(escape, map(_cell, one)))
    return result


def _cell(value: object) -> str:
    if value is None or value != value:  # NaN
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else to_printable(value)


def median(values: Iterable[float]) -> float | None:
    """The median; None without values."""
    known = list(values)
    return float(np.median(known)) if known else None
