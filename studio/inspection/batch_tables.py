"""The three tables of a batch (utterances, words, seams), and the rows of one utterance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studio.core.checks import is_number, to_printable
from studio.core.traces.trace import Trace
from studio.inspection.facts import compare_with_reference, median
from studio.inspection.timeline import TimedWord, Timeline, timeline
from studio.measure.latency import ladder
from studio.measure.prosody import Prosody, prosody, speaking_rate
from studio.measure.seams import seam_jumps
from studio.measure.tables import Column
from studio.measure.word_timing import SpokenSpan

_FILE = Column("file", "text", "where it lies, relative to what was measured")
_PITCH = "median pitch where there is voice, Hz (WORLD: DIO and StoneMask); empty without voice"

UTTERANCES: tuple[Column, ...] = (
    _FILE,
    Column("system", "text", "the folder's manifest says who spoke; else voice, speaker and options"),
    Column("item", "text", "the folder's manifest says which text; else the file's name"),
    Column("voice", "text", "name of the voice; empty for a recording"),
    Column("speaker", "text", "name of its speaker"),
    Column("family", "text", "family of its net"),
    Column("vocoder", "text", "what made samples of frames"),
    Column("options", "text", "the family's options, name=value with commas"),
    Column("seed", "integer", "of the voice"),
    Column("temperature", "number", "of the voice"),
    Column("text", "text", "as it was sent at last; of a recording, as given"),
    Column("rate_hz", "integer", "samples a second"),
    Column("audio_s", "number", "length of the sound"),
    Column("audible_s", "number", "from the first to the last sound within 30 dB of the speech's level"),
    Column("words", "integer", "spoken words, numbers written out"),
    Column("words_per_min", "number", "over the audible part"),
    Column("articulation_per_min", "number", "words a minute without the pauses"),
    Column("pauses", "integer", "silences of 150 ms and more within the audible part"),
    Column("pauses_s", "number", "how long they are together"),
    Column("level_dbfs", "number", "level of the speech without its pauses (ITU-T P.56), dB of full scale"),
    Column("peak_dbfs", "number", "the largest sample, dB of full scale"),
    Column("pitch_hz", "number", _PITCH),
    Column("pitch_p5_hz", "number", "5th percentile of the pitch"),
    Column("pitch_p95_hz", "number", "95th percentile of the pitch"),
    Column("pitch_range_st", "number", "between the two, semitones"),
    Column("segments", "integer", "pieces that the family spoke one after another; empty for a recording"),
    Column("forced", "integer", "segments whose end a limit forced"),
    Column("seam_level_db", "number", "median |jump of level| at the seams between segments"),
    Column("seam_spectrum_db", "number", "median change of spectrum at the seams"),
    Column("seam_pitch_st", "number", "median |jump of pitch| at the seams, semitones"),
    Column("first_audio_ms", "number", "t2 - t0: from the first key to the first sample that was made"),
    Column("known_to_heard_p50_ms", "number", "from a word being known to being heard, median over its words"),
    Column("known_to_heard_p95_ms", "number", "the same, 95th percentile"),
    Column("stalls", "integer", "pauses in what was heard that compute or network made"),
    Column("stalls_s", "number", "how long they are together"),
    Column("rtf", "number", "compute time over sound"),
    Column("reference_words", "integer", "words of FILE.TextGrid beside it; empty without one"),
    Column("reference_f1_25ms", "number", "words whose start and end both lie within 25 ms of the reference's"),
    Column("reference_miou", "number", "mean intersection over union with the reference's words"),
)
WORDS: tuple[Column, ...] = (
    _FILE,
    Column("i", "integer", "index of the word among the spoken ones, from 0"),
    Column("text", "text", "as it was spoken"),
    Column("start_s", "number", "in the time of the sound; empty where it is not known"),
    Column("end_s", "number", "in the time of the sound"),
    Column("duration_s", "number", "end - start"),
    Column("source", "text", "how its time is known"),
    Column("segment", "integer", "that spoke it"),
    Column("typed_ms", "number", "its first character arrived, ms since ready"),
    Column("known_ms", "number", "what completes it arrived"),
    Column("made_ms", "number", "its first sample was made"),
    Column("heard_ms", "number", "its first sample was heard"),
    Column("pitch_hz", "number", _PITCH),
    Column("level_dbfs", "number", "RMS, dB of full scale"),
)
SEAMS: tuple[Column, ...] = (
    _FILE,
    Column("start_s", "number", "where one segment's sound ends and the next begins"),
    Column("word", "integer", "index of the first word of the segment that begins there"),
    Column("forced", "boolean", "the segment before was ended by a limit"),
    Column("level_db", "number", "RMS of the 20 ms after over that of the 20 ms before"),
    Column("spectrum_db", "number", "mean |change| of 24 log-mel bands at equal level"),
    Column("pitch_st", "number", "from the last voice before to the first after, within 60 ms each; empty without"),
    Column("roughness", "number", "of the waveform, 1 is that of the sound around"),
)
TABLES = {"utterances": UTTERANCES, "words": WORDS, "seams": SEAMS}

Rows = dict[str, list[dict[str, Any]]]


def rows_of(
    trace: Trace, about: Mapping[str, Any], reference: Sequence[SpokenSpan] = (), *, with_pitch: bool = True
) -> Rows:
    """The rows of an utterance by table; their keys are those of ``TABLES``.

    ``about``: ``file``, and ``system`` and ``item`` if known from outside the file; ``reference``: words of an aligner
    or by hand, to compare with the utterance's. Raises NeedsPackage: pitch without pyworld.
    """
    line = timeline(trace)
    spoken = prosody(trace.pcm, trace.rate_hz, with_pitch=with_pitch)
    file = about["file"]
    seams = [{"file": file} | one for one in _seams(trace, line, spoken)]
    words = [{"file": file} | one for one in _words(trace, line, spoken)]
    whole = _identity(trace, about) | {"text": line.text.strip()} | _sound(trace, line, spoken) | _clock(trace, line)
    whole |= {
        "seam_level_db": median(abs(one["level_db"]) for one in seams),
        "seam_spectrum_db": median(one["spectrum_db"] for one in seams),
        "seam_pitch_st": median(abs(one["pitch_st"]) for one in seams if one["pitch_st"] is not None),
    }
    compared = compare_with_reference(trace, reference) if reference else None
    whole |= {
        "reference_words": compared and compared["words"],
        "reference_f1_25ms": compared and compared["f1"]["25"],
        "reference_miou": compared and compared["miou"],
    }
    return {"utterances": [whole], "words": words, "seams": seams}


def _identity(trace: Trace, about: Mapping[str, Any]) -> dict[str, Any]:
    meta = trace.meta
    identity = {name: to_printable(meta.get(name) or "") for name in ("voice", "speaker", "family", "vocoder")}
    options, seed, temperature = meta.get("options"), meta.get("seed"), meta.get("temperature")
    option_text = to_printable(",".join(f"{k}={v}" for k, v in options.items()) if isinstance(options, Mapping) else "")
    system = ":".join(filter(None, (identity["voice"], identity["speaker"]))) or "recording"
    return {
        "file": about["file"],
        "system": about.get("system") or (f"{system}?{option_text}" if option_text else system),
        "item": about.get("item") or about["file"].rpartition("/")[2].rpartition(".")[0],
        **identity,
        "options": option_text,
        "seed": seed if type(seed) is int else None,
        "temperature": float(temperature) if temperature is not None and is_number(temperature) else None,
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
    """Columns about segments and times, which only a trace has; None for a recording."""
    if line.heard_by == "recording":
        names = ("segments", "forced", "first_audio_ms", "stalls", "stalls_s", "rtf")
        return dict.fromkeys((*names, "known_to_heard_p50_ms", "known_to_heard_p95_ms"))
    steps = ladder(trace)
    waits = [w.heard_ms - w.known_ms for w in line.words if w.heard_ms is not None and w.known_ms is not None]
    stalls = [pause.duration_ms for pause in line.pauses if pause.is_stall]
    return {
        "segments": len(line.segments),
        "forced": sum(one.forced for one in line.segments),
        "first_audio_ms": steps.since("t2", "t0"),
        "known_to_heard_p50_ms": median(waits),
        "known_to_heard_p95_ms": float(np.percentile(waits, 95)) if waits else None,
        "stalls": len(stalls),
        "stalls_s": sum(stalls) / 1000.0,
        "rtf": steps.rtf if steps.compute_ms else None,
    }


def _words(trace: Trace, line: Timeline, spoken: Prosody) -> list[dict[str, Any]]:
    return [
        {"i": word.i, "text": word.text, **_span(word, trace.rate_hz, spoken)}
        | {name: getattr(word, name) for name in ("source", "segment", "typed_ms", "known_ms", "made_ms", "heard_ms")}
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
