"""The measures of paper 003, section 6.2, by hand."""

import numpy as np
import pytest

from studio.bench.evaluation.interleaving import (
    AlignedText,
    position_statistics,
    speech_positions,
    text_positions,
    word_measures,
)
from studio.engine.families.ist.policy import Ratio, interleave

# Three words of one, two and one tokens, said in two, three and one speech tokens, and one token of silence:
# 1:2 and the text's end: x0 y0 y1 x1 y2 y3 x2 y4 y5 x3 y6 end
TEXT = AlignedText([1, 2, 1], [2, 5, 6], 7)


@pytest.mark.parametrize("ratio", ["1:2", "1:4", "3:6", "6:18", "12:48", "whole"])
@pytest.mark.parametrize(("text", "speech"), [(5, 7), (12, 40), (13, 90), (4, 2), (30, 20)])
def test_positions_follow_the_familys_policy(ratio, text, speech):
    rule = Ratio.parse(ratio)
    at = {token: place for place, token in enumerate(interleave(text, speech, rule))}
    assert text_positions(text, speech, rule.n, rule.m).tolist() == [at["x", i] for i in range(text)]
    assert speech_positions(text, speech, rule.n, rule.m).tolist() == [at["y", j] for j in range(speech)]


def test_one_to_two_by_hand():
    found = word_measures(TEXT, 1, 2)
    # word 0: x at 0, y at 1, 2; word 1: x at 3, 6, y at 4, 5, 7; word 2: x at 9, y at 8
    np.testing.assert_allclose(found.distance, [1.5, 16 / 3 - 4.5, -1.0])
    np.testing.assert_allclose(found.future_words, [0, 0, 0])
    np.testing.assert_allclose(found.precedes, [0, 2 / 6, 1])


def test_all_text_first_by_hand():
    found = word_measures(TEXT, 100, 100)
    # x at 0..3, the text's end at 4, y at 5..11
    np.testing.assert_allclose(found.distance, [5.5, 8 - 1.5, 10 - 3])
    np.testing.assert_allclose(found.future_words, [2, 1, 0])
    np.testing.assert_allclose(found.precedes, [0, 0, 0])
    without_end = word_measures(TEXT, 100, 100, closing_tokens=0)
    np.testing.assert_allclose(without_end.distance, found.distance - 1)


def test_future_words_count_only_when_whole():
    # 3:3: x0 x1 x2 y0 y1 y2 x3 end y3 ...: during word 0, word 1 is complete and word 2 is not
    found = word_measures(TEXT, 3, 3)
    np.testing.assert_allclose(found.future_words, [1, 2 / 3, 0])


def test_statistics_by_position():
    longer = AlignedText([1, 1], [1, 3], 3)  # 1:2: x0 y0 y1 x1 y2: D of word 0 is 1, of word 1 (2 + 4) / 2 - 3 = 0
    found = position_statistics([TEXT, longer], 1, 2, positions=4)
    np.testing.assert_allclose(found.mean_distance[:2], [1.25, (5 / 6 + 0) / 2])
    np.testing.assert_allclose(found.std_distance[:3], [0.25, 5 / 12, 0])
    np.testing.assert_allclose(found.precedes[:3], [0, (1 / 3 + 1 / 2) / 2, 1])
    assert found.samples.tolist() == [2, 2, 1, 0]
    assert np.isnan(found.mean_distance[3]) and np.isnan(found.future_words[3])


def test_word_without_speech_is_left_out():
    found = position_statistics([AlignedText([1, 1, 1], [2, 2, 5], 5)], 1, 2, positions=3)
    assert found.samples.tolist() == [1, 0, 1] and np.isnan(found.precedes[1])
    assert position_statistics([], 1, 2, positions=2).samples.tolist() == [0, 0]


def test_directions_of_the_paper():
    """Section 6.3: the effect of n and m on the four measures, for speech of seven tokens per text token."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(40):
        tokens = rng.integers(1, 4, 30)
        ends = np.cumsum(tokens * 7 + rng.integers(-2, 3, 30))
        texts.append(AlignedText(tokens.tolist(), ends.tolist(), int(ends[-1])))

    def means(n: int, m: int) -> np.ndarray:
        s = position_statistics(texts, n, m, positions=30)
        return np.array([s.mean_distance.mean(), s.std_distance.mean(), s.future_words.mean(), s.precedes.mean()])

    small, large = means(1, 3), means(12, 36)
    assert large[0] > small[0] and large[2] > small[2] and large[3] <= small[3]
    wide, narrow = means(3, 6), means(3, 12)
    assert narrow[0] < wide[0] and narrow[1] < wide[1] and narrow[2] < wide[2] and narrow[3] >= wide[3]
