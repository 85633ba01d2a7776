"""Comparison of utterances: word matching, a common axis, and known differences."""

import itertools
import random

import numpy as np
import pytest
from inspection.spoken import RATE_HZ, story

from studio.core import events as ev
from studio.core.errors import BadOption, BadText
from studio.core.traces.trace import Trace, collect_trace
from studio.inspection.comparison.common_axis import (
    FLOOR_DB,
    STEP_S,
    TimeMap,
    columns_s,
    match_words,
    spectrogram_db,
    stretched,
)
from studio.inspection.comparison.compare import (
    compare,
    compared_utterance,
    pair_figures,
    spectral_difference,
    with_prosody,
)
from studio.inspection.opening import recording_trace, with_word_times
from studio.measure.prosody import prosody
from studio.measure.word_timing import SpokenSpan


def tone(length_s: float, hz: float = 200.0, peak: float = 6000.0, rate_hz: int = RATE_HZ) -> np.ndarray:
    return (peak * np.sin(2 * np.pi * hz * np.arange(round(length_s * rate_hz)) / rate_hz)).astype(np.int16)


def spoken(spans: list[tuple[str, float, float]], length_s: float, **how: float) -> Trace:
    """A recording with the given word times."""
    sound = recording_trace(tone(length_s, **how), RATE_HZ, "")
    return with_word_times(sound, [SpokenSpan(*one) for one in spans])


def takes(*traces: Trace):
    return [compared_utterance(f"take {k}", trace) for k, trace in enumerate(traces)]


SLOW = spoken([("one", 0.2, 0.6), ("two", 0.6, 1.0), ("three", 1.4, 2.0)], 2.0)
QUICK = spoken([("One,", 0.0, 0.2), ("two", 0.2, 0.4), ("three.", 0.4, 1.0)], 1.2, hz=400.0, peak=3000.0)


