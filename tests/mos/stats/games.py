"""Votes with worked values, and votes in a short notation."""

import re

from studio.mos.stats.columns import Vote, Votes, votes_from_rows

GAMES = [
    ("A", "B", 2),
    ("B", "A", 3),
    ("A", "D", 1),
    ("D", "A", 4),
    ("B", "C", 5),
    ("C", "B", 3),
    ("C", "D", 1),
    ("D", "C", 3),
]
FOUR = votes_from_rows([(a, b, "a", None) for a, b, n in GAMES for _ in range(n)])
TWO = votes_from_rows([("x", "y", "a", None)] * 7 + [("x", "y", "b", None)] * 3)


def played(*rows: str, raters: int = 8, items: int = 6) -> Votes:
    """Each row, ``one>other`` or ``one=other``, by every rater on a number of scripts per row."""
    said = [(*re.split("[>=]", row), "a" if ">" in row else "tie") for row in rows]
    every = [Vote(*said[i % len(said)], f"r{r}", f"i{i}") for r in range(raters) for i in range(items * len(said))]
    return votes_from_rows(every)
