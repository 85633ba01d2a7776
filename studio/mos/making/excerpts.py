"""The first and the last seconds of long sounds as separate stimuli, as paper 002 rates them (section H.1)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.draft import ItemSpec, Manifest
from studio.mos.campaign.names import check_name
from studio.mos.store.sounds import LONGEST_S, Sound, read_clip, split_excerpts

SHORTEST_EXCERPT_S = 1.0
LONGEST_WHOLE_S = 3600.0
T = TypeVar("T")
_NAME = re.compile(r"(.+) \((first|last) ([0-9.]+) s\)")


@dataclass(frozen=True)
class Excerpt:
    """Which end of a script a stimulus is cut from, and how long it is."""

    seconds: float
    last: bool


_SIDES = {"first": False, "last": True}  # also the tags of excerpts


def with_excerpts(manifest: Manifest, seconds: float) -> tuple[Manifest, dict[str, Excerpt]]:
    """A manifest with two items for each script under test, and which excerpt each of them is, by its name.

    Practice, traps and golds stay whole. The excerpts have no text: nobody knows which words fell into them.

    Raises:
        BadOption: the excerpts are too short or too long, or a script's name leaves no room for what is added to it.
    """
    if not SHORTEST_EXCERPT_S <= seconds <= LONGEST_S:
        raise BadOption(
            f"ends of {seconds:g} s were asked for", f"they may have {SHORTEST_EXCERPT_S:g} to {LONGEST_S:g} s"
        )
    seconds = float(f"{seconds:g}")  # as the names say it, so that what comes later is cut alike
    excerpts: dict[str, Excerpt] = {}
    names: dict[str, list[str]] = {}
    items: list[ItemSpec] = []
    for item in manifest.items:
        names[item.name] = [item.name]
        if item.role == "test":
            both = {f"{item.name} ({side} {seconds:g} s)": Excerpt(seconds, last) for side, last in _SIDES.items()}
            for name in both:
                check_name(name)
            excerpts |= both
            names[item.name] = list(both)
        for name in names[item.name]:
            cut = excerpts.get(name)
            side = () if cut is None else ("last" if cut.last else "first",)
            tags = tuple(sorted({*item.tags, *side}))
            items.append(replace(item, name=name, text=item.text if cut is None else "", tags=tags))

    def spread(found: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(name, system): value for (item, system), value in found.items() for name in names[item]}

    whole = replace(manifest, items=items, files=spread(manifest.files), traces=spread(manifest.traces))
    return whole, excerpts


def excerpt_length_s(manifest: Manifest) -> float | None:
    """The seconds that ``with_excerpts`` was asked for; None where a campaign rates whole scripts."""
    found: dict[tuple[str, str], set[str]] = {}
    for item in manifest.items:
        if item.role == "test":
            split = _NAME.fullmatch(item.name)
            if split is None:
                return None
            found.setdefault((split[1], split[3]), set()).add(split[2])
    lengths = {seconds for _, seconds in found}
    if len(lengths) != 1 or any(sides != {"first", "last"} for sides in found.values()):
        return None
    return float(lengths.pop())


def of_whole_scripts(manifest: Manifest) -> Manifest:
    """What ``with_excerpts`` cut, by the names of the scripts; each stands for a file that is one of its excerpts."""

    def whole(name: str) -> str:
        split = _NAME.fullmatch(name) if name in cut else None
        return name if split is None else split[1]

    cut = {item.name for item in manifest.items if item.role == "test"}
    items = {
        whole(item.name): replace(
            item, name=whole(item.name), tags=tuple(t for t in item.tags if item.name not in cut or t not in _SIDES)
        )
        for item in manifest.items
    }
    files = {(whole(item), system): file for (item, system), file in manifest.files.items()}
    return replace(manifest, items=list(items.values()), files=files)


def read_excerpt(path: Path, excerpt: Excerpt, lowest_rate_hz: int) -> Sound:
    """One excerpt of a sound, faded where it was cut.

    Raises:
        BadFile: it cannot be taken (studio.mos.store.sounds.read_clip), or so short that its two excerpts overlap.
    """
    sound = read_clip(path, LONGEST_WHOLE_S, lowest_rate_hz)
    if sound.duration_s < 2 * excerpt.seconds:
        raise BadFile(
            f"{path.name} lasts {sound.duration_s:.1f} s: its first and last {excerpt.seconds:g} s overlap",
            f"give sounds of {2 * excerpt.seconds:g} s or more, ask for shorter ends, or rate whole sounds",
        )
    return split_excerpts(sound, excerpt.seconds)[excerpt.last]
