"""Random annotations with extreme labels."""

from dataclasses import replace

import numpy as np

from studio.annotation.layers import Annotation, Kind
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark

RATES_HZ = (16_000, 22_050, 24_000, 44_100, 48_000)
TEXTS = (
    "click", "", " ", 'she said "no"', '"', '""', "two\nlines", "a\ttab", "שלום", "ยินดี", "👩‍🚀", "=1+1", "'tis",
    "'=x", "a;b,c", "<b>&amp;", "! no comment", "xmin = 3", "a \\ b", "7", " padded ", "item [1]:", "\n", "a  b", "@me",
)  # fmt: skip
NAMES = (
    "words",
    "seam heard",
    "a (2)",
    "a (notes)",
    "a",
    "a (2) (1)",
    'say "x"',
    "two\nlines",
    "דגש",
    "=cmd",
    "b (2 notes)",
)


def random_annotation(
    seed: int, *, overlaps: bool = True, most: int = 12, texts: tuple[str, ...] = TEXTS
) -> Annotation:
    """Some layers of some marks on up to ten seconds of audio."""
    rng = np.random.default_rng(seed)
    rate_hz = int(rng.choice(RATES_HZ))
    samples = int(rng.integers(1, 10 * rate_hz))
    names = rng.choice(NAMES, rng.integers(0, 5), replace=False)
    layers = tuple(_layer(str(name), rng, samples, overlaps, most, texts) for name in names)
    return Annotation(rate_hz, samples, layers).validated()


def _layer(
    name: str, rng: np.random.Generator, samples: int, overlaps: bool, most: int, texts: tuple[str, ...]
) -> Layer:
    kind: Kind = "points" if rng.random() < 0.4 else "regions"
    count = int(rng.integers(0, most))
    edges = rng.integers(0, samples + 1, 2 * count)
    if not overlaps:
        edges = np.unique(edges)
    pairs = np.sort(edges[: len(edges) // 2 * 2].reshape(-1, 2), axis=1)
    marks = []
    for start, end in pairs.tolist():
        label, note = (str(rng.choice(texts)) for _ in range(2))
        note = note if rng.random() < 0.5 else ""
        if kind == "points" or start < end:
            marks.append(Mark(start, start if kind == "points" else end, label, note))
    if not overlaps:
        marks = list({(one.start_sample, one.end_sample): one for one in marks}.values())
    labels = tuple(dict.fromkeys(str(one) for one in rng.choice(texts, rng.integers(0, 4)) if one.strip()))
    return Layer(name, kind, labels, tuple(marks))


def without_labels(annotation: Annotation) -> Annotation:
    """What a format without label sets stores."""
    return replace(annotation, layers=tuple(replace(one, labels=()) for one in annotation.layers))
