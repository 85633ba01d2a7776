"""One utterance as rows of the three tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studio.core.numbers import is_number
from studio.core.printable import printable
from studio.core.traces.trace import Trace
from studio.inspection.facts import against
from studio.inspection.timeline import TimedWord, Timeline, timeline
from studio.measure.latency import ladder
from studio.measure.seams import seam_jumps
from studio.measure.signal.prosody import Prosody, prosody, speaking_rate
from studio.measure.timing.word_timing import SpokenSpan

Rows = dict[str, list[dict[str, Any]]]


def rows_of(
    trace: Trace, about: Mapping[str, Any], reference: Sequence[SpokenSpan] = (), *, with_pitch: bool = True
) -> Rows:
    """The rows of an utterance by table; their keys are those of ``columns.TABLES``.

    Args:
        about: ``file``, and ``system`` and ``item`` where something beside the file says so.
        reference: words of an aligner or by hand, which the utterance's are compared with.

    Raises:
        NeedsPackage: pitch without pyworld.
    """
    line = timeline(trace)
    spoken = prosody(trace.pcm, trace.rate_hz, with_pitch=with_pitch)
    file = about["file"]
    seams = [{"file": file} | one for one in _seams(trace, line, spoken)]
    words = [{"file": file} | one for one in _words(trace, line, spoken)]
    whole = _identity(trace, about) | {"text": line.text.strip()} | _sound(trace, line, spoken) | _clock(trace, line)
    whole |= {
        "seam_level_db": _median(abs(one["level_db"]) for one in seams),
        "seam_spectrum_db": _median(one["spectrum_db"] for one in seams),
        "seam_pitch_st": _median(abs(one["pitch_st"]) for one in seams if one["pitch_st"] is not None),
    }
    compared = against(trace, reference) if reference else None
    whole |= {
        "reference_words": compared and compared["words"],
        "reference_f1_25ms": compared and compared["f1"]["25"],
        "reference_miou": compared and compared["miou"],
    }
    return {"utterances": [whole], "words": words, "seams": seams}


def _identity(trace: Trace, about: Mapping[str, Any]) -> dict[str, Any]:
    meta = trace.meta
    said = {name: printable(meta.get(name) or "") for name in ("voice", "speaker", "family", "vocoder")}
    options, seed, warmth = meta.get("options"), meta.get("seed"), meta.get("temperature")
    written = printable(",".join(f"{k}={v}" for k, v in options.items()) if isinstance(options, Mapping) else "")
    system = ":".join(filter(None, (said["voice"], said["speaker"]))) or "recording"
    return {
        "file": about["file"],
        "system": about.get("system") or (f"{system}?{written}" if written else system),
        "item": about.get("item") or about["file"].rpartition("/")[2].rpartition(".")[0],
        **said,
        "options": written,
        "seed": seed if type(seed) is int else None,
        "temperature": float(warmth) if warmth is not None and is_number(warmth) else None,
        "rate_hz": trace.rate_hz,
    }


def _sound(trace: Trace, line: Timeline, spoken: Prosody) -> dict[str, Any]:
    pauses, audible = spoken.pauses(), spoken.audible
    rate = speaking_rate(len(line.words), spoken, pauses)
    low, middle, high = (spoken.pitch_of(percent) for percent in (5, 50, 95))
    peak = int(np.abs(trace.pcm.astype(np.int32)).max(initial=0))
    return {
        "audio_s": len(trace.pcm) / trace.rate_hz,
        "audible_s": audible[1] - audible[0] if audible else 0.0,
        "words": len(line.words),
        "words_per_min": rate and rate.words_per_min,
        "articulation_per_min": rate and rate.articulation_per_min,
        "pauses": len(pauses),
        "pauses_s": sum(end_s - start_s for start_s, end_s in pauses),
        "level_dbfs": spoken.active_db if np.isfinite(spoken.active_db) else None,
        "peak_dbfs": float(20.0 * np.log10(peak / 32768.0)) if peak else None,
        "pitch_hz": middle,
        "pitch_p5_hz": low,
        "pitch_p95_hz": high,
        "pitch_range_st": float(12.0 * np.log2(high / low)) if low and high else None,
    }


def _clock(trace: Trace, line: Timeline) -> dict[str, Any]:
    """What only a trace knows: segments, and when things came."""
    if line.heard_by == "recording":
        nothing = ("segments", "forced", "first_audio_ms", "stalls", "stalls_s", "rtf")
        return dict.fromkeys((*nothing, "known_to_heard_p50_ms", "known_to_heard_p95_ms"))
    steps = ladder(trace)
    waits = [w.heard_ms - w.known_ms for w in line.words if w.heard_ms is not None and w.known_ms is not None]
    stalls = [pause.duration_ms for pause in line.pauses if pause.is_stall]
    return {
        "segments": len(line.segments),
        "forced": sum(one.forced for one in line.segments),
        "first_audio_ms": steps.since("t2", "t0"),
        "known_to_heard_p50_ms": _median(waits),
        "known_to_heard_p95_ms": float(np.percentile(waits, 95)) if waits else None,
        "stalls": len(stalls),
        "stalls_s": sum(stalls) / 1000.0,
        "rtf": steps.rtf if steps.compute_ms else None,
    }


def _words(trace: Trace, line: Timeline, spoken: Prosody) -> list[dict[str, Any]]:
    return [
        {
            "i": word.i,
            "text": word.text,
            **_span(word, trace.rate_hz, spoken),
            "source": word.source,
            "segment": word.segment,
            "typed_ms": word.typed_ms,
            "known_ms": word.known_ms,
            "made_ms": word.made_ms,
            "heard_ms": word.heard_ms,
        }
        for word in line.words
    ]


def _span(word: TimedWord, rate_hz: int, spoken: Prosody) -> dict[str, float | None]:
    """Where a word lies in the sound, and how it sounds there."""
    if word.start is None or word.end is None:
        start_s = None if word.start is None else word.start / rate_hz
        return {"start_s": start_s} | dict.fromkeys(("end_s", "duration_s", "pitch_hz", "level_dbfs"))
    start_s, end_s = word.start / rate_hz, word.end / rate_hz
    part = spoken.within(start_s, end_s)
    return {
        "start_s": start_s,
        "end_s": end_s,
        "duration_s": end_s - start_s,
        "pitch_hz": part.pitch_of(50),
        "level_dbfs": part.rms_db(),
    }


def _seams(trace: Trace, line: Timeline, spoken: Prosody) -> list[dict[str, Any]]:
    begins = {one.start: (one, before) for before, one in zip(line.segments, line.segments[1:], strict=False)}
    rows: list[dict[str, Any]] = []
    for jump in seam_jumps(trace.pcm, trace.rate_hz, [sample for sample in begins if sample > 0]):
        after, before = begins[jump.sample]
        start_s = jump.sample / trace.rate_hz
        rows.append(
            {
                "start_s": start_s,
                "word": after.words[0] if after.words else None,
                "forced": before.forced,
                "level_db": jump.level_db,
                "spectrum_db": jump.spectrum_db,
                "pitch_st": spoken.pitch_jump_st(start_s),
                "roughness": jump.roughness,
            }
        )
    return rows


def _median(values: Any) -> float | None:
    found = list(values)
    return float(np.median(found)) if found else None
