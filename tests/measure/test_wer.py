"""Word error rate: counts, parts, interval coverage."""

import numpy as np
import pytest

from studio.measure.wer import (
    WordErrors,
    bootstrap_difference,
    bootstrap_rate,
    corpus_errors,
    scored_words,
    word_errors,
    word_errors_by_part,
)


@pytest.mark.parametrize(
    "text, words",
    [
        ("Printing, in the ONLY sense!", "printing in the only sense"),
        ("It\u2019s the rock 'n' roll of well-known dogs'", "it is the rock n roll of well known dogs"),
        ("twenty-one men in eighteen forty-two", "21 men in 1842"),
        ("three thousand, five hundred", "3500"),
        (
            "He'll, can't, won't, I'd, they've, let's, gonna",
            "he will can not will not i would they have let us going to",
        ),
        ("The colour of the theatre's honour", "the color of the theater is honor"),
        ("Mr. Brown and Dr. Gray", "mister brown and doctor gray"),
        ("Um, hmm, well", "well"),
        ("The Bible (printed in fourteen sixty-two) [and] others", "the bible printed in 1462 and others"),
        ("caf\u00e9 na\u00efve", "cafe naive"),
        ("fifty percent of $5.50", "50% of $5.50"),
        ("  ...  ", ""),
    ],
)
def test_scored_words(text, words):
    """The table of appendix C of Whisper's paper: either spelling is one word list."""
    assert scored_words(text) == words.split()
    assert scored_words(words) == words.split()


@pytest.mark.parametrize(
    ("asked", "heard"),
    [("twenty-one men in eighteen forty-two", "21 men in 1842."), ("It isn't grey", "it is not gray")],
)
def test_spelling_variants_are_no_errors(asked, heard):
    assert word_errors(asked, heard).errors == word_errors(heard, asked).errors == 0


@pytest.mark.parametrize(
    "reference, heard, expected",
    [
        ("a b c d", "a b c d", WordErrors(4)),
        ("a b c d", "A, b x d.", WordErrors(4, substitutions=1)),
        ("a b c d", "a d", WordErrors(4, deletions=2)),
        ("a b", "a x y b", WordErrors(2, insertions=2)),
        ("a b", "", WordErrors(2, deletions=2)),
        ("", "a", WordErrors(0, insertions=1)),
    ],
)
def test_counts(reference, heard, expected):
    assert word_errors(reference, heard) == expected


def test_corpus_rate_is_not_the_mean_of_rates():
    each = [word_errors("a", "b"), word_errors("a b c d e f g h i", "a b c d e f g h i")]
    assert corpus_errors(each).rate == pytest.approx(0.1)
    assert np.isnan(corpus_errors([]).rate)


def test_halves_share_one_alignment():
    first, second = word_errors_by_part("a b c d e f", "a x c d d e", [3])
    assert first == WordErrors(3, substitutions=1)
    assert second == WordErrors(3, deletions=1, insertions=1)
    whole = word_errors("a b c d e f", "a x c d d e")
    assert first + second == whole


def test_insertion_at_the_end_belongs_to_the_last_part():
    first, second = word_errors_by_part("a b c d", "a b c d e", [2])
    assert (first.insertions, second.insertions) == (0, 1)


def test_intervals_are_seeded_and_contain_the_value():
    rng = np.random.default_rng(0)
    one = [WordErrors(10, substitutions=int(k)) for k in rng.binomial(10, 0.3, 100)]
    interval = bootstrap_rate(one)
    assert interval == bootstrap_rate(one)
    assert interval != bootstrap_rate(one, seed=1)
    assert interval.low < interval.value < interval.high
    assert 0.02 < interval.high - interval.low < 0.1


def test_pairing_removes_sentence_effects():
    """Sentences differ much; the second system has one more error in each: the difference is certain."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 8, 60)
    one, other = [WordErrors(10, int(k) + 1) for k in base], [WordErrors(10, int(k)) for k in base]
    difference = bootstrap_difference(one, other)
    assert difference.value == pytest.approx(0.1)
    assert difference.low == pytest.approx(0.1)
    assert bootstrap_rate(one).high - bootstrap_rate(one).low > 0.05


def test_interval_has_its_nominal_coverage():
    rng = np.random.default_rng(3)
    hits = 0
    for seed in range(200):
        each = [WordErrors(12, int(k)) for k in rng.binomial(12, 0.25, 80)]
        interval = bootstrap_rate(each, repeats=500, seed=seed)
        hits += interval.low <= 0.25 <= interval.high
    assert 174 <= hits <= 199
