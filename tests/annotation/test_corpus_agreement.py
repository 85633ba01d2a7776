"""Agreement over a corpus: pooled figures against those of the sounds put together, intervals over sounds."""

import numpy as np
import pytest

from studio.annotation.agreement import agreement
from studio.annotation.corpus_agreement import FEW_SOUNDS, LayerOfSound, corpus_agreement
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark
from studio.core.errors import BadOption
from studio.measure.statistics import krippendorff

RATE_HZ, SAMPLES, WORD = 24_000, 24_000, 2400
LABELS = ("a", "b", "c")


def sound(rng: np.random.Generator, names: str = "xyz", error: float = 0.2) -> LayerOfSound:
    """Five words by each annotator; labels, edges and words differ with probability ``error``."""
    true = rng.integers(0, 3, 5)
    layers: dict[str, Layer] = {}
    for name in names:
        marks: list[Mark] = []
        for k, label in enumerate(true):
            if rng.random() < error / 2:
                continue  # missed
            said = int(rng.integers(0, 3)) if rng.random() < error else label
            start = 2 * k * WORD + (int(rng.integers(0, 1000)) if rng.random() < error else 0)
            marks.append(Mark(start, start + WORD - 200, LABELS[said]))
        layers[name] = Layer("words", marks=tuple(marks))
    return LayerOfSound(layers, SAMPLES, RATE_HZ)


def joined(sounds: list[LayerOfSound]) -> LayerOfSound:
    """One sound with all marks after one another."""
    names = sorted({name for one in sounds for name in one.layers})
    marks = {
        name: tuple(
            Mark(m.start_sample + k * SAMPLES, m.end_sample + k * SAMPLES, m.label)
            for k, one in enumerate(sounds)
            for m in one.layers[name].marks
        )
        for name in names
    }
    return LayerOfSound({n: Layer("words", marks=m) for n, m in marks.items()}, SAMPLES * len(sounds), RATE_HZ)


def test_pooled_figures_are_those_of_the_sounds_put_together() -> None:
    rng = np.random.default_rng(0)
    sounds = [sound(rng) for _ in range(30)]
    found = corpus_agreement("words", sounds)
    whole = joined(sounds)
    one = agreement(whole.layers, whole.samples, RATE_HZ)
    assert (found.sounds, found.annotators, found.kind) == (30, ("x", "y", "z"), "regions")
    assert found.alpha_marks.value == pytest.approx(one.alpha_marks.value)
    assert found.alpha_frames is not None
    assert found.alpha_frames.value == pytest.approx(one.alpha_frames.value)
    assert found.alpha_frames.n == 3 * one.alpha_frames.n
    scores = [pair.boundaries for pair in one.pairs]
    hits, both = sum(2 * s.hits for s in scores), sum(s.predicted + s.true for s in scores)
    assert found.boundary_f1.value == pytest.approx(hits / both) and found.boundary_f1.n == both
    for figure in (found.boundary_f1, found.matched, found.alpha_marks, found.alpha_frames):
        assert figure.low < figure.value < figure.high <= 1.0
        assert figure.high - figure.low < 0.25


def test_annotators_may_differ_between_sounds() -> None:
    """Pairs xy and yz: alpha of the matrix with missing values."""
    rng = np.random.default_rng(1)
    sounds = [sound(rng, "xy" if k % 2 else "yz", error=0.0) for k in range(8)]
    wrong = sounds[0].layers["z"].marks
    swapped = tuple(Mark(m.start_sample, m.end_sample, "c") for m in wrong)
    sounds[0] = LayerOfSound({**sounds[0].layers, "z": Layer("words", marks=swapped)}, SAMPLES, RATE_HZ)
    found = corpus_agreement("words", sounds)
    columns = []
    for one in sounds:
        for k in range(5):
            column = [LABELS.index(one.layers[n].marks[k].label) if n in one.layers else np.nan for n in "xyz"]
            columns.append(column)
    assert found.annotators == ("x", "y", "z")
    matrix = np.array(columns, float)  # [units, annotators]
    unit, annotator = np.nonzero(np.isfinite(matrix))
    assert found.alpha_marks.value == pytest.approx(krippendorff(matrix[unit, annotator], unit, "nominal"))
    assert (found.matched.value, found.matched.n) == (1.0, 80)


def test_interval_is_over_sounds() -> None:
    """Half of the sounds agree, half do not: few sounds say little, however many marks each has."""
    same = tuple(Mark(k * 200, k * 200 + 150, "ab"[k % 2]) for k in range(100))
    other = tuple(Mark(m.start_sample, m.end_sample, "b" if m.label == "a" else "a") for m in same)
    halves = [
        LayerOfSound({"x": Layer("w", marks=same), "y": Layer("w", marks=marks)}, SAMPLES, RATE_HZ)
        for marks in (same, other)
    ]
    found = corpus_agreement("w", halves * 4)
    assert found.alpha_marks.value == pytest.approx(0.0, abs=0.01)
    assert found.alpha_marks.high - found.alpha_marks.low > 0.8
    assert corpus_agreement("w", halves * 4, seed=1).alpha_marks.value == found.alpha_marks.value
    assert corpus_agreement("w", halves * 4) == found, "the same seed, the same interval"
    few = corpus_agreement("w", halves * 2)
    assert len(halves * 2) < FEW_SOUNDS and (few.alpha_marks.low, few.boundary_f1.high) == (None, None)


def test_points_have_no_frames() -> None:
    clicks = {n: Layer("clicks", "points", marks=(Mark(100 + k, 100 + k, "x"),)) for k, n in enumerate("ab")}
    found = corpus_agreement("clicks", [LayerOfSound(clicks, SAMPLES, RATE_HZ)] * 6)
    assert found.alpha_frames is None and found.boundary_f1.value == 1.0
    assert found.alpha_marks.value is None, "a single label"


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(BadOption, match="no sound has a layer"):
        corpus_agreement("w", [])
    clicks = {n: Layer("w", "points") for n in "ab"}
    regions = {n: Layer("w") for n in "ab"}
    with pytest.raises(BadOption, match="regions in one sound and points in another"):
        corpus_agreement("w", [LayerOfSound(one, SAMPLES, RATE_HZ) for one in (clicks, regions)])
