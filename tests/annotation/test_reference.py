"""A reference's TextGrid as layers: what is said, on the samples of the sound, and what is of another sound is told."""

import pytest

from studio.annotation.agreement import agreement
from studio.annotation.formats.textgrid import read_reference
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark
from studio.core.errors import BadFile
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, write_tiers

RATE_HZ = 16_000


def grid(length_s: float = 1.0) -> bytes:
    """As the Montreal Forced Aligner writes it."""
    words = [TextGridEntry(0.0, 0.1, "sil"), TextGridEntry(0.1, 0.5, "hello"), TextGridEntry(0.6, length_s, "there")]
    phones = [
        TextGridEntry(0.1, 0.3, "HH"),
        TextGridEntry(0.3, 0.5, "AH0"),
        TextGridEntry(0.5, 0.6, "sp"),
        TextGridEntry(0.6, length_s, "spn"),
    ]
    return write_tiers([TextGridTier("words", False, words), TextGridTier("phones", False, phones)], length_s).encode()


def test_silences_are_left_out_and_the_rest_lies_on_samples() -> None:
    words, phones = read_reference(grid(), RATE_HZ, RATE_HZ)
    assert words == Layer("words", marks=(Mark(1600, 8000, "hello"), Mark(9600, 16_000, "there")))
    assert [mark.label for mark in phones.marks] == ["HH", "AH0"]


def test_a_grid_may_end_a_little_behind_its_sound_and_no_more() -> None:
    words, _ = read_reference(grid(1.08), RATE_HZ, RATE_HZ)
    assert words.marks[-1].end_sample == RATE_HZ
    with pytest.raises(BadFile, match=r"the sound ends at 1\.000 s"):
        read_reference(grid(1.2), RATE_HZ, RATE_HZ)


def test_an_annotators_words_are_measured_against_it() -> None:
    words, _ = read_reference(grid(), RATE_HZ, RATE_HZ)
    own = Layer("words", marks=(Mark(1760, 8000, "hello"), Mark(10_400, 16_000, "there")))
    pair = agreement({"ann": own, "reference": words}, RATE_HZ, RATE_HZ, 20.0).pairs[0]
    assert (pair.f1.value, len(pair.matched)) == (3 / 4, 2)
