"""Inter-annotator agreement: boundaries within a collar, and labels. Undefined figures have a reason."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from studio.annotation.layers import AnnotationLayer, AnnotationMark, Kind
from studio.core.errors import BadOption
from studio.measure.statistics import cohen_kappa, krippendorff
from studio.measure.word_timing import BoundaryScore, boundary_score

FRAME_MS = 10.0
LEAST_OVERLAP = 0.5

_MAX_CANDIDATES = 1_000_000


@dataclass(frozen=True)
class AgreementFigure:
    """A value over ``n`` units, or the reason why it is undefined."""

    value: float | None
    n: int
    undefined: str = ""


@dataclass(frozen=True)
class AnnotatorPair:
    """Two annotators.

    Attributes:
        boundaries: score with ``one`` as predicted and ``other`` as true: starts are matched with starts, ends with
            ends, points with points, each at most once.
        precision, recall, f1: of the boundaries.
        matched: pairs of corresponding marks.
        only_one, only_other: marks without a counterpart.
        kappa_marks: Cohen's kappa of the labels of ``matched``.
        kappa_frames: Cohen's kappa over all frames of the sound; no mark is a category.
    """

    one: str
    other: str
    boundaries: BoundaryScore
    precision: AgreementFigure
    recall: AgreementFigure
    f1: AgreementFigure
    matched: tuple[tuple[AnnotationMark, AnnotationMark], ...]
    only_one: tuple[AnnotationMark, ...]
    only_other: tuple[AnnotationMark, ...]
    kappa_marks: AgreementFigure
    kappa_frames: AgreementFigure


@dataclass(frozen=True)
class Agreement:
    """All annotators of one layer of one sound.

    Attributes:
        precision, recall, f1: means over the pairs where they are defined.
        alpha_marks: Krippendorff's alpha (nominal) of the labels of marks matched by at least two annotators.
        alpha_frames: the same over all frames of the sound.
    """

    kind: Kind
    collar_ms: float
    frame_ms: float
    pairs: tuple[AnnotatorPair, ...]
    precision: AgreementFigure
    recall: AgreementFigure
    f1: AgreementFigure
    alpha_marks: AgreementFigure
    alpha_frames: AgreementFigure


def agreement(
    by_annotator: Mapping[str, AnnotationLayer],
    samples: int,
    rate_hz: int,
    collar_ms: float = 20.0,
    frame_ms: float = FRAME_MS,
) -> Agreement:
    """Agreement of the annotators of one layer.

    Two regions match with an intersection over union of at least 0.5, two points within the collar. The nearest are
    matched first, among equally near ones those with the same label; a match has at most one mark of each annotator. A
    frame's category is the set of labels at its middle. Raises BadOption: there are fewer than two annotators, the
    kinds differ, the collar or frame is out of range, or too many marks overlap.

    Args:
        by_annotator: the same layer by each, of one kind.
        samples, rate_hz: of the sound.
        collar_ms: maximal distance of agreeing boundaries.
        frame_ms: length of a frame.
    """
    layers = {name: layer.validated(samples) for name, layer in sorted(by_annotator.items())}
    kinds: set[Kind] = {layer.kind for layer in layers.values()}
    if len(layers) < 2:
        raise BadOption("agreement needs two annotators", "have a second person annotate the sound")
    if len(kinds) > 1:
        raise BadOption("one layer holds regions, another one points", "compare layers of one kind")
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
    units = [{name: labels[mark.label] for name, mark in unit.items()} for unit in match_marks(layers, collar)]
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
        alpha_frames=_NO_FRAMES if frames is None else _alpha(frames.astype(np.float64), "the sound has no frames"),
    )


def match_marks(layers: Mapping[str, AnnotationLayer], collar: float) -> list[dict[str, AnnotationMark]]:
    """Groups of corresponding marks of at least two annotators, by time.

    ``layers``: with sorted marks; ``collar``: in samples, for points.
    """
    candidates = sorted(
        edge for one, other in combinations(sorted(layers), 2) for edge in _near(one, other, layers, collar)
    )
    unit_of: dict[tuple[str, int], dict[str, int]] = {}
    for _, _, one, i, other, j in candidates:
        first, second = unit_of.get((one, i), {one: i}), unit_of.get((other, j), {other: j})
        if first is second or first.keys() & second.keys():
            continue
        first |= second
        unit_of |= dict.fromkeys(first.items(), first)
    units = {id(unit): unit for unit in unit_of.values()}.values()
    whole = [{name: layers[name].marks[unit[name]] for name in sorted(unit)} for unit in units]
    return sorted(whole, key=lambda unit: (min(unit.values()), sorted(unit)))


def _near(
    one: str, other: str, layers: Mapping[str, AnnotationLayer], collar: float
) -> Iterator[tuple[float, bool, str, int, str, int]]:
    """Candidate matches: (distance, whether labels differ, annotator, mark, annotator, mark)."""
    others = layers[other].marks
    starts = np.array([mark.start_sample for mark in others], np.float64)
    ends = np.array([mark.end_sample for mark in others], np.float64)
    count = 0
    for i, mark in enumerate(layers[one].marks):
        start, end = mark.start_sample, mark.end_sample
        reach = end - start or collar  # bounds the start of a region with enough overlap
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
            raise BadOption("too many marks overlap to be matched", "compare a part of them")
        for k in near.tolist():
            yield float(away[k]), mark.label != others[low + k].label, one, i, other, low + k


def _pair(
    one: str, other: str, layers: Mapping[str, AnnotationLayer], collar: float, frames: np.ndarray | None
) -> AnnotatorPair:
    first, second = layers[one], layers[other]
    score = BoundaryScore(0, 0, 0)
    for edge in ("start_sample", "end_sample") if first.kind == "regions" else ("start_sample",):
        detected, true = ([float(getattr(mark, edge)) for mark in layer.marks] for layer in (first, second))
        score += boundary_score(detected, true, collar)
    matched = tuple((unit[one], unit[other]) for unit in match_marks({one: first, other: second}, collar))
    codes = {text: i for i, text in enumerate({mark.label for both in matched for mark in both})}
    sides = [[codes[both[side].label] for both in matched] for side in (0, 1)]
    return AnnotatorPair(
        one,
        other,
        score,
        _of(score.precision, score.predicted, f"{one} marked nothing"),
        _of(score.recall, score.true, f"{other} marked nothing"),
        _of(score.f1, score.predicted + score.true, "neither marked anything"),
        matched,
        _unmatched(first.marks, [both[0] for both in matched]),
        _unmatched(second.marks, [both[1] for both in matched]),
        _kappa(sides[0], sides[1], "no marks were matched"),
        _NO_FRAMES if frames is None else _kappa(frames[0], frames[1], "the sound has no frames"),
    )


def _unmatched(marks: Sequence[AnnotationMark], matched: Sequence[AnnotationMark]) -> tuple[AnnotationMark, ...]:
    rest = Counter(marks)
    rest.subtract(matched)
    return tuple(rest.elements())


def _frames(
    layers: Mapping[str, AnnotationLayer],
    labels: Mapping[str, int],
    samples: int,
    frame: float,
    known: dict[int, int] | None = None,
) -> np.ndarray:
    """A code for the set of labels at the middle of each frame: int64 [annotators, frames]; 0 for no label.

    ``known`` receives the code of each set, given as a bit mask of ``labels``, in the order of the codes.
    """
    count = int(samples / frame)
    known = {0: 0} if known is None else known
    rows = np.zeros((len(layers), count), np.int64)
    for row, layer in zip(rows, layers.values(), strict=True):
        edges: dict[int, list[tuple[int, int]]] = {}
        for mark in layer.marks:
            for sample, step in ((mark.start_sample, 1), (mark.end_sample, -1)):
                at = min(count, max(0, math.ceil(sample / frame - 0.5)))
                edges.setdefault(at, []).append((labels[mark.label], step))
        active = [0] * len(labels)
        bits = before = 0  # a set of labels as a bit mask
        for at in sorted(edges):
            row[before:at] = known.setdefault(bits, len(known))
            before = at
            for label, step in edges[at]:
                active[label] += step
                bits = bits | 1 << label if active[label] else bits & ~(1 << label)
        row[before:] = known.setdefault(bits, len(known))
    return rows


def frame_labels(
    layers: Mapping[str, AnnotationLayer], samples: int, frame: float
) -> Counter[tuple[frozenset[str], ...]]:
    """How often each combination of the annotators' sets of labels occurs, over the middles of all frames.

    ``layers``: with sorted marks; ``frame``: length in samples. Sets are in the order of ``layers``.
    """
    names = sorted({mark.label for one in layers.values() for mark in one.marks})
    known = {0: 0}
    codes = _frames(layers, {text: i for i, text in enumerate(names)}, samples, frame, known)
    sets = [frozenset(name for i, name in enumerate(names) if bits >> i & 1) for bits in known]
    columns, times = np.unique(codes, axis=1, return_counts=True)
    counts: Counter[tuple[frozenset[str], ...]] = Counter()
    for column, count in zip(columns.T.tolist(), times.tolist(), strict=True):
        counts[tuple(sets[code] for code in column)] += count
    return counts


_NO_FRAMES = AgreementFigure(None, 0, "points have no length")


def _of(value: float, n: int, undefined: str) -> AgreementFigure:
    return AgreementFigure(value, n) if n else AgreementFigure(None, 0, undefined)


def _kappa(one: Sequence[int] | np.ndarray, other: Sequence[int] | np.ndarray, empty: str) -> AgreementFigure:
    value = cohen_kappa(one, other)
    if value is None:
        return AgreementFigure(None, len(one), "both used a single label" if len(one) else empty)
    return AgreementFigure(value, len(one))


def _alpha(matrix: np.ndarray, empty: str) -> AgreementFigure:
    units, judged = matrix.shape[1], np.isfinite(matrix)
    value = krippendorff(matrix[judged], np.nonzero(judged)[1], "nominal")
    return AgreementFigure(value, units, "" if value is not None else "all used a single label" if units else empty)


def _mean(figures: Sequence[AgreementFigure]) -> AgreementFigure:
    values = [one.value for one in figures if one.value is not None]
    return _of(sum(values) / max(1, len(values)), len(values), "no marks")
