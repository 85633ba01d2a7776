"""The first and the last seconds of long sounds as separate stimuli, as paper 002 rates them (section H.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from studio.core.errors import BadFile, BadOption
from studio.mos.draft import ItemSpec, Manifest
from studio.mos.names import check_name
from studio.mos.sounds import LONGEST_S, Sound, read_clip, split_ends

SHORTEST_END_S = 1.0
LONGEST_WHOLE_S = 3600.0
T = TypeVar("T")


@dataclass(frozen=True)
class End:
    """Which end of a script a stimulus is, and how long."""

    seconds: float
    last: bool


def both_ends(manifest: Manifest, seconds: float) -> tuple[Manifest, dict[str, End]]:
    """A manifest with two items for each script under test, and which end each of them is, by its name.

    Practice, traps and golds stay whole. The ends have no text: nobody knows which words fell into them.

    Raises:
        BadOption: the ends are too short or too long, or a script's name leaves no room for what is added to it.
    """
    if not SHORTEST_END_S <= seconds <= LONGEST_S:
        raise BadOption(f"ends of {seconds:g} s were asked for", f"they may have {SHORTEST_END_S:g} to {LONGEST_S:g} s")
    ends: dict[str, End] = {}
    names: dict[str, list[str]] = {}
    items: list[ItemSpec] = []
    for item in manifest.items:
        names[item.name] = [item.name]
        if item.role == "test":
            sides = {"first": False, "last": True}
            both = {f"{item.name} ({side} {seconds:g} s)": End(seconds, last) for side, last in sides.items()}
            for name in both:
                check_name(name)
            ends |= both
            names[item.name] = list(both)
        items += [replace(item, name=name, text="" if name in ends else item.text) for name in names[item.name]]

    def spread(found: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(name, system): value for (item, system), value in found.items() for name in names[item]}

    cut = replace(manifest, items=items, files=spread(manifest.files), traces=spread(manifest.traces))
    return cut, ends


def read_end(path: Path, end: End) -> Sound:
    """One end of a sound, faded where it was cut.

    Raises:
        BadFile: it cannot be taken (studio.mos.sounds.read_clip), or it is so short that its two ends overlap.
    """
    sound = read_clip(path, LONGEST_WHOLE_S)
    if sound.duration_s < 2 * end.seconds:
        raise BadFile(
            f"{path.name} lasts {sound.duration_s:.1f} s: its first and last {end.seconds:g} s overlap",
            f"give sounds of {2 * end.seconds:g} s or more, ask for shorter ends, or rate whole sounds",
        )
    return split_ends(sound, end.seconds)[end.last]
