"""Agreement of annotators over a corpus: all sounds that two or more have annotated, by layer.

Counts are pooled over the sounds, so a long one weighs more than a short one. Marks in one sound are not independent,
so intervals are over sounds: percentiles of a bootstrap that draws sounds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studio.annotation.agreement import FRAME_MS, agreement, frame_labels, match_marks
from studio.annotation.layers import AnnotationLayer, Kind
from studio.core.errors import BadOption

FEW_SOUNDS = 5  # fewest sounds for an interval
_DRAWS = 1000
_PERCENTILES = (2.5, 97.5)

F8 = NDArray[np.float64]


@dataclass(frozen=True)
class LayerOfSound:
    """One layer of one sound by each annotator, and the sound's length."""

    layers: Mapping[str, AnnotationLayer]
    samples: int
    rate_hz: int


@dataclass(frozen=True)
class CorpusFigure:
    """A figure over all sounds, with its 95% interval."""

    value: float | None  # None if undefined
    low: float | None  # None also for fewer than ``FEW_SOUNDS`` sounds
    high: float | None
    n: int  # number of boundaries, marks or frames


@dataclass(frozen=True)
class CorpusAgreement:
    """All sounds of one layer.

    Attributes:
        sounds: number of sounds annotated by two or more.
        annotators: of these sounds.
        boundary_f1: from the hits within the collar over all pairs of annotators.
        matched: share of marks matched by another annotator's, with the same label or not.
        alpha_marks: Krippendorff's alpha (nominal) of the labels of matched marks.
        alpha_frames: the same over all frames; None for points.
    """

    layer: str
    kind: Kind
    sounds: int
    annotators: tuple[str, ...]
    boundary_f1: CorpusFigure
    matched: CorpusFigure
    alpha_marks: CorpusFigure
    alpha_frames: CorpusFigure | None


def corpus_agreement(
    layer: str,
    sounds: Iterable[LayerOfSound],
    collar_ms: float = 20.0,
    frame_ms: float = FRAME_MS,
    seed: int = 0,
) -> CorpusAgreement:
    """Agreement on one layer.

    Args:
        layer: its name.
        sounds: annotated by two or more, all with one kind of layer.
        collar_ms, frame_ms: as in ``agreement``.
        seed: of the bootstrap.

    Raises BadOption: there are no sounds, or the kinds differ between sounds.
    """
    counted, boundaries, marks = list(sounds), list[tuple[int, int]](), list[tuple[int, int]]()
    labels, frames = _Alpha(), _Alpha()
    kinds: set[Kind] = set()
    for sound in counted:
        result = agreement(sound.layers, sound.samples, sound.rate_hz, collar_ms, frame_ms)
        kinds.add(result.kind)
        if len(kinds) > 1:
            raise BadOption(f"layer {layer!r} holds regions in one sound and points in another", "rename one of them")
        scores = [pair.boundaries for pair in result.pairs]
        boundaries.append((sum(2 * s.hits for s in scores), sum(s.predicted + s.true for s in scores)))
        valid = {name: one.validated(sound.samples) for name, one in sorted(sound.layers.items())}
        units = match_marks(valid, collar_ms * sound.rate_hz / 1000.0)
        marks.append((sum(len(unit) for unit in units), sum(len(one.marks) for one in valid.values())))
        labels.add([Counter(mark.label for mark in unit.values()) for unit in units])
        if result.kind == "regions":
            frames.add_columns(frame_labels(valid, sound.samples, frame_ms * sound.rate_hz / 1000.0))
    if not counted:
        raise BadOption(f"no sound has a layer {layer!r} of two annotators", "have a second person annotate some")
    kind, draws = kinds.pop(), _draws(len(counted), seed)
    return CorpusAgreement(
        layer,
        kind,
        len(counted),
        tuple(sorted({name for sound in counted for name in sound.layers})),
        _ratio(boundaries, draws),
        _ratio(marks, draws),
        labels.figure(draws),
        frames.figure(draws) if kind == "regions" else None,
    )


