"""A comparison packed for the page that shows it: words, maps, figures and sounds; and what is asked for later."""

import math
from typing import Any

import numpy as np

from studio.inspection.bundle import packed
from studio.inspection.comparison.common_axis import TimeMap
from studio.inspection.comparison.compare import (
    Comparison,
    Take,
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


def pack(found: Comparison) -> bytes:
    """What the page draws at once; the sound of utterance k is the array ``pcm{k}``."""
    header = {
        "takes": [
            {
                **clock_figures(take),
                "rate_hz": take.trace.rate_hz,
                "share": share,
                "said": _said(take),
                "own": _map(own),
                "by_word": _map(found.by_word[k]) if found.can_stretch else None,
            }
            for k, (take, share, own) in enumerate(zip(found.takes, found.shares, found.own, strict=True))
        ],
        "reference": found.reference,
        "strangers": found.strangers,
        "can_stretch": found.can_stretch,
        "rows": [[one and one.place for one in row] for row in found.rows],
        "lags": [[one and one.known_to_heard_ms for one in row] for row in found.rows],
        "pairs": [
            {"one": one, "other": other, **vars(pair_figures(found.rows, one, other))}
            for one, other in pairs_of(len(found.takes))
        ],
    }
    sounds = {f"pcm{k}": ("i16", take.trace.pcm.astype("<i2", copy=False)) for k, take in enumerate(found.takes)}
    return packed(plain(header), sounds)


def _said(take: Take) -> list[list[Any]]:
    """Each timed word: text, from and to in s, and whether that is an estimate."""
    estimated = {word.start for word in take.trace.words() if word.source == "estimate"}
    rate_hz = take.trace.rate_hz
    return [[word.text, word.start_s, word.end_s, round(word.start_s * rate_hz) in estimated] for word in take.words]


def pack_words(found: Comparison, most_s: float = math.inf) -> bytes:
    """Pitch and level of each word, and of pairs; takes seconds for a minute of sound.

    Args:
        most_s: of sound of all together whose pitch is measured.
    """
    is_short = sum(take.length_s for take in found.takes) <= most_s
    rows, lacks = measured_rows(found, with_pitch=is_short)
    if not is_short:
        lacks = f"The pitch of more than {most_s / 60:g} minutes is left out: studio compare has it."
    header: dict[str, Any] = {
        "rows": [[one and [one.pitch_hz, one.level_db] for one in row] for row in rows],
        "pairs": [
            {"one": one, "other": other, **vars(pair_figures(rows, one, other))}
            for one, other in pairs_of(len(found.takes))
        ],
        "lacks": lacks,
    }
    return packed(plain(header), {})


def pack_difference(found: Comparison, one: int, other: int, *, stretch: bool) -> bytes:
    """The difference of two spectrograms: an array ``db`` uint8 [columns, bands], low bands first.

    128 is none, 1 and 255 are 30 dB and more, 0 is where either has no sound.

    Raises:
        BadOption: there is no such pair, or it cannot be stretched.
    """
    picture = spectral_difference(found, one, other, stretch=stretch)
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
    return packed(plain(header), {"db": ("u8", np.ascontiguousarray(values.T))})


def _map(laid: TimeMap) -> dict[str, list[float]]:
    return {"axis": laid.axis_s.tolist(), "own": laid.own_s.tolist()}