def longest(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence by brute force."""
    return max((n for n in range(len(a) + 1) for part in itertools.combinations(a, n) if is_within(part, b)), default=0)


def is_within(part: tuple[str, ...], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(word in rest for word in part)


def test_words_are_matched_by_their_letters() -> None:
    assert match_words(["The", "cat", "sat"], ["the", "big", "cat,", "sat."]) == [(0, 0), (1, 2), (2, 3)]
    assert match_words(["a", "b"], ["c"]) == [] == match_words([], ["a"])
    assert match_words(["a", "a", "b"], ["a", "b"]) == [(0, 0), (2, 1)], "the earliest"


def test_match_is_the_longest_possible() -> None:
    draw = random.Random(1)
    for _ in range(200):
        a, b = ([draw.choice("abc") for _ in range(draw.randrange(7))] for _ in range(2))
        found = match_words(a, b)
        assert len(found) == longest(a, b)
        assert all(a[i] == b[j] for i, j in found)
        assert all(p < q and r < s for (p, r), (q, s) in itertools.pairwise(found))


def test_long_different_texts_are_refused() -> None:
    one, other = [f"a{k}" for k in range(4000)], [f"b{k}" for k in range(4000)]
    with pytest.raises(BadText, match="4,000 and 4,000"):
        match_words(one, other)
    assert len(match_words(["same", *one], ["same", *one])) == 4001, "any length if they are equal"


def test_word_axis_has_mean_lengths() -> None:
    found = compare(takes(SLOW, QUICK))
    slow, quick = found.by_word
    # 0.2 and 0 before, 0.4 and 0.2, nothing between, 0.4 and 0.2, a pause of 0.4 and none, 0.6 and 0.6, 0 and 0.2
    assert slow.axis_s.tolist() == pytest.approx([0.0, 0.1, 0.4, 0.4, 0.7, 0.9, 1.5, 1.6])
    assert slow.axis_s.tolist() == quick.axis_s.tolist()
    at = np.array([0.25, 0.55, 1.2])  # the middle of each word
    assert slow.own(at).tolist() == pytest.approx([0.4, 0.8, 1.7])
    assert quick.own(at).tolist() == pytest.approx([0.1, 0.3, 0.7])
    assert quick.axis(quick.own(at)).tolist() == pytest.approx(at)
    assert quick.own(np.array([0.8])).tolist() == pytest.approx([0.4]), "constant during a pause that it lacks"
    assert slow.own(np.array([-0.5, 2.6])).tolist() == pytest.approx([-0.5, 3.0]), "beyond the ends at its own rate"


def test_word_missing_in_one_lies_between_its_neighbours() -> None:
    short = spoken([("one", 0.0, 0.2), ("three", 0.4, 1.0)], 1.0)
    found = compare(takes(SLOW, short))
    assert found.rows[1][1] is None and found.rows[2][1] is not None
    assert found.by_word[1].own(np.array([found.by_word[0].axis(np.array([1.0]))[0]]))[0] == pytest.approx(
        0.2 + 0.2 / 2
    )
    assert found.shares == (1.0, 1.0)


def test_maps_are_monotonic() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        lists, lengths = [], []
        for _ in range(3):
            edges = np.cumsum(draw.choice([0.0, 0.1, 0.3], 12))
            lists.append([SpokenSpan(f"w{k}", edges[2 * k], edges[2 * k + 1]) for k in range(6)])
            lengths.append(float(edges[-1]))
        matches = [[(k, k) for k in range(6) if n == 0 or draw.random() < 0.7] for n in range(3)]
        for laid in stretched(lists, matches, lengths):
            grid = np.linspace(-0.2, laid.axis_s[-1] + 0.2, 500)
            assert (np.diff(laid.own(grid)) >= -1e-12).all() and (np.diff(laid.axis_s) >= 0).all()


def test_pair_figures_equal_the_known_differences() -> None:
    found = compare(takes(SLOW, QUICK))
    measured = [prosody(one.trace.pcm, RATE_HZ) for one in found.utterances]
    figures = pair_figures(with_prosody(found.rows, measured), 0, 1)
    assert figures.words == 3
    assert figures.duration_ratio == pytest.approx(1.0 / 1.4)
    assert figures.duration_r == pytest.approx(1.0)  # 0.4, 0.4, 0.6 against 0.2, 0.2, 0.6
    assert figures.level_db == pytest.approx(-6.02, abs=0.1)
    assert figures.pitch_st == pytest.approx(12.0, abs=0.3)
    assert figures.known_to_heard_ms is None, "a recording has no clock"


def test_latency_is_compared_word_by_word() -> None:
    late = [
        ev.Audio(sample=one.sample, pcm=one.pcm, t_ms=one.t_ms + 50.0) if isinstance(one, ev.Audio) else one
        for one in story()
    ]
    found = compare(takes(collect_trace({}, story()), collect_trace({}, late)))
    assert found.rows[0][0].known_to_heard_ms == pytest.approx(300.0)  # known at 300, heard at 600
    assert pair_figures(found.rows, 0, 1).known_to_heard_ms == pytest.approx(50.0, abs=1.0)


def test_difference_from_itself_is_zero_and_level_is_removed() -> None:
    sound = tone(1.0) + np.random.default_rng(1).integers(-500, 500, RATE_HZ).astype(np.int16)
    same, quiet = recording_trace(sound, RATE_HZ, "a"), recording_trace((sound // 2).astype(np.int16), RATE_HZ, "a")
    found = compare(takes(same, quiet, same))
    assert np.nanmax(np.abs(spectral_difference(found, 0, 2, stretch=False))) == 0.0
    assert np.nanmax(np.abs(spectral_difference(found, 0, 1, stretch=False))) < 0.7, "levels are removed"


def test_difference_is_located() -> None:
    """200 Hz against 2 kHz: the first has more low, the second more high energy; word-aligned, they end together."""
    found = compare(takes(SLOW, spoken([("one", 0.0, 0.2), ("two", 0.2, 0.4), ("three", 0.4, 1.0)], 1.2, hz=2000.0)))
    picture = spectral_difference(found, 0, 1, stretch=True)
    assert picture.shape == (80, 160)
    middle = np.nanmean(picture[:, 100:140], axis=1)
    low, high = int(np.argmax(middle)), int(np.argmin(middle))
    assert middle[low] > 40 and middle[high] < -40 and low < 20 < 35 < high
    assert np.isnan(picture[:, 75:85]).all(), "the second has no pause there"
    flat = spectral_difference(found, 0, 1, stretch=False)
    assert flat.shape == (80, 200) and np.isnan(flat[:, 121:]).all() and np.isfinite(flat[:, :119]).all()


def test_column_is_analysed_around_its_own_time() -> None:
    click = np.zeros(RATE_HZ, np.int16)
    click[12_000:12_024] = 20_000
    at_s = columns_s(1.0)
    assert at_s[:2].tolist() == pytest.approx([0.005, 0.015]) and len(at_s) == 100
    loud = spectrogram_db(click, RATE_HZ, at_s).max(axis=0)
    assert np.flatnonzero(loud > FLOOR_DB).tolist() == [49, 50], "12.5 ms on each side of 0.5 s"
    assert np.isnan(spectrogram_db(click, RATE_HZ, np.array([-STEP_S, 1.0]))).all()


def test_different_text_is_reported_and_not_aligned() -> None:
    other = spoken([("nothing", 0.0, 0.2), ("of", 0.2, 0.4), ("that", 0.4, 1.0)], 1.0)
    found = compare(takes(SLOW, QUICK, other))
    assert found.other_texts == [2] and not found.can_stretch
    with pytest.raises(BadOption, match="word by word"):
        spectral_difference(found, 0, 1, stretch=True)
    assert spectral_difference(found, 0, 2, stretch=False).shape == (80, 200)


def test_recording_without_times_is_shown_unaligned() -> None:
    found = compare(takes(recording_trace(tone(1.0), RATE_HZ, "one two three"), SLOW))
    assert found.reference == 1 and not found.can_stretch and found.other_texts == []
    assert [[one is None for one in row] for row in found.rows] == [[True, False]] * 3


@pytest.mark.parametrize("count", [0, 9])
def test_number_of_utterances_is_limited(count: int) -> None:
    with pytest.raises(BadOption, match=f"{count} utterances"):
        compare(takes(*[SLOW] * count))


def test_map_extrapolates_and_hits_its_knots() -> None:
    laid = TimeMap(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 3.0, 4.0]))
    assert laid.own(np.array([0.5, 1.0, 1.5])).tolist() == pytest.approx([0.5, 3.0, 3.5])
    assert laid.axis(np.array([2.0])).tolist() == [1.0]
