"""Sounds that are the same: on purpose, where nothing but hearing may tell which; and by mistake, which is told."""

from collections.abc import Container, Mapping
from pathlib import Path

import numpy as np

from studio.core.clips import read_wav, wav_bytes

_NAMED = 10


def disguised(path: Path, samples: int, seed: int) -> bytes:
    """A clip as a WAV of its own: silence behind it up to ``samples``, and the lowest bit of every sample drawn anew.

    So all sounds of a screen are as long as each other, and two copies of one have different bytes. The bits are noise
    at about -93 dB below full scale. They do not hide which is which from somebody who subtracts one from the other.

    Raises:
        BadFile: the clip cannot be read.
    """
    pcm, rate_hz = read_wav(path)
    longer = np.zeros(max(samples, len(pcm)), np.int16)
    longer[: len(pcm)] = pcm
    bits = np.random.default_rng(seed).integers(2, size=len(longer), dtype=np.int16)
    return wav_bytes((longer & np.int16(-2)) | bits, rate_hz)


def twin_warnings(shas: Mapping[tuple[str, str], str], among: Container[tuple[str, str]] | None = None) -> list[str]:
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
