"""Whose turn it is, and who makes room, by table and by law."""

import random
from collections import Counter

import pytest

from studio.engine.hosting.sharing import in_turn, who_makes_room


@pytest.mark.parametrize(
    ("waiting", "speaking", "order"),
    [
        ([], [], []),
        (["", "", ""], ["", ""], [0, 1, 2]),  # nobody is known: first come, first served
        (["a", "a", "a"], ["a"], [0, 1, 2]),
        (["a", "a", "b"], ["a"], [2, 0, 1]),
        (["a", "a", "b", "b"], [], [0, 2, 1, 3]),
        (["a", "", "b"], ["a"], [1, 2, 0]),
        (["a", "a", "a", "b", "c", "b"], ["b"], [0, 4, 1, 3, 2, 5]),
    ],
)
def test_places_go_to_who_has_fewest(waiting: list[str], speaking: list[str], order: list[int]) -> None:
    assert in_turn(waiting, speaking) == order


@pytest.mark.parametrize(
    ("waiting", "client", "leaves"),
    [
        ([], "a", None),
        (["a", "a"], "a", None),
        (["a", "a"], "b", 1),
        (["a", "b"], "c", None),
        (["a", "b", "a"], "b", None),  # it would have two, too
        (["a", "b", "a", "a", "b"], "c", 3),
        (["", "", ""], "a", None),
        (["a", "a", ""], "", 1),
    ],
)
def test_room_is_made_by_who_has_most(waiting: list[str], client: str, leaves: int | None) -> None:
    assert who_makes_room(waiting, client) == leaves


def test_shares_even_out_and_nobody_is_pushed_out_for_who_has_as_many() -> None:
    draw = random.Random(5)
    for _ in range(200):
        waiting = draw.choices("abcd", k=8)
        for _ in range(40):
            client = draw.choice("abcd")
            leaves = who_makes_room(waiting, client)
            if leaves is not None:
                assert Counter(waiting)[waiting[leaves]] > Counter(waiting)[client] + 1
                del waiting[leaves]
                waiting.append(client)
        order = [waiting[at] for at in in_turn(waiting, [])]
        assert sorted(order) == sorted(waiting)
        firsts = len(set(waiting))
        assert len(set(order[:firsts])) == firsts, "everybody's first comes before anybody's second"
