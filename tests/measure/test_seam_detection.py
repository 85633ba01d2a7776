"""The detector finds existing differences and no others."""

import numpy as np
import pytest

from studio.measure.seams import WordBoundary, area, area_interval, boundary_features, scores

pytestmark = pytest.mark.slow

RATE_HZ = 16_000


def test_area_is_the_share_of_ordered_pairs() -> None:
    random = np.random.default_rng(1)
    found, labels = random.integers(0, 6, 80).astype(float), random.random(80) < 0.4
    weights = random.integers(0, 4, 80).astype(float)
    ours = [(v, w) for v, y, w in zip(found, labels, weights, strict=True) if y]
    others = [(v, w) for v, y, w in zip(found, labels, weights, strict=True) if not y]
    pairs = [(w * u, (v > o) + 0.5 * (v == o)) for v, w in ours for o, u in others]
    expected = sum(w * won for w, won in pairs) / sum(w for w, _ in pairs)
    assert area(found, labels, weights) == pytest.approx(expected)
    assert np.isnan(area(found, np.ones(80, bool)))
    assert area(-found, labels, weights) == pytest.approx(1 - expected)


def test_difference_is_detected_and_equality_is_not() -> None:
    random = np.random.default_rng(2)
    sentences = np.repeat(np.arange(60), 10)
    labels = random.random(600) < 0.5
    noise = random.normal(size=(600, 20))
    nothing = area_interval(scores(noise, labels, sentences), labels, sentences)
    assert abs(nothing.value - 0.5) < 0.08 and 0.05 < nothing.high - nothing.low < 0.15
    shifted = noise.copy()
    shifted[:, 3] += 2.0 * labels
    assert area(scores(shifted, labels, sentences), labels) > 0.9
    wider = noise.copy()
    wider[labels, 5] *= 4.0  # only its size differs: visible in the squares
    assert area(scores(wider, labels, sentences), labels) > 0.8


def test_sentences_are_split_between_training_and_test() -> None:
    """Each sentence has an uninformative mark of its own: memorising it would give an area of 1."""
    random = np.random.default_rng(3)
    sentences = np.repeat(np.arange(40), 8)
    alike = random.random(40) < 0.5
    labels = alike[sentences]  # all boundaries of a sentence are equal
    marks = np.eye(40)[sentences]
    found = scores(marks, labels, sentences)
    assert area_interval(found, labels, sentences).low < 0.55


def test_click_at_a_boundary_is_detected() -> None:
    """Speech-like noise, words of 200 ms; two samples jump at every other boundary."""
    random = np.random.default_rng(4)
    features, labels, sentences = [], [], []
    for number in range(24):
        pcm = np.convolve(random.normal(size=3 * RATE_HZ), np.hanning(24), "same")
        pcm *= 1.0 + 0.5 * np.sin(2 * np.pi * 3 * np.arange(len(pcm)) / RATE_HZ + random.random())
        pcm = (3000 * pcm / np.abs(pcm).max()).astype(np.int16)
        boundaries = [WordBoundary(0.2 * k, 0.2, 0.2, bool(k % 2)) for k in range(1, 14)]
        for one in boundaries:
            if one.is_seam:
                at = round((one.at_s + random.uniform(-0.02, 0.02)) * RATE_HZ)
                pcm[at : at + 2] += np.array([1500, -1500], np.int16)
        features.append(boundary_features(pcm, RATE_HZ, boundaries))
        labels += [one.is_seam for one in boundaries]
        sentences += [number] * len(boundaries)
    x, y, of = np.concatenate(features), np.array(labels), np.array(sentences)
    assert np.isfinite(x).all()
    assert area(scores(x, y, of), y) > 0.9
    assert boundary_features(pcm, RATE_HZ, []).shape == (0, x.shape[1])
