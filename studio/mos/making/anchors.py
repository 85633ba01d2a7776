"""Low-pass anchors of a MUSHRA test: the low one at 3.5 kHz and the mid one at 7 kHz (ITU-R BS.1534-3, section 5.1)."""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (scipy carries no types)

from dataclasses import replace

import numpy as np
from scipy.signal import kaiserord, oaconvolve

from studio.core.errors import BadOption
from studio.mos.campaign.draft import Manifest, SystemSpec
from studio.mos.stats.mushra import MID_ANCHOR_HZ
from studio.mos.store.sounds import Sound

LOW_HZ, MID_HZ = 3500, MID_ANCHOR_HZ
# The recommendation asks of the low anchor: ripple within 0.1 dB up to 3.5 kHz, 25 dB down at 4 kHz, 50 dB at 4.5 kHz.
# It gives no mask for the mid anchor: the same in proportion, 25 dB at 8 kHz and 50 dB at 9 kHz.
_EDGE = 8 / 7  # where the stop band begins, as a share of the cut-off
_ATTENUATION_DB = 60.0  # the pass band's ripple is then 0.009 dB


def with_anchors(manifest: Manifest) -> tuple[Manifest, dict[tuple[str, str], int]]:
    """A manifest with both anchors of its reference, and the cut-off in Hz of each to be made, by (item, system).

    Their files are the reference's. Anchors that the manifest brings along are the only ones; nor are any made where
    there is not one reference, which is for the kind of test to refuse.
    """
    tests = {item.name for item in manifest.items if item.role == "test"}
    rated = {system for item, system in manifest.files if item in tests}
    references = [s.name for s in manifest.systems if s.role == "reference"]
    if len(references) != 1 or any(s.role == "anchor" and s.name in rated for s in manifest.systems):
        return manifest, {}
    made = {f"anchor {hz / 1000:g} kHz": hz for hz in (LOW_HZ, MID_HZ)}
    originals = {item: file for (item, system), file in manifest.files.items() if system == references[0]}
    systems = [SystemSpec(name, "anchor", {"low_pass_hz": hz, "of": references[0]}) for name, hz in made.items()]
    files = {(item, name): file for name in made for item, file in originals.items()}
    cuts = {(item, name): hz for name, hz in made.items() for item in originals}
    return replace(manifest, systems=[*manifest.systems, *systems], files={**manifest.files, **files}), cuts


def anchor(sound: Sound, cutoff_hz: int = LOW_HZ) -> Sound:
    """The sound without what lies above ``cutoff_hz``: as long, in step with it, no phase shift.

    It is quieter by what was taken away; bring it to the campaign's level like any other stimulus.

    Raises:
        BadOption: the cut-off is neither anchor's.
    """
    if cutoff_hz not in (LOW_HZ, MID_HZ):
        raise BadOption(f"{cutoff_hz} Hz is no anchor", f"take {LOW_HZ} or {MID_HZ}")
    taps = anchor_taps(sound.rate_hz, cutoff_hz)
    filtered = oaconvolve(sound.pcm.astype(np.float64), taps, mode="full")[len(taps) // 2 :][: len(sound.pcm)]
    return replace(sound, pcm=filtered.astype(np.float32), name=f"{sound.name} below {cutoff_hz} Hz")


def anchor_taps(rate_hz: int, cutoff_hz: int) -> np.ndarray:
    """The anchor's filter: symmetric, float64 [odd], so that its delay is half its length and can be taken back."""
    stop_hz = cutoff_hz * _EDGE
    count, beta = kaiserord(_ATTENUATION_DB, (stop_hz - cutoff_hz) / (rate_hz / 2))
    half = count // 2
    middle = (cutoff_hz + stop_hz) / rate_hz  # twice the middle of the transition, in cycles a sample
    taps = np.sinc(middle * np.arange(-half, half + 1)) * np.kaiser(2 * half + 1, beta)
    return taps / taps.sum()
