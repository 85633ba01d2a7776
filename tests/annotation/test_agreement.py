"""Agreement of annotators: worked examples, published examples as marks, undefined cases."""

import numpy as np
import pytest

from studio.annotation.agreement import agreement, match_marks
from studio.annotation.formats.textgrid import read_reference
from studio.annotation.layers import AnnotationLayer as Layer
from studio.annotation.layers import AnnotationMark as Mark
from studio.core.errors import BadFile, BadOption
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, write_tiers

RATE_HZ, SAMPLES = 24_000, 240_000
BEN, GERRY = "aabbdcccedda", "babbbccceddd"


def in_a_row(labels: str, length: int = 2400, shift: int = 0) -> Layer:
    """Regions of a tenth of a second with equal gaps."""
    marks = (Mark(2 * k * length + shift, (2 * k + 1) * length + shift, label) for k, label in enumerate(labels))
    return Layer("words", marks=tuple(marks))


def points(*at: tuple[int, str]) -> Layer:
    return Layer("clicks", "points", marks=tuple(Mark(sample, sample, label) for sample, label in at))


def test_boundaries_within_the_collar_by_hand() -> None:
    """Four boundaries against six: starts 0, 4,800 and end 2,400 (480 = 20 ms) agree, but not 7,200 and 7,681."""
    one = Layer("w", marks=(Mark(0, 2400, "a"), Mark(4800, 7200, "b")))
    other = Layer("w", marks=(Mark(0, 2880, "a"), Mark(4800, 7681, "b"), Mark(12_000, 14_400, "c")))
    found = agreement({"ann": one, "bob": other}, SAMPLES, RATE_HZ, 20.0)
    (pair,) = found.pairs
    assert (pair.boundaries.hits, pair.boundaries.predicted, pair.boundaries.true) == (3, 4, 6)
    assert (pair.precision.value, pair.recall.value, pair.f1.value) == (3 / 4, 3 / 6, 6 / 10)
    assert found.f1.value == pair.f1.value
    assert [(a.label, b.label) for a, b in pair.matched] == [("a", "a"), ("b", "b")]
    assert (pair.only_one, [mark.label for mark in pair.only_other]) == ((), ["c"])


def test_labels_of_matched_regions_give_krippendorffs_alpha() -> None:
    """Krippendorff 2011, section B (.692): twelve articles as regions with slightly different edges."""
    found = agreement({"ben": in_a_row(BEN), "gerry": in_a_row(GERRY, shift=300)}, SAMPLES, RATE_HZ, 20.0)
    assert found.alpha_marks.value == pytest.approx(0.692, abs=5e-4)
    assert (found.alpha_marks.n, found.pairs[0].kappa_marks.n) == (12, 12)
    assert found.f1.value == 1.0


def test_labels_of_matched_points_give_cohens_kappa() -> None:
    """Cohen 1960, table 1 (.492): two hundred points."""
    table = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    pairs = [(i, j) for i in range(3) for j in range(3) for _ in range(table[i, j])]
    one, other = (points(*((1000 * k, str(pair[side])) for k, pair in enumerate(pairs))) for side in (0, 1))
    found = agreement({"one": one, "other": other}, SAMPLES, RATE_HZ, 10.0)
    assert found.pairs[0].kappa_marks.value == pytest.approx(0.492, abs=5e-4)
    assert found.alpha_frames.value is None and found.alpha_frames.undefined == "points have no length"


def test_frames_by_hand() -> None:
    """Ten frames of 10 ms: 4 both a, 2 one a and other nothing, 4 nothing: p_o .8, p_e .6 * .4 + .4 * .6 = .48."""
    one, other = (Layer("w", marks=(Mark(0, 1440, "a"),)), Layer("w", marks=(Mark(0, 960, "a"),)))
    found = agreement({"one": one, "other": other}, 2400, RATE_HZ, 20.0)
    kappa = found.pairs[0].kappa_frames
    assert (kappa.value, kappa.n) == (pytest.approx((0.8 - 0.48) / 0.52), 10)
    # Krippendorff 2011, section A's two categories: 1 - (n - 1) o_01 / (n_0 n_1), n = 20, o_01 = 2, n_0 = n_1 = 10
    assert found.alpha_frames.value == pytest.approx(1 - 19 * 2 / 100)


def test_overlapping_labels_of_a_frame_are_a_category() -> None:
    both = Layer("w", marks=(Mark(0, 1200, "a"), Mark(0, 1200, "b")))
    turned = Layer("w", marks=(Mark(0, 1200, "b"), Mark(0, 1200, "a")))
    assert agreement({"x": both, "y": turned}, 2400, RATE_HZ).alpha_frames.value == 1.0
    only = Layer("w", marks=(Mark(0, 1200, "a"), Mark(0, 1200, "a")))
    assert agreement({"x": both, "y": only}, 2400, RATE_HZ).pairs[0].kappa_frames.value < 1.0
    found = agreement({"x": both, "y": turned}, 2400, RATE_HZ).pairs[0]
    assert [(a.label, b.label) for a, b in found.matched] == [("a", "a"), ("b", "b")]