def _draws(sounds: int, seed: int) -> F8 | None:
    """Count of each sound in each bootstrap sample [draws, sounds]; None for fewer than ``FEW_SOUNDS``."""
    if sounds < FEW_SOUNDS:
        return None
    return np.random.default_rng(seed).multinomial(sounds, np.full(sounds, 1 / sounds), _DRAWS).astype(np.float64)


def _ratio(counts: Sequence[tuple[int, int]], draws: F8 | None) -> CorpusFigure:
    """Sum of the first over the sum of the second."""
    table = np.array(counts, np.float64)
    whole = table.sum(axis=0)
    value = float(whole[0] / whole[1]) if whole[1] else None
    resampled: F8 = np.empty(0) if draws is None else _quotient(draws @ table[:, 0], draws @ table[:, 1])
    return CorpusFigure(value, *_ends(value, resampled), int(whole[1]))


def _quotient(over: F8, under: F8) -> F8:
    return over[under > 0] / under[under > 0]


def _ends(value: float | None, resampled: F8) -> tuple[float | None, float | None]:
    if value is None or not len(resampled):
        return None, None
    low, high = np.percentile(resampled, _PERCENTILES)
    return float(low), float(high)


class _Alpha:
    """Sufficient statistics of Krippendorff's nominal alpha, by sound (Krippendorff 2018, chapter 12).

    A unit with m labels, n_c of them c, has m pairable values and sum n_c (n_c - 1) / (m - 1) coincidences of equal
    labels. Alpha is 1 - (n - 1) (n - coincidences) / (n^2 - sum of N_c^2) with n values and N_c of each label.
    """

    def __init__(self) -> None:
        self._agreed: list[float] = []  # coincidences of each sound
        self._codes: dict[object, int] = {}
        # one row for each label of each sound: sound, code, count
        self._rows: list[tuple[int, int, int]] = []

    def add(self, units: Sequence[Counter[str]]) -> None:
        """Add the units of a sound; those with one label are not pairable."""
        agreed, totals = 0.0, Counter[object]()
        for unit in units:
            if (m := unit.total()) > 1:
                agreed += sum(n * (n - 1) for n in unit.values()) / (m - 1)
                totals.update(unit)
        self._put(agreed, totals)

    def add_columns(self, columns: Counter[tuple[frozenset[str], ...]]) -> None:
        """Add the frames of a sound: the count of each combination of the annotators' label sets."""
        agreed, totals = 0.0, Counter[object]()
        for column, times in columns.items():
            counts = Counter(column)
            agreed += times * sum(n * (n - 1) for n in counts.values()) / (len(column) - 1)
            for value, n in counts.items():
                totals[value] += n * times
        self._put(agreed, totals)

    def _put(self, agreed: float, totals: Counter[object]) -> None:
        sound = len(self._agreed)
        self._agreed.append(agreed)
        self._rows += [(sound, self._codes.setdefault(label, len(self._codes)), n) for label, n in totals.items()]

    def figure(self, draws: F8 | None) -> CorpusFigure:
        table = np.array(self._rows, np.int64).reshape(-1, 3)
        sound, code, count = table.T
        agreed = np.array(self._agreed)

        def alpha(weight: F8) -> float | None:
            totals = np.bincount(code, weight[sound] * count, len(self._codes))
            n = totals.sum()
            expected = n * n - float(totals @ totals)
            if n < 2 or expected <= 0:
                return None  # every label is the same
            return 1.0 - (n - 1.0) * float(n - weight @ agreed) / expected

        value = alpha(np.ones(len(agreed)))
        resampled = [] if draws is None else [one for weight in draws if (one := alpha(weight)) is not None]
        return CorpusFigure(value, *_ends(value, np.array(resampled)), int(count.sum()))
