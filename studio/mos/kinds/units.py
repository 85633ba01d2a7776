"""Creation of units from a campaign's stimuli: single stimuli, pairs, or pages of systems."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import StimulusStock


def single_units(stock: StimulusStock) -> list[Unit]:
    """One unit per stimulus; systems may lack scripts."""
    systems = [*stock.systems, *stock.references]
    there = [(item, system) for item in stock.items for system in systems if (item, system) in stock.stimuli]
    return [_unit(stock, item, (system,)) for item, system in there]


def units_with_reference(stock: StimulusStock) -> list[Unit]:
    """One unit per stimulus beside its reference, including reference against reference (null pairs).

    Raises:
        BadFile: a script lacks the reference.
        BadOption: there is not exactly one reference.
    """
    reference = _one_reference(stock)
    _check_complete(stock, [] if reference is None else [reference])
    return [
        replace(unit, reference=None if reference is None else stock.stimuli[unit.item_id, reference])
        for unit in single_units(stock)
    ]


def pair_units_with_reference(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """One unit per script and pair; the reference counts as a system. Raises BadFile, BadOption."""
    return pair_units(replace(stock, systems=[*stock.systems, *stock.references], references=[]), config)


def pair_units(stock: StimulusStock, config: CampaignConfig, reference: bool = False) -> list[Unit]:
    """One unit per script and pair of systems.

    Raises:
        BadFile: a script lacks a system, or the reference.
        BadOption: fewer than two systems, or the required baseline is missing.
    """
    if len(stock.systems) < 2:
        raise BadOption("a pair needs two systems", "add one")
    if config.pairs == "baseline" and stock.baseline is None:
        raise BadOption(
            f"the baseline {config.baseline!r} is not one of the systems", "set baseline to a system's name"
        )
    with_reference = _one_reference(replace(stock, is_unscored=False)) if reference else None
    wanted = [pair for pair in combinations(stock.systems, 2) if config.pairs == "all" or stock.baseline in pair]
    _check_complete(stock, [*stock.systems, *([with_reference] if with_reference is not None else [])])
    return [_unit(stock, item, pair, with_reference) for item in stock.items for pair in wanted]


def abx_units(stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
    """Two units per script and pair, one with each as X, so that the quotas balance X."""
    return [
        replace(unit, key=f"{unit.key}~{x}", reference=stock.stimuli[unit.item_id, x])
        for unit in pair_units_with_reference(stock, config)
        for x in unit.systems
    ]


def page_units(stock: StimulusStock) -> list[Unit]:
    """One unit per script with all systems. Raises BadFile if a script lacks a system."""
    systems = [*stock.systems, *stock.references]
    _check_complete(stock, systems)
    return [_unit(stock, item, tuple(systems)) for item in stock.items]


def mushra_units(stock: StimulusStock) -> list[Unit]:
    """One unit per script: systems, anchors, hidden reference, and the open reference.

    Raises:
        BadFile: a script lacks a system, an anchor or the reference.
        BadOption: there is not exactly one reference.
    """
    reference = _one_reference(stock)
    whole = replace(stock, systems=[*stock.systems, *stock.anchors])
    return [
        replace(unit, reference=None if reference is None else stock.stimuli[unit.item_id, reference])
        for unit in page_units(whole)
    ]


def _one_reference(stock: StimulusStock) -> int | None:
    if len(stock.references) == 1:
        return stock.references[0]
    if stock.is_unscored and not stock.references:
        return None
    raise BadOption(f"the test needs one reference system, there are {len(stock.references)}", "mark one as reference")


def _unit(stock: StimulusStock, item: int, systems: tuple[int, ...], reference: int | None = None) -> Unit:
    return Unit(
        key=f"{item}:{'+'.join(map(str, systems))}",
        item_id=item,
        stimuli=tuple(stock.stimuli[item, s] for s in systems),
        systems=systems,
        reference=None if reference is None else stock.stimuli[item, reference],
    )


def _check_complete(stock: StimulusStock, systems: Iterable[int]) -> None:
    missing = [(i, s) for i in stock.items for s in systems if (i, s) not in stock.stimuli]
    if missing:
        item, system = missing[0]
        raise BadFile(
            f"{len(missing)} {'sound is' if len(missing) == 1 else 'sounds are'} missing, the first of the script "
            f"{stock.names.get(item, item)!r} by the system {stock.system_names.get(system, system)!r}",
            "every system must say every script in this kind of test",
        )
