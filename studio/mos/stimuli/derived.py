"""Derived stimuli: low-pass anchors (ITU-R BS.1534-3) and excerpts from both ends (paper 002, section H.1)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.manifest import ItemSpec, StimulusManifest, SystemSpec
from studio.mos.campaign.names import check_name
from studio.mos.stats.means import MID_ANCHOR_HZ
from studio.mos.store.sounds import LONGEST_S, SourceSound, each_channel, faded, read_sound

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (scipy carries no types)


LOW_HZ, MID_HZ = 3500, MID_ANCHOR_HZ
# Mask of the low anchor in BS.1534-3: ripple below 0.1 dB up to 3.5 kHz, -25 dB at 4 kHz, -50 dB at 4.5 kHz.
# There is no mask for the mid anchor; we scale this one: -25 dB at 8 kHz, -50 dB at 9 kHz.
_EDGE = 8 / 7  # start of the stop band, relative to the cut-off
_ATTENUATION_DB = 60.0  # the pass band's ripple is then 0.009 dB


def with_anchors(manifest: StimulusManifest) -> tuple[StimulusManifest, dict[tuple[str, str], int]]:
    """Add both anchors of the reference to a manifest; returns it and the cut-offs in Hz by (item, system).

    The anchors' files are those of the reference. Nothing is added if the manifest has anchors, or not exactly one
    reference (which the kind of test rejects).
    """
    tests = {item.name for item in manifest.items if item.role == "test"}
    rated = {system for item, system in manifest.files if item in tests}
    references = [s.name for s in manifest.systems if s.role == "reference"]
    if len(references) != 1 or any(s.role == "anchor" and s.name in rated for s in manifest.systems):
        return manifest, {}
    anchors = {f"anchor {hz / 1000:g} kHz": hz for hz in (LOW_HZ, MID_HZ)}
    originals = {item: file for (item, system), file in manifest.files.items() if system == references[0]}
    systems = [SystemSpec(name, "anchor", {"low_pass_hz": hz, "of": references[0]}) for name, hz in anchors.items()]
    files = {(item, name): file for name in anchors for item, file in originals.items()}
    cuts = {(item, name): hz for name, hz in anchors.items() for item in originals}
    return replace(manifest, systems=[*manifest.systems, *systems], files={**manifest.files, **files}), cuts


def anchor(sound: SourceSound, cutoff_hz: int = LOW_HZ) -> SourceSound:
    """Low-pass filter a sound at ``cutoff_hz`` with zero phase and equal length; its level is not restored.

    Raises BadOption: the cut-off is not that of an anchor.
    """
    if cutoff_hz not in (LOW_HZ, MID_HZ):
        raise BadOption(f"{cutoff_hz} Hz is no anchor", f"take {LOW_HZ} or {MID_HZ}")
    taps = anchor_taps(sound.rate_hz, cutoff_hz)

    def low_pass(pcm: np.ndarray) -> np.ndarray:
        filtered = scipy.signal.oaconvolve(pcm.astype(np.float64), taps, mode="full")[len(taps) // 2 :][: len(pcm)]
        return filtered.astype(np.float32)

    return replace(each_channel(sound, low_pass), name=f"{sound.name} below {cutoff_hz} Hz")


def anchor_taps(rate_hz: int, cutoff_hz: int) -> np.ndarray:
    """The anchor's FIR filter: symmetric, float64 [odd], with a delay of half its length."""
    stop_hz = cutoff_hz * _EDGE
    count, beta = scipy.signal.kaiserord(_ATTENUATION_DB, (stop_hz - cutoff_hz) / (rate_hz / 2))
    half = count // 2
    middle = (cutoff_hz + stop_hz) / rate_hz  # twice the middle of the transition, in cycles a sample
    taps = np.asarray(np.sinc(middle * np.arange(-half, half + 1)) * np.kaiser(2 * half + 1, beta), np.float64)
    return taps / taps.sum()


