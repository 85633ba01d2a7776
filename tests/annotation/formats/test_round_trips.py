"""Round trips: to the sample, or to the millisecond if the format has no finer time."""

from pathlib import Path

import pytest
from annotation.formats.marks import TEXTS, random_annotation, without_labels

from studio.annotation.formats.registry import FORMATS
from studio.annotation.layers import Annotation
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark
from studio.core.errors import BadOption

RATE_HZ = 24_000


def back(name: str, given: Annotation) -> Annotation:
    form = FORMATS[name]
    return form.read(form.write(given), given.rate_hz, given.samples)


@pytest.mark.parametrize("name", ["csv", "labelstudio"])
def test_thousand_random_annotations_round_trip(name: str) -> None:
    for seed in range(1000):
        given = random_annotation(seed)
        assert back(name, given) == given, seed


def test_thousand_random_annotations_round_trip_through_praat_to_the_sample() -> None:
    for seed in range(1000):
        given = random_annotation(seed)
        assert back("textgrid", given) == without_labels(given), seed


def test_thousand_random_annotations_round_trip_through_elan_to_the_millisecond() -> None:
    for seed in range(1000):
        given = random_annotation(seed)
        found = back("eaf", given)
        assert [(one.name, one.kind, one.labels) for one in found.layers] == [
            (one.name, one.kind, one.labels) for one in given.layers
        ], seed
        for layer, was in zip(found.layers, given.layers, strict=True):
            assert sorted(rounded(layer, given)) == sorted(rounded(was, given)), seed


def rounded(layer: Layer, of: Annotation) -> list[tuple[int, int, str, str]]:
    """Marks in milliseconds, of at least one each; the sound ends at its last whole millisecond."""
    rows = []
    last_ms = 1000 * of.samples // of.rate_hz
    for mark in layer.marks:
        start, end = (min(round(1000 * at / of.rate_hz), last_ms) for at in (mark.start_sample, mark.end_sample))
        end = max(end, start + 1) if layer.kind == "regions" else start
        if end > last_ms:
            start, end = min(start, last_ms - 1), last_ms
        rows.append((start, end, mark.label, mark.note))
    return rows


def test_audacity_keeps_times_and_labels_of_one_layer_to_the_sample() -> None:
    texts = tuple(text for text in TEXTS if not set(text) & {"\n", "\t"})
    for seed in range(1000):
        given = random_annotation(seed, texts=texts)
        for layer in given.layers:
            found = back("audacity", Annotation(given.rate_hz, given.samples, (layer,)))
            marks = [(one.start_sample, one.end_sample, one.label) for one in found.layers[0].marks]
            assert marks == sorted((one.start_sample, one.end_sample, one.label) for one in layer.marks), seed
            assert not layer.marks or found.layers[0].kind == layer.kind


def test_praatio_reads_the_same_intervals_and_points(tmp_path: Path) -> None:
    """A second reader; it strips labels, drops empty ones and cuts at apparent headings."""
    from praatio import textgrid

    texts = ("click", 'she said "no"', "two\nlines", "a\ttab", "שלום", "👩‍🚀", "=1+1", "7")
    for seed in range(1000):
        given = random_annotation(seed, overlaps=False, texts=texts)
        plain = tuple(
            one for one in given.layers if one.marks and one.name in ("words", "seam heard", "דגש", 'say "x"')
        )
        if not plain:
            continue
        given = Annotation(given.rate_hz, given.samples, plain)
        (tmp_path / "a.TextGrid").write_bytes(FORMATS["textgrid"].write(given))
        grid = textgrid.openTextgrid(str(tmp_path / "a.TextGrid"), includeEmptyIntervals=False)
        for layer in plain:
            tier = grid.getTier(layer.name)
            if layer.kind == "points":
                # praatio keeps doubled quotation marks in point labels
                found = [(round(p.time * given.rate_hz), p.label.replace('""', '"')) for p in tier.entries]
                assert found == [(one.start_sample, one.label) for one in layer.marks], seed
            else:
                found = [(round(i.start * given.rate_hz), round(i.end * given.rate_hz), i.label) for i in tier.entries]
                assert found == [(one.start_sample, one.end_sample, one.label) for one in layer.marks], seed


@pytest.mark.parametrize("name", ["textgrid", "eaf"])
def test_overlaps_are_split_into_tiers_and_merged_on_import(name: str) -> None:
    marks = tuple(Mark(RATE_HZ * k // 10, RATE_HZ * (k + 3) // 10, f"m{k}", f"note {k}") for k in range(7))
    given = Annotation(RATE_HZ, RATE_HZ, (Layer("clicks", marks=marks), Layer("clicks (2)", "points")))
    written = FORMATS[name].write(given).decode()
    assert all(f'"{one}"' in written for one in ("clicks", "clicks (2)", "clicks (3)", "clicks (2) (1)"))
    assert '"clicks (4)"' not in written
    assert back(name, given) == given


@pytest.mark.parametrize("name", ["textgrid", "eaf"])
def test_hundred_overlapping_marks_are_too_many_for_tiers(name: str) -> None:
    marks = tuple(Mark(0, 1000, str(k)) for k in range(101))
    with pytest.raises(BadOption, match="more than 100 marks overlap"):
        FORMATS[name].write(Annotation(RATE_HZ, RATE_HZ, (Layer("all", marks=marks),)))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_annotation_without_marks_is_valid(name: str) -> None:
    given = Annotation(RATE_HZ, RATE_HZ, (Layer("words"), Layer("clicks", "points")))
    found = back(name, given)
    assert not any(one.marks for one in found.layers)
    if name != "audacity":
        assert found == given
