"""The clip folder: stimuli at one rate and one level, as content-addressed WAV files that name no system."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from studio.core import durable
from studio.core.clips import clip_id, read_wav, to_int16, wav_bytes
from studio.core.errors import BadFile
from studio.mos.store.sounds import TARGET_LUFS, Sound, campaign_rate_hz, highest_level, normalise, resample

Key = tuple[str, str]  # item and system
T = TypeVar("T")
_SHOWN = 50  # bad files in one message
_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredClip:
    """A stimulus in the clip folder.

    Attributes:
        source_sha: the content address of what it was derived from.
        trace: the content address of its trace in the clip folder, where there is one.
    """

    sha: str
    rate_hz: int
    samples: int
    source_sha: str
    source_rate_hz: int
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float
    trace: str | None = None


@dataclass(frozen=True)
class Level:
    """What every sound of a campaign has in common, its rate and loudness; and which rates they came with."""

    rate_hz: int
    lufs: float
    sources_hz: Mapping[tuple[str, str], int]


class ClipFolder:
    """Clips as ``root/ab/<sha>.wav``: 44 bytes of header, mono 16-bit PCM, nothing else that could name a system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha: str) -> Path:
        """Where a clip lies. Raises BadFile for anything but 64 hex digits."""
        if not _SHA.fullmatch(sha):
            raise BadFile("that is not the address of a clip", "an address has 64 hex digits")
        return self.root / sha[:2] / f"{sha}.wav"

    def add(self, pcm: np.ndarray, rate_hz: int) -> str:
        """Keep int16 samples [T]; answers their address once they are on disk."""
        sha = clip_id(pcm, rate_hz)
        self._keep(self.path(sha), lambda: wav_bytes(pcm, rate_hz))
        return sha

    def add_trace(self, trace: bytes) -> str:
        """Keep the trace of a clip, beside the clips and by content as they are; answers its address."""
        sha = hashlib.sha256(trace).hexdigest()
        self._keep(self.trace_path(sha), lambda: trace)
        return sha

    def drop_trace(self, sha: str) -> None:
        """Delete a trace that no row names any more."""
        durable.remove(self.trace_path(sha))

    def trace_path(self, sha: str) -> Path:
        """Where a trace lies. Raises BadFile for anything but 64 hex digits."""
        return self.path(sha).with_suffix(".trace")

    def read(self, sha: str) -> tuple[np.ndarray, int]:
        """Samples int16 [T] and rate. Raises BadFile where the clip is absent or is not what its address says."""
        pcm, rate_hz = read_wav(self.path(sha))
        if clip_id(pcm, rate_hz) != sha:
            raise BadFile(f"the clip {sha[:12]} is damaged", "import its campaign again, or restore a backup")
        return pcm, rate_hz

    def _keep(self, path: Path, content: Callable[[], bytes]) -> None:
        if path.is_file():  # complete, since it was renamed into place; its name may not be on disk yet
            durable.sync_folder(path.parent)
            return
        durable.make_folder(path.parent)
        durable.replace(path, content())


def store_stimuli(
    sounds: Mapping[tuple[str, str], Callable[[], Sound]], folder: ClipFolder, at: Level | None = None
) -> tuple[dict[tuple[str, str], StoredClip], list[str]]:
    """Bring a campaign's sounds, by (item, system), to one rate and one level and keep them; answers them and warnings.

    Each sound is loaded three times rather than all at once, so a campaign need not fit in memory.

    Args:
        at: the level that the campaign's other sounds have already; without it the highest that these allow.

    Raises:
        BadFile: sounds cannot be taken, all of which are named; or one would clip at the level that the others have.
    """
    heard = _of_each(sounds, lambda sound: (sound.rate_hz, sound.clipped, sound.mixed))
    rates_hz = {key: rate_hz for key, (rate_hz, _, _) in heard.items()}
    if not rates_hz:
        return {}, []
    rate_hz = campaign_rate_hz(rates_hz.values()) if at is None else at.rate_hz
    level = min(_of_each(sounds, lambda sound: highest_level(resample(sound, rate_hz))).values())
    if at is not None:
        if level < at.lufs:
            raise BadFile(
                f"one of these sounds would clip at {at.lufs:.2f} LUFS, the level of the campaign's other sounds",
                f"make the campaign anew from all of its sounds: they are brought to {level:.2f} LUFS together",
            )
        level = at.lufs
    stored = {key: _store(load(), rate_hz, level, folder) for key, load in sounds.items()}
    told = rate_warnings(rates_hz if at is None else {**at.sources_hz, **rates_hz})
    if level < TARGET_LUFS and at is None:
        told.append(f"every sound is at {level:.2f} LUFS, not {TARGET_LUFS:g}, because one would clip")
    clipped = [key for key, (_, is_clipped, _) in heard.items() if is_clipped]
    mixed = [key for key, (_, _, is_mixed) in heard.items() if is_mixed]
    told += [f"{len(clipped)} sounds came clipped: {_named(clipped)}"] if clipped else []
    told += [f"{len(mixed)} sounds in stereo were mixed down to mono: {_named(mixed)}"] if mixed else []
    return stored, told


def _of_each(sounds: Mapping[Key, Callable[[], Sound]], ask: Callable[[Sound], T]) -> dict[Key, T]:
    """What is to be known of each sound, loaded one after the other. Raises BadFile naming all that cannot be taken."""
    found: dict[Key, T] = {}
    bad: list[BadFile] = []
    for key, load in sounds.items():
        try:
            found[key] = ask(load())
        except BadFile as error:
            bad.append(error)
    if len(bad) > 1:
        shown = "".join(f"\n  {error.what}" for error in bad[:_SHOWN])
        more = f"\n  and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        ways = " / ".join(dict.fromkeys(error.do for error in bad[:_SHOWN]))
        raise BadFile(f"{len(bad)} of {len(sounds)} sounds cannot be taken:{shown}{more}\n", ways)
    if bad:
        raise bad[0]
    return found


def _named(keys: Sequence[Key]) -> str:
    return ", ".join(f"{item} by {system}" for item, system in keys[:10]) + (", ..." if len(keys) > 10 else "")


def rate_warnings(rates_hz: Mapping[tuple[str, str], int]) -> list[str]:
    """What to tell an experimenter whose systems differ in bandwidth; keys are (item, system).

    Listeners hear bandwidth as quality, so such systems are not compared fairly (paper 002 says so of its own test).
    """
    by_system: dict[str, set[int]] = {}
    for (_, system), rate_hz in rates_hz.items():
        by_system.setdefault(system, set()).add(rate_hz)
    if len({rate for rates in by_system.values() for rate in rates}) <= 1:
        return []
    shown = "; ".join(
        f"{name}: {', '.join(f'{r} Hz' for r in sorted(rates))}" for name, rates in sorted(by_system.items())
    )
    return [f"the sample rates differ, and listeners hear bandwidth as quality: {shown}"]


def _store(source: Sound, rate_hz: int, level: float, folder: ClipFolder) -> StoredClip:
    level_sound = normalise(resample(source, rate_hz), level)
    pcm = to_int16(level_sound.pcm)
    return StoredClip(
        sha=folder.add(pcm, rate_hz),
        rate_hz=rate_hz,
        samples=len(pcm),
        source_sha=clip_id(to_int16(source.pcm), source.rate_hz),
        source_rate_hz=source.rate_hz,
        gain_db=level_sound.gain_db,
        lufs_before=level_sound.lufs_before,
        lufs_after=level_sound.lufs_after,
        peak_dbfs=level_sound.peak_dbfs,
    )
