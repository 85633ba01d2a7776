"""How clients share places and the queue: nobody's second utterance goes before somebody else's first.

Clients are names; the empty one stands for somebody of whom nothing is known, who is nobody else.
"""

from collections import Counter
from collections.abc import Iterable, Sequence


def in_turn(waiting: Sequence[str], speaking: Iterable[str]) -> list[int]:
    """In which order those who wait are given places: always to a client that has fewest, then to who came first.

    Args:
        waiting: the client of each, in the order in which they came.
        speaking: the client of each that has a place.
    """
    has = Counter(speaking)
    turns = list[tuple[int, int]]()
    for at, client in enumerate(waiting):
        turns.append((has[client] if client else 0, at))
        has[client] += 1
    return [at for _, at in sorted(turns)]


def who_makes_room(waiting: Sequence[str], client: str) -> int | None:
    """Who leaves a full queue for one more of a client: the last of who has most there.

    None where nobody there has more than that client then would.
    """
    waits = Counter(one for one in waiting if one)
    most, count = max(waits.items(), key=lambda item: item[1], default=("", 0))
    if count <= (waits[client] if client else 0) + 1:
        return None
    return max(at for at, one in enumerate(waiting) if one == most)