SHORTEST_EXCERPT_S = 1.0
LONGEST_WHOLE_S = 3600.0
T = TypeVar("T")
_NAME = re.compile(r"(.+) \((first|last) ([0-9.]+) s\)")


@dataclass(frozen=True)
class Excerpt:
    """The end of a script from which a stimulus is cut, and its length."""

    seconds: float
    last: bool


_SIDES = {"first": False, "last": True}  # also the tags of excerpts


def with_excerpts(manifest: StimulusManifest, seconds: float) -> tuple[StimulusManifest, dict[str, Excerpt]]:
    """Replace each test script of a manifest by two items; returns it and the excerpts by item name.

    Training, traps and golds stay whole. Excerpts have no text, since their words are unknown. Raises BadOption: the
    excerpts are too short or too long, or a script's name is too long to be extended.
    """
    if not SHORTEST_EXCERPT_S <= seconds <= LONGEST_S:
        raise BadOption(
            f"ends of {seconds:g} s were asked for", f"they may have {SHORTEST_EXCERPT_S:g} to {LONGEST_S:g} s"
        )
    seconds = float(f"{seconds:g}")  # as in the names, so that later imports are cut alike
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

    def spread(by_stimulus: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
        return {(name, system): value for (item, system), value in by_stimulus.items() for name in names[item]}

    whole = replace(manifest, items=items, files=spread(manifest.files), traces=spread(manifest.traces))
    return whole, excerpts


def excerpt_length_s(manifest: StimulusManifest) -> float | None:
    """The ``seconds`` given to ``with_excerpts``; None if a campaign rates whole scripts."""
    lengths_of: dict[tuple[str, str], set[str]] = {}
    for item in manifest.items:
        if item.role == "test":
            split = _NAME.fullmatch(item.name)
            if split is None:
                return None
            lengths_of.setdefault((split[1], split[3]), set()).add(split[2])
    lengths = {seconds for _, seconds in lengths_of}
    if len(lengths) != 1 or any(sides != {"first", "last"} for sides in lengths_of.values()):
        return None
    return float(lengths.pop())


def of_whole_scripts(manifest: StimulusManifest) -> StimulusManifest:
    """Undo ``with_excerpts``: items by script name, each with a file of one of its excerpts."""

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


def read_source(
    system: str, path: Path, lowest_rate_hz: int, excerpt: Excerpt | None = None, cutoff_hz: int | None = None
) -> SourceSound:
    """Read a system's sound or an excerpt of it, low-pass filtered for an anchor. Raises BadFile with the system."""
    try:
        sound = (
            read_sound(path, lowest_rate_hz=lowest_rate_hz)
            if excerpt is None
            else read_excerpt(path, excerpt, lowest_rate_hz)
        )
    except BadFile as error:  # systems may have files of the same name
        raise BadFile(f"{system}: {error.what}", error.do) from error
    return sound if cutoff_hz is None else anchor(sound, cutoff_hz)


def read_excerpt(path: Path, excerpt: Excerpt, lowest_rate_hz: int) -> SourceSound:
    """Read an excerpt of a sound, faded at the cut.

    Raises BadFile: the file is unusable (studio.mos.store.sounds.read_sound), or its two excerpts would overlap.
    """

    def part(samples: int, rate_hz: int) -> tuple[int, int]:
        if samples < 2 * excerpt.seconds * rate_hz:
            raise BadFile(
                f"{path.name} lasts {samples / rate_hz:.1f} s: its first and last {excerpt.seconds:g} s overlap",
                f"give sounds of {2 * excerpt.seconds:g} s or more, ask for shorter ends, or rate whole sounds",
            )
        count = round(excerpt.seconds * rate_hz)
        return (samples - count, samples) if excerpt.last else (0, count)

    sound = read_sound(path, LONGEST_WHOLE_S, lowest_rate_hz, part)
    side = "last" if excerpt.last else "first"
    return faded(replace(sound, name=f"the {side} {excerpt.seconds:g} s of {sound.name}"), at_start=excerpt.last)
