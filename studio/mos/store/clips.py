"""The clip folder: stimuli at one rate and level as content-addressed WAV files that reveal no system."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from studio.core import durable
from studio.core.clips import WAV_HEADER_BYTES, clip_id, to_int16, wav_bytes
from studio.core.errors import BadFile, bad_file, unreadable
from studio.core.files import open_unbuffered, read_bounded
from studio.core.sound_files import read_pcm
from studio.core.worker import call_here
from studio.mos.store.sounds import (
    INTEGRATED,
    LevelRule,
    SourceSound,
    campaign_rate_hz,
    in_stereo,
    max_level,
    normalise,
    resample,
)

Key = tuple[str, str]  # item and system
_MAX_TRACE_BYTES = 200_000_000  # of a trace from another database; by default no server stores a larger one
LoadSound = Callable[[], SourceSound]  # pickled where ``run`` calls another process
T = TypeVar("T")
_MAX_LISTED = 50  # bad files in one message
_CHECKED = 50_000  # cached checks of addresses
_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredClip:
    """A stimulus in the clip folder."""

    sha: str
    rate_hz: int
    samples: int
    source_sha: str  # content address of the source audio
    source_rate_hz: int
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float
    trace: str | None = None  # content address of its trace in the clip folder, if any


@dataclass(frozen=True)
class CampaignLevel:
    """The common rate, level and channels of a campaign's sounds, and their source rates by (item, system)."""

    rate_hz: int
    level: float  # in the unit of the campaign's rule
    sources_hz: Mapping[tuple[str, str], int]
    channels: int = 1
    rule: LevelRule = INTEGRATED


class ClipFolder:
    """Clips as ``root/ab/<sha>.wav``: a 44-byte header and 16-bit PCM, no metadata that could name a system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._check = lru_cache(_CHECKED)(self._check_version)

    def path(self, sha: str) -> Path:
        """Path of a clip. Raises BadFile unless ``sha`` is 64 hex digits."""
        if not _SHA.fullmatch(sha):
            raise BadFile("that is not the address of a clip", "an address has 64 hex digits")
        return self.root / sha[:2] / f"{sha}.wav"

    def add(self, pcm: np.ndarray, rate_hz: int) -> str:
        """Store int16 samples [T] or [T, 2]; returns their address once they are on disk."""
        sha = clip_id(pcm, rate_hz)
        self._write_once(self.path(sha), lambda: wav_bytes(pcm, rate_hz))
        return sha

    def add_trace(self, trace: bytes) -> str:
        """Store a trace next to the clips; returns its content address."""
        sha = hashlib.sha256(trace).hexdigest()
        self._write_once(self.trace_path(sha), lambda: trace)
        return sha

    def copy_trace(self, sha: str, source: "ClipFolder") -> None:
        """Copy a trace that is missing here, if the source has it. Raises BadFile: it is unreadable or damaged."""
        theirs = source.trace_path(sha)
        if self.trace_path(sha).is_file() or not theirs.is_file():
            return
        do = "restore a backup there, or move the file away: the campaign is merged without this trace"
        with bad_file(f"the trace {sha[:12]} in {source.root} cannot be read", do):
            trace = read_bounded(theirs, _MAX_TRACE_BYTES)
        if hashlib.sha256(trace).hexdigest() != sha:
            raise BadFile(f"the trace {sha[:12]} in {source.root} is damaged", do)
        self.add_trace(trace)

    def drop_trace(self, sha: str) -> None:
        """Delete a trace that no row references."""
        durable.remove(self.trace_path(sha))

    def trace_path(self, sha: str) -> Path:
        """Path of a trace. Raises BadFile unless ``sha`` is 64 hex digits."""
        return self.path(sha).with_suffix(".trace")

    def read(self, sha: str) -> tuple[np.ndarray, int]:
        """Samples int16 [T] or [T, 2] and rate. Raises BadFile if the clip is missing or does not match its address."""
        pcm, rate_hz = read_pcm(self.path(sha))
        if clip_id(pcm, rate_hz) != sha:
            raise BadFile(f"the clip {sha[:12]} is damaged", "import its campaign again, or restore a backup")
        return pcm, rate_hz

    def channels(self, sha: str) -> int:
        """Number of channels (1 or 2) in a clip's header; 1 if the file does not exist."""
        try:
            with open_unbuffered(self.path(sha)) as file:
                return 2 if file.read(WAV_HEADER_BYTES)[22:24] == b"\2\0" else 1
        except OSError:
            return 1

    def intact_path(self, sha: str) -> Path:
        """Path of a clip that matches its address. Raises BadFile as ``read`` does.

        A file is hashed once, and again if its size or modification time changes; other calls cost one ``stat``.
        """
        path = self.path(sha)
        try:
            stat = path.stat()
        except OSError as error:
            do = "import its campaign again, or restore a backup"
            raise unreadable(error, f"the clip {sha[:12]} cannot be read", do) from error
        self._check(sha, stat.st_size, stat.st_mtime_ns)
        return path

    def _check_version(self, sha: str, size: int, mtime_ns: int) -> None:
        self.read(sha)  # an error is not cached: the clip may be restored

    def _write_once(self, path: Path, content: Callable[[], bytes]) -> None:
        if path.is_file():  # complete, since files are renamed into place; the name may not be on disk yet
            durable.sync_folder(path.parent)
            return
        durable.make_folder(path.parent)
        durable.replace(path, content())