def test_three_annotators_share_a_unit_with_one_mark_each() -> None:
    layers = {"a": points((100, "x")), "b": points((110, "x"), (112, "y")), "c": points((105, "x"), (900, "z"))}
    units = match_marks(layers, 20.0)
    assert units == [{"a": Mark(100, 100, "x"), "b": Mark(110, 110, "x"), "c": Mark(105, 105, "x")}]


def test_order_of_annotators_changes_no_match() -> None:
    rng = np.random.default_rng(0)
    names = ("a", "b", "c")
    layers = {
        name: Layer(
            "w", marks=tuple(sorted(Mark(int(at), int(at) + 900, "xy"[at % 2]) for at in rng.integers(0, 9000, 30)))
        )
        for name in names
    }
    found = match_marks(layers, 100.0)
    assert found == match_marks(dict(reversed(layers.items())), 100.0)
    used = [(name, mark) for unit in found for name, mark in unit.items()]
    assert len(found) > 5 and all(len(unit) > 1 for unit in found)
    assert len(used) <= 90


def test_undefined_values_are_reported() -> None:
    empty, one = Layer("w"), in_a_row("aa")
    found = agreement({"x": empty, "y": empty}, SAMPLES, RATE_HZ)
    assert (found.f1.value, found.f1.undefined) == (None, "no marks")
    assert found.alpha_marks.undefined == "no marks were matched"
    assert found.alpha_frames.undefined == "all used a single label"
    found = agreement({"x": empty, "y": one}, SAMPLES, RATE_HZ)
    pair = found.pairs[0]
    assert (pair.precision.undefined, pair.recall.value, pair.f1.value) == ("x marked nothing", 0.0, 0.0)
    assert pair.kappa_marks.undefined == "no marks were matched"
    found = agreement({"x": one, "y": one}, SAMPLES, RATE_HZ)
    assert found.pairs[0].kappa_marks.undefined == "both used a single label"
    assert found.pairs[0].kappa_frames.value == 1.0
    assert agreement({"x": empty, "y": empty}, 100, RATE_HZ).alpha_frames.undefined == "the sound has no frames"


def test_invalid_comparison_is_refused() -> None:
    with pytest.raises(BadOption, match="two annotators"):
        agreement({"x": in_a_row("a")}, SAMPLES, RATE_HZ)
    with pytest.raises(BadOption, match="another one points"):
        agreement({"x": in_a_row("a"), "y": points((1, "a"))}, SAMPLES, RATE_HZ)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadOption, match="a collar of"):
            agreement({"x": in_a_row("a"), "y": in_a_row("a")}, SAMPLES, RATE_HZ, wrong)
    crowd = Layer("w", marks=tuple(Mark(0, 1000, str(k)) for k in range(1100)))
    with pytest.raises(BadOption, match="too many marks"):
        agreement({"x": crowd, "y": crowd}, SAMPLES, RATE_HZ)


REFERENCE_RATE_HZ = 16_000


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


def test_silences_are_left_out_and_the_rest_is_on_samples() -> None:
    words, phones = read_reference(grid(), REFERENCE_RATE_HZ, REFERENCE_RATE_HZ)
    assert words == Layer("words", marks=(Mark(1600, 8000, "hello"), Mark(9600, 16_000, "there")))
    assert [mark.label for mark in phones.marks] == ["HH", "AH0"]


def test_grid_may_end_slightly_after_its_sound() -> None:
    words, _ = read_reference(grid(1.08), REFERENCE_RATE_HZ, REFERENCE_RATE_HZ)
    assert words.marks[-1].end_sample == REFERENCE_RATE_HZ
    with pytest.raises(BadFile, match=r"the sound ends at 1\.000 s"):
        read_reference(grid(1.2), REFERENCE_RATE_HZ, REFERENCE_RATE_HZ)


def test_annotators_words_are_measured_against_it() -> None:
    words, _ = read_reference(grid(), REFERENCE_RATE_HZ, REFERENCE_RATE_HZ)
    own = Layer("words", marks=(Mark(1760, 8000, "hello"), Mark(10_400, 16_000, "there")))
    pair = agreement({"ann": own, "reference": words}, REFERENCE_RATE_HZ, REFERENCE_RATE_HZ, 20.0).pairs[0]
    assert (pair.f1.value, len(pair.matched)) == (3 / 4, 2)
