"""Assignment: quotas, balance, uniformity; every claim of studio.mos.campaign.design over many seeds and shapes."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from studio.mos.campaign.design import (
    AssignedUnit,
    AssignmentCounts,
    Unit,
    UnitTable,
    assemble_session,
    assign_units,
    balance_order,
    order_stimuli,
)

_UNLIKELY = 1e-4  # a correct design fails a test for one seed in ten thousand; the seeds are fixed


def singles(items: int, systems: int) -> list[Unit]:
    """One unit per (script, system)."""
    return [Unit(f"{i}:{s}", i, (i * 100 + s,), (s,)) for i in range(items) for s in range(systems)]


def pairs(items: int) -> list[Unit]:
    """One unit of two systems per script."""
    return [Unit(f"{i}:0+1", i, (i * 100, i * 100 + 1), (0, 1)) for i in range(items)]


shapes = st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(1, 5), st.integers(1, 14), st.integers(0, 10**6))


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_quota_is_never_exceeded_and_finally_filled(shape: tuple[int, int, int, int, int]) -> None:
    """Raters join until no screens are left; then every unit has exactly its quota."""
    items, systems, quota, count, seed = shape
    units, load, rng = singles(items, systems), AssignmentCounts(), Random(seed)
    assigned: Counter[str] = Counter()
    while chosen := assign_units(UnitTable(units), load, quota, count, rng):
        keys = [p.unit.key for p in chosen]
        assert len(set(keys)) == len(keys) <= count
        assigned.update(keys)
        assert max(assigned.values()) <= quota
    assert dict(assigned) == {u.key: quota for u in units} == dict(load.assigned)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_no_unit_is_more_than_one_rater_ahead(shape: tuple[int, int, int, int, int]) -> None:
    """Holds after every rater whose session repeats no script, so also when a campaign closes early."""
    items, systems, _, count, seed = shape
    units, load, rng = singles(items, systems), AssignmentCounts(), Random(seed)
    for _ in range(12):
        assign_units(UnitTable(units), load, 10**6, min(count, items), rng)
        given_now = [load.assigned[u.key] for u in units]
        assert max(given_now) - min(given_now) <= 1


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_no_script_repeats_while_others_are_left(shape: tuple[int, int, int, int, int]) -> None:
    """Holds for any earlier assignment, as long as the quota leaves a choice."""
    items, systems, _, count, seed = shape
    units, load, rng = singles(items, systems), AssignmentCounts(), Random(seed)
    for _ in range(6):
        heard = Counter(p.unit.item_id for p in assign_units(UnitTable(units), load, 10**6, count, rng))
        assert max(heard.values()) - min(heard[i] for i in range(items)) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(0, 10**6))
def test_rater_hears_the_systems_in_turn(systems: int, rounds: int, seed: int) -> None:
    """The first rater hears all systems equally often."""
    chosen = assign_units(
        UnitTable(singles(systems * rounds, systems)), AssignmentCounts(), 5, systems * rounds, Random(seed)
    )
    assert Counter(p.unit.systems[0] for p in chosen) == dict.fromkeys(range(systems), rounds)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 10**6))
def test_every_stimulus_leads_equally_often(width: int, raters: int, seed: int) -> None:
    """Sides are counterbalanced within one, for every unit and after every rater, not only random."""
    unit = Unit("page", 1, tuple(range(width)), tuple(range(width)))
    load, rng = AssignmentCounts(), Random(seed)
    for _ in range(raters):
        placed = order_stimuli(unit, load, rng)
        assert sorted(placed.order) == list(unit.stimuli)
        led = [load.first["page", s] for s in unit.stimuli]
        assert max(led) - min(led) <= 1
    assert load.assigned["page"] == raters


def test_checks_and_practice_have_no_quota() -> None:
    load = AssignmentCounts()
    for role in ("training", "trap", "gold"):
        assert order_stimuli(pairs(1)[0], load, Random(1), role).role == role
    assert not +load.assigned and not +load.first


@given(shapes)
@settings(max_examples=20, deadline=None)
def test_same_seed_gives_the_same_assignment(shape: tuple[int, int, int, int, int]) -> None:
    """A rater's list can be reproduced from the campaign's seed."""
    items, systems, quota, count, seed = shape
    units = singles(items, systems)

    def once() -> list[AssignedUnit]:
        rng = Random(f"{seed}|1")
        tests = assign_units(UnitTable(units), AssignmentCounts(), quota, count, rng)
        return assemble_session(tests, [], [order_stimuli(units[0], AssignmentCounts(), rng, "trap")], 2, rng)

    assert once() == once()


def test_other_seeds_give_other_assignments() -> None:
    """Two raters get different orders."""
    orders = {
        tuple(p.unit.key for p in assign_units(UnitTable(singles(6, 2)), AssignmentCounts(), 9, 6, Random(f"7|{n}")))
        for n in range(50)
    }
    assert len(orders) > 45


@pytest.mark.parametrize("ahead", [0, 3])
def test_position_of_a_unit_is_uniform(ahead: int) -> None:
    """Chi-square over 2,000 seeds: each of eight units is equally likely at each of eight positions."""
    units = singles(8, 1)
    places: Counter[tuple[str, int]] = Counter()
    for seed in range(2000):
        load = AssignmentCounts(assigned=Counter(u.key for u in units[:ahead]))
        chosen = assign_units(UnitTable(units), load, 2, 8, Random(f"3|{seed}"))
        places.update((p.unit.key, at) for at, p in enumerate(chosen))
    assert len(places) == 64
    assert chisquare(list(places.values())).pvalue > _UNLIKELY


def test_choice_of_units_is_uniform() -> None:
    """A first rater with three screens gets each of twelve units equally often."""
    chosen: Counter[str] = Counter()
    for seed in range(2000):
        chosen.update(
            p.unit.key for p in assign_units(UnitTable(singles(4, 3)), AssignmentCounts(), 5, 3, Random(f"5|{seed}"))
        )
    assert len(chosen) == 12 and sum(chosen.values()) == 6000
    assert chisquare(list(chosen.values())).pvalue > _UNLIKELY


def test_order_within_a_page_is_uniform() -> None:
    """All 24 orders of four stimuli are equally likely for a first rater and over consecutive raters.

    If one of them must not lead, the remaining 18 orders are.
    """
    unit = Unit("page", 1, (1, 2, 3, 4), (1, 2, 3, 4))
    first = Counter(order_stimuli(unit, AssignmentCounts(), Random(f"9|{seed}")).order for seed in range(4800))
    load = AssignmentCounts()
    followed = Counter(order_stimuli(unit, load, Random(f"11|{seed}")).order for seed in range(4800))
    second = Counter(
        order_stimuli(unit, AssignmentCounts(first=Counter({("page", 1): 1})), Random(f"13|{n}")).order
        for n in range(3600)
    )
    for counts, orders in ((first, 24), (followed, 24), (second, 18)):
        assert len(counts) == orders
        assert chisquare(list(counts.values())).pvalue > _UNLIKELY


def test_position_of_a_check_is_uniform() -> None:
    """A trap is equally likely after each of the test screens."""
    tests = [AssignedUnit(u, u.stimuli) for u in singles(6, 1)]
    trap = AssignedUnit(Unit("trap", 99, (99,), (0,)), (99,), "trap")
    at = Counter(assemble_session(tests, [], [trap], 0, Random(f"1|{seed}")).index(trap) for seed in range(3000))
    assert sorted(at) == [1, 2, 3, 4, 5, 6]
    assert chisquare(list(at.values())).pvalue > _UNLIKELY


@settings(max_examples=80, deadline=None)
@given(
    tests=st.integers(1, 12),
    training=st.integers(0, 3),
    checks=st.integers(0, 4),
    repeats=st.integers(0, 8),
    seed=st.integers(0, 10**6),
)
def test_session_order(tests: int, training: int, checks: int, repeats: int, seed: int) -> None:
    """Practice, then a test screen; no check first; repeats in their original form half a list later."""
    assigned = [AssignedUnit(u, u.stimuli) for u in pairs(tests)]
    practice = [AssignedUnit(Unit(f"p{i}", 50 + i, (50,), (0,)), (50,), "training") for i in range(training)]
    traps = [AssignedUnit(Unit(f"t{i}", 90 + i, (90,), (0,)), (90,), "trap") for i in range(checks)]
    screens = assemble_session(assigned, practice, traps, repeats, Random(seed))
    roles = [s.role for s in screens]
    again = min(repeats, (tests + 1) // 2)
    assert Counter(roles) == +Counter({"test": tests, "training": training, "trap": checks, "repeat": again})
    assert roles[:training] == ["training"] * training and "training" not in roles[training:]
    assert roles[training] == "test"
    assert [s for s in screens if s.role == "test"] == assigned
    for at, screen in enumerate(screens):
        if screen.role == "repeat":
            before = screens.index(AssignedUnit(screen.unit, screen.order))
            assert at - before >= tests / 2


@pytest.mark.parametrize("quota", [1, 2, 5])
def test_last_rater_gets_the_remaining_screens(quota: int) -> None:
    """Fewer than requested, never one too many."""
    units, load, rng = singles(5, 1), AssignmentCounts(), Random(2)
    assigned = []
    while chosen := assign_units(UnitTable(units), load, quota, 3, rng):
        assigned.append(len(chosen))
    assert sum(assigned) == 5 * quota and max(assigned) == 3


def successions(screens: list[AssignedUnit]) -> Counter[tuple[int, int]]:
    """How often each system directly follows each other one."""
    steps = pairwise(screens)
    return Counter((a, b) for one, other in steps for a in one.unit.systems for b in other.unit.systems)


@pytest.mark.parametrize(("systems", "count"), [(3, 9), (4, 12), (4, 24), (5, 30), (8, 24)])
def test_every_system_follows_every_other_equally_often(systems: int, count: int) -> None:
    """Within a rater; a plain shuffle repeats some successions, misses others and lets a system follow itself."""
    evens, shuffles = [], []
    for seed in range(20):
        units = [Unit(f"{k}", k, (k,), (k % systems,)) for k in range(count)]
        screens = [AssignedUnit(unit, unit.stimuli) for unit in units]
        for order, out in (
            (balance_order(screens, Random(seed)), evens),
            (Random(seed).sample(screens, count), shuffles),
        ):
            assert sorted(s.unit.key for s in order) == sorted(u.key for u in units)
            seen = successions(order)
            out.append((max(seen.values()), sum(seen[k, k] for k in range(systems))))
    even = -(-(count - 1) // (systems * (systems - 1)))
    assert max(most for most, _ in evens) <= even + (systems == 3) and sum(same for _, same in evens) == 0
    assert sum(same for _, same in shuffles) > 10 and (count < 24 or max(most for most, _ in shuffles) > even)


def test_assigned_screens_rotate_and_start_with_any_system() -> None:
    units = [Unit(f"{i}:{s}", i, (10 * i + s,), (s,)) for i in range(12) for s in range(4)]
    firsts: Counter[int] = Counter()
    for seed in range(200):
        assigned = assign_units(UnitTable(units), AssignmentCounts(), 9, 12, Random(seed))
        assert max(successions(assigned).values()) == 1
        firsts[assigned[0].unit.systems[0]] += 1
    assert chisquare(list(firsts.values())).pvalue > 0.001 and len(firsts) == 4


def test_pages_of_all_systems_are_shuffled() -> None:
    units = [Unit(f"{k}", k, (1, 2), (1, 2)) for k in range(6)]
    screens = [AssignedUnit(unit, unit.stimuli) for unit in units]
    assert len({tuple(s.unit.key for s in balance_order(screens, Random(seed))) for seed in range(50)}) > 30
