"""IST-LM's interleaving rule against the paper's printed examples (equation 1, figure 1, Table 1)."""

import pytest

from studio.core.errors import BadOption
from studio.engine.families.ist.policy import PAPER_RATIOS, RATIOS, InterleavingRule, IstOptions, Ratio, interleave


def written(text: int, speech: int, ratio: str) -> str:
    """The sequence as the paper writes it: x0 x1 y0 ..."""
    return " ".join(f"{kind}{i}" for kind, i in interleave(text, speech, Ratio.parse(ratio)))


@pytest.mark.parametrize(
    ("text", "speech", "ratio", "sequence"),
    [
        (4, 8, "1:2", "x0 y0 y1 x1 y2 y3 x2 y4 y5 x3 y6 y7"),  # figure 1's ratio
        (4, 10, "1:2", "x0 y0 y1 x1 y2 y3 x2 y4 y5 x3 y6 y7 y8 y9"),  # the rest of the speech is appended
        (5, 12, "3:6", "x0 x1 x2 y0 y1 y2 y3 y4 y5 x3 x4 y6 y7 y8 y9 y10 y11"),  # x_0:n-1, y_0:m-1, x_n:2n-1, ...
        (2, 9, "3:9", "x0 x1 y0 y1 y2 y3 y4 y5 y6 y7 y8"),
        (3, 2, "whole", "x0 x1 x2 y0 y1"),  # inf:inf
        (4, 3, "1:2", "x0 y0 y1 x1 y2 x2 x3"),  # speech that ends before its text
    ],
)
def test_the_sequence_of_equation_1(text, speech, ratio, sequence):
    assert written(text, speech, ratio) == sequence


def test_the_papers_twelve_ratios_and_its_counterpart():
    sizes = [Ratio.parse(name) for name in PAPER_RATIOS]
    assert [r.n for r in sizes] == [1] * 3 + [3] * 3 + [6] * 3 + [12] * 3
    assert [r.m // r.n for r in sizes] == [2, 3, 4] * 4 and len(RATIOS) == 13


@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.parametrize(("text", "speech"), [(1, 1), (7, 40), (12, 50), (13, 26), (30, 31), (40, 17)])
def test_every_token_once_in_order_and_in_chunks(name, text, speech):
    ratio = Ratio.parse(name)
    tokens = interleave(text, speech, ratio)
    assert [i for kind, i in tokens if kind == "x"] == [*range(text)]
    assert [i for kind, i in tokens if kind == "y"] == [*range(speech)]
    at = {token: place for place, token in enumerate(tokens)}
    for i in range(text):  # in closed form
        assert at["x", i] == i + min(speech, i // ratio.n * ratio.m)
    for j in range(speech):
        assert at["y", j] == j + min(text, (j // ratio.m + 1) * ratio.n)


@pytest.mark.parametrize("name", RATIOS)
def test_text_that_comes_token_by_token_is_fed_as_the_whole(name):
    ratio = Ratio.parse(name)
    for text in range(1, 30):
        rule, tokens, known = InterleavingRule(ratio), [], 0
        while rule.spoken < 130:
            if rule.speaks_next:
                tokens.append(("y", rule.spoken))
                rule.spoken += 1
                continue
            chunk = rule.chunk(known, is_all=known == text)
            if chunk is None:
                assert known - rule.fed < ratio.n, "it waits for no more than it needs"
                known += 1
                continue
            tokens += [("x", i) for i in chunk]
            rule.feed(chunk, is_all=chunk.stop == text)
        assert tokens == interleave(text, 130, ratio)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("3:1", "more text than it speaks.*1 <= n <= m"),
        ("0:3", "more text than it speaks, or none"),
        ("1:0", "more text than it speaks, or none"),
        ("1-3", "is no ratio.*such as 1:3"),
        ("", "is no ratio"),
        ("1:3:5", "is no ratio"),
        ("-1:3", "is no ratio"),
        ("9" * 5000 + ":1", "is no ratio"),
        ("²:3", "is no ratio"),
        (None, "is no ratio"),
        ("2:5", "no voice has learned the ratio 2:5.*1:2, 1:3"),
    ],
)
def test_ratios_that_do_not_fit_say_what_is_allowed(name, told):
    with pytest.raises(BadOption, match=told):
        IstOptions(name)
