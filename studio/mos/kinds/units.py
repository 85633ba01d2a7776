"""How units are made of a campaign's stock: one stimulus, a pair, or a whole page of systems."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import Stock


def singles(stock: Stock) -> list[Unit]:
    """One unit for each stimulus there is; a system need not say every script."""
    systems = [*stock.systems, *stock.references]
    there = [(item, system) for item in stock.items for system in systems if (item, system) in stock.stimuli]
    return [_unit(stock, item, (system,)) for item, system in there]


def graded(stock: Stock) -> list[Unit]:
    """One unit for each stimulus, its reference beside it; the reference against itself is among them (a null pair).

    Raises:
        BadFile: a script lacks the reference.
        BadOption: there is not one reference.
    """
    reference = _one_reference(stock)
    _complete(stock, [] if reference is None else [reference])
    return [
        replace(unit, reference=None if reference is None else stock.stimuli[unit.item_id, reference])
        for unit in singles(stock)
    ]


def compared(stock: Stock, config: CampaignConfig) -> list[Unit]:
    """One unit for each script and pair, the reference being one of the systems. Raises BadFile, BadOption."""
    return pairs(replace(stock, systems=[*stock.systems, *stock.references], references=[]), config)


def pairs(stock: Stock, config: CampaignConfig, reference: bool = False) -> list[Unit]:
    """One unit for each script and pair of systems.

    Raises:
        BadFile: a script lacks a system, or the reference.
        BadOption: fewer than two systems, or no baseline where one is asked for.
    """
    if len(stock.systems) < 2:
        raise BadOption("a pair needs two systems", "add one")
    if config.pairs == "baseline" and stock.baseline is None:
        raise BadOption(
            f"the baseline {config.baseline!r} is not one of the systems", "set baseline to a system's name"
        )
    with_reference = _one_reference(replace(stock, aside=False)) if reference else None
    wanted = [pair for pair in combinations(stock.systems, 2) if config.pairs == "all" or stock.baseline in pair]
    _complete(stock, [*stock.systems, *([with_reference] if with_reference is not None else [])])
    return [_unit(stock, item, pair, with_reference) for item in stock.items for pair in wanted]


def identified(stock: Stock, config: CampaignConfig) -> list[Unit]:
    """Two units for each script and pair of ``compared``, one with either as X: so X is balanced as quotas are."""
    return [
        replace(unit, key=f"{unit.key}~{x}", reference=stock.stimuli[unit.item_id, x])
        for unit in compared(stock, config)
        for x in unit.systems
    ]


def pages(stock: Stock) -> list[Unit]:
    """One unit for each script, all systems on it. Raises BadFile when a script lacks a system."""
    systems = [*stock.systems, *stock.references]
    _complete(stock, systems)
    return [_unit(stock, item, tuple(systems)) for item in stock.items]


def pages_with_reference(stock: Stock) -> list[Unit]:
    """One unit for each script: its systems, anchors and hidden reference, and the reference once more, open.

    Raises:
        BadFile: a script lacks a system, an anchor or the reference.
        BadOption: there is not one reference.
    """
    reference = _one_reference(stock)
    whole = replace(stock, systems=[*stock.systems, *stock.anchors])
    return [
        replace(unit, reference=None if reference is None else stock.stimuli[unit.item_id, reference])
        for unit in pages(whole)
    ]


def _one_reference(stock: Stock) -> int | None:
    if len(stock.references) == 1:
        return stock.references[0]
    if stock.aside and not stock.references:
        return None
    raise BadOption(f"the test needs one reference system, there are {len(stock.references)}", "mark one as reference")


def _unit(stock: Stock, item: int, systems: tuple[int, ...], reference: int | None = None) -> Unit:
    return Unit(
        key=f"{item}:{'+'.join(map(str, systems))}",
        item_id=item,
        stimuli=tuple(stock.stimuli[item, s] for s in systems),
        systems=systems,
        reference=None if reference is None else stock.stimuli[item, reference],
    )


def _complete(stock: Stock, systems: Iterable[int]) -> None:
    missing = [(i, s) for i in stock.items for s in systems if (i, s) not in stock.stimuli]
    if missing:
        item, system = missing[0]
        raise BadFile(
            f"{len(missing)} {'sound is' if len(missing) == 1 else 'sounds are'} missing, the first of the script "
            f"{stock.names.get(item, item)!r} by the system {stock.system_names.get(system, system)!r}",
            "every system must say every script in this kind of test",
        )