def store_stimuli(
    sounds: Mapping[tuple[str, str], LoadSound],
    folder: ClipFolder,
    at: CampaignLevel | None = None,
    rule: LevelRule = INTEGRATED,
    run: Callable[..., Any] = call_here,
) -> tuple[dict[tuple[str, str], StoredClip], list[str]]:
    """Convert a campaign's sounds, by (item, system), to one rate and level and store them; returns clips and warnings.

    If one sound is in stereo, all are stored in stereo: a browser plays a mono sound on both sides, and the loudness of
    two equal channels (BS.1770-4) is 3 LU above that of one. Each sound is loaded three times, so that a
    campaign need not fit in memory. Raises BadFile: some sounds are unusable (all are named), one would clip at the
    existing level, or one is in stereo and the existing sounds are mono.

    Args:
        at: level of the campaign's existing sounds; by default the highest level that these sounds allow.
        rule: how levels are measured and set; ignored if ``at`` is given.
        run: calls a function with arguments, for one sound at a time; in another process the sounds are pickled.
    """
    rule = rule if at is None else at.rule
    properties = _measure_each(sounds, run, _properties)
    rates_hz = {key: rate_hz for key, (rate_hz, _, _, _) in properties.items()}
    if not rates_hz:
        return {}, []
    rate_hz = campaign_rate_hz(rates_hz.values()) if at is None else at.rate_hz
    stereo = [key for key, (_, channels, _, _) in properties.items() if channels == 2]
    if at is not None and at.channels == 1 and stereo:
        raise BadFile(
            f"{len(stereo)} sounds are in stereo, and those of the campaign are mono: {_named(stereo)}",
            "make the campaign anew from all of its sounds, or make these mono",
        )
    channels = (2 if stereo else 1) if at is None else at.channels
    level = min(_measure_each(sounds, run, _level, rate_hz, channels, rule).values())
    if at is not None:
        if level < at.level:
            raise BadFile(
                f"one of these sounds would clip at {at.level:.2f} {rule.unit}, the level of the other sounds",
                f"make the campaign anew from all of its sounds: they are brought to {level:.2f} {rule.unit} together",
            )
        level = at.level
    stored = {key: run(_store, load, rate_hz, channels, level, rule, folder.root) for key, load in sounds.items()}
    notes = rate_warnings(rates_hz if at is None else {**at.sources_hz, **rates_hz})
    if level < rule.target and at is None:
        notes.append(f"every sound is at {level:.2f} {rule.unit}, not {rule.target:g}, because one would clip")
    clipped = [key for key, (_, _, is_clipped, _) in properties.items() if is_clipped]
    notes += [f"{len(clipped)} sounds are clipped: {_named(clipped)}"] if clipped else []
    if 0 < len(stereo) < len(properties):
        mono = len(properties) - len(stereo)
        notes.append(f"{len(stereo)} sounds are in stereo and {mono} mono, which raters may hear: {_named(stereo)}")
    remarks: dict[str, list[Key]] = {}
    for key, (_, _, _, remark) in properties.items():
        remarks.setdefault(remark, []).append(key)
    notes += [f"{len(keys)} sounds {remark}: {_named(keys)}" for remark, keys in remarks.items() if remark]
    return stored, notes


