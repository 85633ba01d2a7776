"""Do annotators agree: on where something is, within a collar, and on what it is.

Undefined stays undefined: a figure without a value says why.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from studio.annotation.layers import Kind, Layer, Mark
from studio.core.errors import BadOption
from studio.measure.agreement import cohen_kappa, krippendorff
from studio.measure.timing.boundaries import BoundaryScore, boundary_score

FRAME_MS = 10.0
LEAST_OVERLAP = 0.5

_MAX_CANDIDATES = 1_000_000


@dataclass(frozen=True)
class Figure:
    """A value of ``n`` units, or why there is none."""

    value: float | None
    n: int
    undefined: str = ""


@dataclass(frozen=True)
class Pair:
    """Two annotators.

    Attributes:
        boundaries: of ``one``, as found, against ``other``, as true: starts with starts, ends with ends, points with
            points, each used once.
        precision, recall, f1: of these.
        matched: marks of the two that are about the same thing.
        only_one, only_other: marks without one.
        kappa_marks: Cohen's kappa of the labels of ``matched``.
        kappa_frames: and of all frames of the sound, those without a mark being a category of their own.
    """

    one: str
    other: str
    boundaries: BoundaryScore
    precision: Figure
    recall: Figure
    f1: Figure
    matched: tuple[tuple[Mark, Mark], ...]
    only_one: tuple[Mark, ...]
    only_other: tuple[Mark, ...]
    kappa_marks: Figure
    kappa_frames: Figure


@dataclass(frozen=True)
class Agreement:
    """All annotators of one layer of one sound.

    Attributes:
        precision, recall, f1: means over the pairs where they are defined.
        alpha_marks: Krippendorff's alpha (nominal) of the labels of matched marks, each by two annotators or more.
        alpha_frames: and of all frames of the sound.
    """

    kind: Kind
    collar_ms: float
    frame_ms: float
    pairs: tuple[Pair, ...]
    precision: Figure
    recall: Figure
    f1: Figure
    alpha_marks: Figure
    alpha_frames: Figure


def agreement(
    by_annotator: Mapping[str, Layer], samples: int, rate_hz: int, collar_ms: float = 20.0, frame_ms: float = FRAME_MS
) -> Agreement:
    """How far annotators of one layer agree.

    Two regions are about the same thing where they share at least half of what either covers (intersection over union
    0.5); two points, where they lie within the collar. The nearest are matched first, of equally near ones those with
    the same label, and nobody has two marks in one match. A frame's category is the set of labels at its middle.

    Args:
        by_annotator: the same layer by each, of one kind.
        samples, rate_hz: of the sound.
        collar_ms: how far apart two boundaries may lie that agree.
        frame_ms: length of a frame.

    Raises:
        BadOption: there are fewer than two annotators, the kinds differ, the collar or frame is out of range, or so
            many marks lie over one another that they cannot be matched.
    """
    layers = {name: layer.within(samples) for name, layer in sorted(by_annotator.items())}
    kinds: set[Kind] = {layer.kind for layer in layers.values()}
    if len(layers) < 2:
        raise BadOption("agreement needs two annotators", "have another one mark the same sound")
    if len(kinds) > 1:
        raise BadOption("the layers hold regions here and points there", "compare layers of one kind")
    if not (0.0 <= collar_ms <= 10_000.0 and 1.0 <= frame_ms <= 10_000.0):
        raise BadOption(
            f"a collar of {collar_ms:g} ms and frames of {frame_ms:g} ms",
            "a collar is 0 to 10,000 ms, a frame 1 to 10,000 ms",
        )
    kind = kinds.pop()
    collar = collar_ms * rate_hz / 1000.0
    names = list(layers)
    labels = {text: i for i, text in enumerate(sorted({mark.label for one in layers.values() for mark in one.marks}))}
    frames = _frames(layers, labels, samples, frame_ms * rate_hz / 1000.0) if kind == "regions" else None
    pairs = tuple(
        _pair(one, other, layers, collar, None if frames is None else frames[[names.index(one), names.index(other)]])
        for one, other in combinations(names, 2)
    )
    units = [{name: labels[mark.label] for name, mark in unit.items()} for unit in matches(layers, collar)]
    matrix = np.array([[unit.get(name, np.nan) for unit in units] for name in names], np.float64)
    return Agreement(
        kind,
        collar_ms,
        frame_ms,
        pairs,
        precision=_mean([pair.precision for pair in pairs]),
        recall=_mean([pair.recall for pair in pairs]),
        f1=_mean([pair.f1 for pair in pairs]),
        alpha_marks=_alpha(matrix, "no marks were matched"),
        alpha_frames=_POINTLESS if frames is None else _alpha(frames.astype(np.float64), "the sound has no frames"),
    )


def matches(layers: Mapping[str, Layer], collar: float) -> list[dict[str, Mark]]:
    """Marks that are about the same thing, each by two annotators or more, in the order of time.

    Args:
        layers: whose marks are sorted.
        collar: in samples, for points.
    """
    found = sorted(edge for one, other in combinations(sorted(layers), 2) for edge in _near(one, other, layers, collar))
    unit_of: dict[tuple[str, int], dict[str, int]] = {}
    for _, _, one, i, other, j in found:
        first, second = unit_of.get((one, i), {one: i}), unit_of.get((other, j), {other: j})
        if first is second or first.keys() & second.keys():
            continue
        first |= second
        unit_of |= dict.fromkeys(first.items(), first)
    units = {id(unit): unit for unit in unit_of.values()}.values()
    whole = [{name: layers[name].marks[unit[name]] for name in sorted(unit)} for unit in units]
    return sorted(whole, key=lambda unit: (min(unit.values()), sorted(unit)))


def _near(
    one: str, other: str, layers: Mapping[str, Layer], collar: float
) -> Iterator[tuple[float, bool, str, int, str, int]]:
    """What may be matched: (how far from the same, whether labels differ, annotator, mark, annotator, mark)."""
    others = layers[other].marks
    starts = np.array([mark.start_sample for mark in others], np.float64)
    ends = np.array([mark.end_sample for mark in others], np.float64)
    count = 0
    for i, mark in enumerate(layers[one].marks):
        start, end = mark.start_sample, mark.end_sample
        reach = end - start or collar  # what shares a half of both begins no further away than the region is long
        low = int(np.searchsorted(starts, start - reach, side="left"))
        high = int(np.searchsorted(starts, start + reach, side="right"))
        if end > start:
            both = np.minimum(ends[low:high], end) - np.maximum(starts[low:high], start)
            either = np.maximum(ends[low:high], end) - np.minimum(starts[low:high], start)
            away = 1.0 - np.maximum(both, 0.0) / either
            near = np.flatnonzero(away <= 1.0 - LEAST_OVERLAP)
        else:
            away = np.abs(starts[low:high] - start)
            near = np.flatnonzero(away <= collar)
        count += len(near)
        if count > _MAX_CANDIDATES:
            raise BadOption("too many marks lie over one another to be matched", "compare a part of them")
        for k in near.tolist():
            yield float(away[k]), mark.label != others[low + k].label, one, i, other, low + k


def _pair(one: str, other: str, layers: Mapping[str, Layer], collar: float, frames: np.ndarray | None) -> Pair:
    first, second = layers[one], layers[other]
    score = BoundaryScore(0, 0, 0)
    for edge in ("start_sample", "end_sample") if first.kind == "regions" else ("start_sample",):
        found, true = ([float(getattr(mark, edge)) for mark in layer.marks] for layer in (first, second))
        score += boundary_score(found, true, collar)
    matched = tuple((unit[one], unit[other]) for unit in matches({one: first, other: second}, collar))
    codes = {text: i for i, text in enumerate({mark.label for both in matched for mark in both})}
    sides = [[codes[both[side].label] for both in matched] for side in (0, 1)]
    return Pair(
        one,
        other,
        score,
        _of(score.precision, score.found, f"{one} marked nothing"),
        _of(score.recall, score.true, f"{other} marked nothing"),
        _of(score.f1, score.found + score.true, "neither marked anything"),
        matched,
        _left(first.marks, [both[0] for both in matched]),
        _left(second.marks, [both[1] for both in matched]),
        _kappa(sides[0], sides[1], "no marks were matched"),
        _POINTLESS if frames is None else _kappa(frames[0], frames[1], "the sound has no frames"),
    )


def _left(marks: Sequence[Mark], taken: Sequence[Mark]) -> tuple[Mark, ...]:
    """Marks that were not taken; of equal ones as many as were not."""
    left = Counter(marks)
    left.subtract(taken)
    return tuple(left.elements())


def _frames(layers: Mapping[str, Layer], labels: Mapping[str, int], samples: int, frame: float) -> np.ndarray:
    """A number for the set of labels at the middle of each frame: int64 [annotators, frames]; 0 where there is none."""
    count = int(samples / frame)
    known = {0: 0}
    rows = np.zeros((len(layers), count), np.int64)
    for row, layer in zip(rows, layers.values(), strict=True):
        edges: dict[int, list[tuple[int, int]]] = {}
        for mark in layer.marks:
            for sample, step in ((mark.start_sample, 1), (mark.end_sample, -1)):
                at = min(count, max(0, math.ceil(sample / frame - 0.5)))
                edges.setdefault(at, []).append((labels[mark.label], step))
        active = [0] * len(labels)
        bits = before = 0  # a set of labels as the bits of a number
        for at in sorted(edges):
            row[before:at] = known.setdefault(bits, len(known))
            before = at
            for label, step in edges[at]:
                active[label] += step
                bits = bits | 1 << label if active[label] else bits & ~(1 << label)
        row[before:] = known.setdefault(bits, len(known))
    return rows


_POINTLESS = Figure(None, 0, "points have no length")


def _of(value: float, n: int, undefined: str) -> Figure:
    return Figure(value, n) if n else Figure(None, 0, undefined)


def _kappa(one: Sequence[int] | np.ndarray, other: Sequence[int] | np.ndarray, empty: str) -> Figure:
    value = cohen_kappa(one, other)
    if value is None:
        return Figure(None, len(one), "both said the same of everything" if len(one) else empty)
    return Figure(value, len(one))


def _alpha(matrix: np.ndarray, empty: str) -> Figure:
    units = matrix.shape[1]
    value = krippendorff(matrix, "nominal") if units else None
    return Figure(value, units, "" if value is not None else "all said the same of everything" if units else empty)


def _mean(figures: Sequence[Figure]) -> Figure:
    values = [one.value for one in figures if one.value is not None]
    return _of(sum(values) / max(1, len(values)), len(values), "nobody marked anything")
