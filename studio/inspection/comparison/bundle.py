"""Pack a comparison for its page: words, time maps, figures and sounds; prosody and differences separately."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.inspection.bundle import pack_arrays
from studio.inspection.comparison.common_axis import BANDS, STEP_S, TimeMap, mean_difference_db
from studio.inspection.comparison.compare import (
    ComparedUtterance,
    ComparedWord,
    UtteranceComparison,
    clock_figures,
    pair_figures,
    pairs_of,
    spectral_difference,
    with_prosody,
)
from studio.inspection.facts import table
from studio.measure.prosody import prosody
from studio.measure.report import plain

MOST_DB = 30.0  # limit of a drawn difference
_NONE, _EQUAL, _REACH = 0, 128, 127  # of a picture's bytes


def pack(comparison: UtteranceComparison) -> bytes:
    """The page's first bundle; the sound of utterance k is the array ``pcm{k}``."""
    header = {
        "takes": [
            {
                **clock_figures(utterance),
                "rate_hz": utterance.trace.rate_hz,
                "share": share,
                "said": _timed_words(utterance),
                "own": _map(own),
                "by_word": _map(comparison.by_word[k]) if comparison.can_stretch else None,
            }
            for k, (utterance, share, own) in enumerate(
                zip(comparison.utterances, comparison.shares, comparison.own, strict=True)
            )
        ],
        "reference": comparison.reference,
        "strangers": comparison.other_texts,
        "can_stretch": comparison.can_stretch,
        "rows": [[one and one.place for one in row] for row in comparison.rows],
        "lags": [[one and one.known_to_heard_ms for one in row] for row in comparison.rows],
        "pairs": [
            {"one": one, "other": other, **vars(pair_figures(comparison.rows, one, other))}
            for one, other in pairs_of(len(comparison.utterances))
        ],
    }
    sounds = {
        f"pcm{k}": ("i16", utterance.trace.pcm.astype("<i2", copy=False))
        for k, utterance in enumerate(comparison.utterances)
    }
    return pack_arrays(plain(header), sounds)


def _timed_words(utterance: ComparedUtterance) -> list[list[Any]]:
    """Each timed word: text, start and end in s, and whether its times are estimates."""
    estimated = {word.start for word in utterance.trace.words() if word.source == "estimate"}
    rate_hz = utterance.trace.rate_hz
    return [
        [word.text, word.start_s, word.end_s, round(word.start_s * rate_hz) in estimated] for word in utterance.words
    ]


def pack_words(comparison: UtteranceComparison, max_s: float = math.inf) -> bytes:
    """Pitch and level of each word, and of pairs; takes seconds for a minute of sound.

    ``max_s``: no pitch where the sounds are longer together.
    """
    is_short = sum(utterance.length_s for utterance in comparison.utterances) <= max_s
    rows, lacks = measured_rows(comparison, with_pitch=is_short)
    if not is_short:
        lacks = f"The pitch of more than {max_s / 60:g} minutes is left out: studio compare has it."
    header: dict[str, Any] = {
        "rows": [[one and [one.pitch_hz, one.level_db] for one in row] for row in rows],
        "pairs": [
            {"one": one, "other": other, **vars(pair_figures(rows, one, other))}
            for one, other in pairs_of(len(comparison.utterances))
        ],
        "lacks": lacks,
    }
    return pack_arrays(plain(header), {})


def pack_difference(comparison: UtteranceComparison, one: int, other: int, *, stretch: bool) -> bytes:
    """The difference of two spectrograms: an array ``db`` uint8 [columns, bands], low bands first.

    128 is 0 dB, 1 and 255 are -30 and 30 dB or beyond, 0 means that either has no sound. Raises BadOption: there is no
    such pair, or stretching is impossible.
    """
    picture = spectral_difference(comparison, one, other, stretch=stretch)
    scaled = np.round(_EQUAL + _REACH * np.clip(np.nan_to_num(picture) / MOST_DB, -1.0, 1.0))
    header = {
        "one": one,
        "other": other,
        "stretch": stretch,
        "bands": BANDS,
        "step_ms": 1000.0 * STEP_S,
        "most_db": MOST_DB,
        "mean_db": mean_difference_db(picture),
    }
    values = np.where(np.isfinite(picture), scaled, _NONE).astype(np.uint8)
    return pack_arrays(plain(header), {"db": ("u8", np.ascontiguousarray(values.T))})


def _map(laid: TimeMap) -> dict[str, list[float]]:
    return {"axis": laid.axis_s.tolist(), "own": laid.own_s.tolist()}


if TYPE_CHECKING:
    from rich.console import RenderableType

