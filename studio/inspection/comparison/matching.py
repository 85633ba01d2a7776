"""Which words of two utterances are the same, where their texts may differ a little."""

from collections.abc import Sequence

import numpy as np

from studio.core.errors import BadText
from studio.measure.timing.word_timing import letters

MAX_CELLS = 10_000_000  # of the table of a pair of texts: 3,100 words against as many, all between differing ends


def match_words(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places of the same words, in order, each word used once: a longest common subsequence.

    Words are the same by their letters, whatever their case and marks. Among the longest it is the one that pairs the
    earliest words of ``one`` with the earliest of ``other`` (Wagner and Fischer 1974 with insertions and deletions).

    Raises:
        BadText: both texts are long, and differ from near their beginning to near their end.
    """
    a, b = [letters(word) for word in one], [letters(word) for word in other]
    shortest = min(len(a), len(b))
    head = next((k for k in range(shortest) if a[k] != b[k]), shortest)
    tail = next((k for k in range(shortest - head) if a[-1 - k] != b[-1 - k]), shortest - head)
    ends = range(tail, 0, -1)
    middle = _longest(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((k, k) for k in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((len(a) - k, len(b) - k) for k in ends),
    ]


def _longest(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    if len(a) * len(b) > MAX_CELLS:
        raise BadText(f"texts of {len(a):,} and {len(b):,} words differ", "compare utterances of nearly one text")
    names = {word: k for k, word in enumerate(dict.fromkeys((*a, *b)))}
    left, right = np.array([names[word] for word in a]), np.array([names[word] for word in b])
    # rest[i, j]: the longest of a[i:] and b[j:]. In a row it grows from right to left, so a running maximum fills it.
    rest = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a) - 1, -1, -1):
        through = np.where(right == left[i], rest[i + 1, 1:] + 1, rest[i + 1, :-1])
        rest[i, :-1] = np.maximum.accumulate(through[::-1])[::-1]
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b) and rest[i, j]:
        if a[i] == b[j]:  # to pair the first of both is never worse
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif rest[i, j + 1] == rest[i, j]:
            j += 1
        else:
            i += 1
    return pairs
