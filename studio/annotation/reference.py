"""A reference's TextGrid as layers to lie under one's own marks: an aligner's words and phones, a colleague's tiers."""

from dataclasses import replace

from studio.annotation.formats.placing import Placing
from studio.annotation.formats.textgrid import read_on
from studio.annotation.layers import Layer

SILENCES = frozenset({"sil", "sp", "spn", "<eps>", "<p>", "#"})

_GRACE_S = 0.1  # as ``studio inspect --reference``: aligners end where their frames do


def reference_layers(data: bytes, rate_hz: int, samples: int) -> tuple[Layer, ...]:
    """Every tier of a TextGrid, without the intervals that say silence; notes and label sets are none of a reference's.

    To measure against it, give a layer of it to ``studio.annotation.agreement.agreement`` beside one's own.

    Args:
        data: the file, as the Montreal Forced Aligner or Praat writes it.
        rate_hz, samples: of the sound that it is of.

    Raises:
        BadFile: it is no TextGrid, or lies more than 100 ms behind the end of the sound.
    """
    layers = read_on(data, Placing(rate_hz, samples, _GRACE_S)).layers
    return tuple(replace(one, marks=tuple(mark for mark in one.marks if _is_said(mark.label))) for one in layers)


def _is_said(label: str) -> bool:
    return label.strip().lower() not in SILENCES | {""}