_PAIR = (
    ("words", "words"),
    ("duration_r", "durations: r"),
    ("duration_ratio", "durations: ratio"),
    ("pitch_st", "pitch (st)"),
    ("level_db", "level (dB)"),
    ("known_to_heard_ms", "known → heard (ms)"),
    ("spectral_db", "spectrum (dB)"),
)
_ONE = (
    ("audio_s", "s"),
    ("words", "words"),
    ("segments", "segments"),
    ("forced", "forced"),
    ("first_audio_ms", "first audio (ms)"),
    ("known_to_heard_p50_ms", "known → heard"),
    ("known_to_heard_p95_ms", "p95 (ms)"),
    ("stalls", "stalls"),
    ("rtf", "rtf"),
)


def figures_of(comparison: UtteranceComparison, *, with_pitch: bool = True) -> dict[str, Any]:
    """Figures of utterances, words and pairs, with times in s of each sound; ``lacks`` says why there is no pitch."""
    rows, lacks = measured_rows(comparison, with_pitch=with_pitch)
    return {
        "utterances": [dict(clock_figures(utterance)) for utterance in comparison.utterances],
        "reference": comparison.reference,
        "shares": list(comparison.shares),
        "words": [
            {"text": word.text, "said": [one and _plainly(one) for one in row]}
            for word, row in zip(comparison.utterances[comparison.reference].words, rows, strict=True)
        ],
        "pairs": [_pair(comparison, rows, one, other) for one, other in pairs_of(len(comparison.utterances))],
        "lacks": lacks,
    }


def measured_rows(comparison: UtteranceComparison, *, with_pitch: bool) -> tuple[list[list[ComparedWord | None]], str]:
    """The rows with pitch and level, and why there is no pitch (empty where there is)."""
    traces, lacks = [utterance.trace for utterance in comparison.utterances], ""
    try:
        spoken = [prosody(one.pcm, one.rate_hz, with_pitch=with_pitch) for one in traces]
    except NeedsPackage as error:
        spoken, lacks = [prosody(one.pcm, one.rate_hz, with_pitch=False) for one in traces], str(error)
    return with_prosody(comparison.rows, spoken), lacks


def _pair(
    comparison: UtteranceComparison, rows: Sequence[Sequence[ComparedWord | None]], one: int, other: int
) -> dict[str, Any]:
    figures = vars(pair_figures(rows, one, other))
    picture = spectral_difference(comparison, one, other, stretch=comparison.can_stretch)
    return {"one": one, "other": other, **figures, "spectral_db": mean_difference_db(picture)}


def _plainly(word: ComparedWord) -> dict[str, Any]:
    return {**vars(word), "duration_s": word.duration_s}


def render_comparison(figures: Mapping[str, Any], names: Sequence[str]) -> "Iterable[RenderableType]":
    """Terminal tables of utterances, words and pairs."""
    numbered = [f"{k + 1} {name}" for k, name in enumerate(names)]
    each = figures["utterances"]
    yield table(
        "Utterances",
        ["", *(title for _, title in _ONE)],
        ([name, *(one[key] for key, _ in _ONE)] for name, one in zip(numbered, each, strict=True)),
    )
    for k, share in enumerate(figures["shares"]):
        if share < 1.0:
            yield f"{numbered[k]}: {share:.0%} of the words of the shorter text are the same"
        if not each[k]["timed"]:
            yield f"{numbered[k]}: where its words lie is not known; put a TextGrid with the tier words beside it"
    if figures["words"]:
        columns = ["word", *(f"{k + 1}" for k in range(len(names)))]
        yield table(
            "Words: start and duration (ms)",
            columns,
            ([word["text"], *(_span(one) for one in word["said"])] for word in figures["words"]),
        )
        if any(one and one["pitch_hz"] for word in figures["words"] for one in word["said"]):
            yield table(
                "Words: pitch (Hz) and level (dB of full scale)",
                columns,
                ([word["text"], *(_sound(one) for one in word["said"])] for word in figures["words"]),
            )
    rows = (
        [f"{pair['other'] + 1} against {pair['one'] + 1}", *(pair[key] for key, _ in _PAIR)]
        for pair in figures["pairs"]
    )
    yield table(
        "Pairs: medians over words; pitch, level and times of the first number less the second's",
        ["", *(title for _, title in _PAIR)],
        rows,
    )
    if figures["lacks"]:
        yield figures["lacks"]


def _span(word: Mapping[str, Any] | None) -> str:
    return "-" if word is None else f"{1000 * word['start_s']:,.0f} +{1000 * word['duration_s']:,.0f}"


def _sound(word: Mapping[str, Any] | None) -> str:
    if word is None:
        return "-"
    pitch = f"{word['pitch_hz']:.0f}" if word["pitch_hz"] else "-"
    return f"{pitch} {word['level_db']:.0f}" if word["level_db"] is not None else pitch