def _measure_each(
    sounds: Mapping[Key, LoadSound], run: Callable[..., Any], measure: Callable[..., T], *arguments: Any
) -> dict[Key, T]:
    """Load the sounds one by one and measure each. Raises BadFile naming all unusable sounds."""
    measurements: dict[Key, T] = {}
    bad: list[BadFile] = []
    for key, load in sounds.items():
        try:
            measurements[key] = run(measure, load, *arguments)
        except BadFile as error:
            bad.append(error)
    if len(bad) > 1:
        reasons = "".join(f"\n  {error.what}" for error in bad[:_MAX_LISTED])
        more = f"\n  and {len(bad) - _MAX_LISTED} more" if len(bad) > _MAX_LISTED else ""
        ways = " / ".join(dict.fromkeys(error.do for error in bad[:_MAX_LISTED]))
        raise BadFile(f"{len(bad)} of {len(sounds)} sounds cannot be taken:{reasons}{more}\n", ways)
    if bad:
        raise bad[0]
    return measurements


def _named(keys: Sequence[Key]) -> str:
    return ", ".join(f"{item} by {system}" for item, system in keys[:10]) + (", ..." if len(keys) > 10 else "")


def rate_warnings(rates_hz: Mapping[tuple[str, str], int]) -> list[str]:
    """Warnings about systems of different bandwidth; keys are (item, system).

    Listeners perceive bandwidth as quality, so the comparison is unfair (as paper 002 notes of its own test).
    """
    by_system: dict[str, set[int]] = {}
    for (_, system), rate_hz in rates_hz.items():
        by_system.setdefault(system, set()).add(rate_hz)
    if len({rate for rates in by_system.values() for rate in rates}) <= 1:
        return []
    rates_text = "; ".join(
        f"{name}: {', '.join(f'{r} Hz' for r in sorted(rates))}" for name, rates in sorted(by_system.items())
    )
    return [f"the sample rates differ, and listeners hear bandwidth as quality: {rates_text}"]


def _properties(load: LoadSound) -> tuple[int, int, bool, str]:
    sound = load()
    return sound.rate_hz, sound.channels, sound.clipped, sound.remark


def _fitted(sound: SourceSound, rate_hz: int, channels: int) -> SourceSound:
    return in_stereo(resample(sound, rate_hz)) if channels == 2 else resample(sound, rate_hz)


def _level(load: LoadSound, rate_hz: int, channels: int, rule: LevelRule) -> float:
    return max_level(_fitted(load(), rate_hz, channels), rule)


def _store(load: LoadSound, rate_hz: int, channels: int, level: float, rule: LevelRule, root: Path) -> StoredClip:
    source = load()
    level_sound = normalise(_fitted(source, rate_hz, channels), level, rule)
    pcm = to_int16(level_sound.pcm)
    return StoredClip(
        sha=ClipFolder(root).add(pcm, rate_hz),
        rate_hz=rate_hz,
        samples=len(pcm),
        source_sha=clip_id(to_int16(source.pcm), source.rate_hz),
        source_rate_hz=source.rate_hz,
        gain_db=level_sound.gain_db,
        lufs_before=level_sound.lufs_before,
        lufs_after=level_sound.lufs_after,
        peak_dbfs=level_sound.peak_dbfs,
    )
