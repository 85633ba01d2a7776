"""Sounds that are the same under two systems: one was copied by mistake, perhaps, and the experimenter is told."""

from collections.abc import Container, Mapping

_NAMED = 10


def same_sound_warnings(
    shas: Mapping[tuple[str, str], str], among: Container[tuple[str, str]] | None = None
) -> list[str]:
    """What to tell an experimenter of whose systems two have the same samples for a script: one was copied, perhaps.

    A hidden reference is no such thing: it is one file, which the screens show twice.

    Args:
        shas: the address of every clip at the campaign's rate and level, by (item, system).
        among: of which one of the two has to be; any of them unless given.
    """
    systems: dict[tuple[str, str], list[str]] = {}
    for (item, system), sha in shas.items():
        systems.setdefault((item, sha), []).append(system)
    found = sorted(
        f"{item} by {' and '.join(names)}"
        for (item, _), names in systems.items()
        if len(names) > 1 and (among is None or any((item, name) in among for name in names))
    )
    if not found:
        return []
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"sounds that are the same under two systems, sample for sample: {', '.join(found[:_NAMED])}{more}"]
