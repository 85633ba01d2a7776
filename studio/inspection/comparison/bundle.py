"""Pack a comparison for its page: words, time maps, figures and sounds; prosody and differences separately."""

import math
from typing import Any

import numpy as np

from studio.inspection.bundle import pack_arrays
from studio.inspection.comparison.common_axis import TimeMap
from studio.inspection.comparison.compare import (
    ComparedUtterance,
    UtteranceComparison,
    clock_figures,
    pair_figures,
    pairs_of,
    spectral_difference,
)
from studio.inspection.comparison.spectra import BANDS, STEP_S, mean_difference_db
from studio.inspection.comparison.tables import measured_rows
from studio.measure.report import plain

MOST_DB = 30.0  # of a difference, as it is drawn
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

    Args:
        max_s: no pitch where the sounds are longer together.
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

    128 is 0 dB, 1 and 255 are -30 and 30 dB or beyond, 0 means that either has no sound.

    Raises:
        BadOption: there is no such pair, or stretching is impossible.
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
