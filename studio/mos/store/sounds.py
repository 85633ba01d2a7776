"""Import of audio files: decoding and checks, resampling, loudness measurement and normalisation."""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# (scipy and pyloudnorm carry no types)

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy

from studio.core.clips import channels_of, to_float
from studio.core.errors import BadFile, BadOption
from studio.core.sound_files import SoundStream, Survey, one_channel_hint
from studio.mos.store.speech_level import active_level_dbov

MAX_SAMPLES = 12_000_000  # of all channels: 120 s of stereo at 48 kHz; bounds the memory of resampling and loudness
SHORTEST_S, LONGEST_S = 0.5, 120.0
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 16_000, 192_000
TELEPHONE_RATE_HZ = 8_000  # the lowest rate of a campaign with ``narrowband``
HIGHEST_CAMPAIGN_RATE_HZ = 48_000
TARGET_LUFS = -23.0  # EBU R 128
TARGET_DBOV = -26.0  # of active speech, as in ITU-T P.835 and P.800
PEAK_LIMIT_DBFS = -1.0
_SILENT_LUFS = -70.0  # the absolute gate of BS.1770-4
_SILENT_PEAK = 1e-3
_FULL_SCALE = 32767 / 32768
_FADE_S = 0.005  # raised cosine, required by BS.1534-3 section 5.3 where content is cut


@dataclass(frozen=True, eq=False)
class SourceSound:
    """Samples float32, full scale at 1: mono [T] or stereo [T, 2]."""

    pcm: np.ndarray
    rate_hz: int
    name: str = "the sound"
    clipped: bool = False  # at least three consecutive samples are at full scale
    remark: str = ""  # how its channels were converted, or a problem with them

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return len(self.pcm) / self.rate_hz

    @property
    def channels(self) -> int:
        """1 or 2."""
        return channels_of(self.pcm)


@dataclass(frozen=True, eq=False)
class NormalisedSound:
    """A sound at its new level, float32 [T] or [T, 2], with measurements."""

    pcm: np.ndarray
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float


# Maps the number of samples and the rate to the start and end of a part, in samples.
Part = Callable[[int, int], tuple[int, int]]


def read_sound(
    path: Path, longest_s: float = LONGEST_S, lowest_rate_hz: int = LOWEST_RATE_HZ, part: Part | None = None
) -> SourceSound:
    """Read a sound file of any format of ``studio.core.sound_files``, or a part of it, in mono or stereo.

    Two equal channels become mono. Of more than two, the only one that is not silent is taken, or all are mixed to
    stereo (ITU-R BS.775-3), as noted in ``remark``. The file is decoded twice, in blocks; only ``part`` is kept.

    Raises:
        BadFile: missing, larger than 64 MiB, damaged, of another format, too short, too long, a rate below
            ``lowest_rate_hz``, more than 12 million samples of all channels, or silent.
        Unavailable: the disk failed.
    """
    stream = SoundStream(path)
    name, rate_hz = stream.name, stream.rate_hz
    _check_length(name, stream.frames or round(SHORTEST_S * rate_hz), rate_hz, longest_s, lowest_rate_hz)
    survey = stream.survey(int(longest_s * rate_hz))
    _check_length(name, survey.frames, rate_hz, longest_s, lowest_rate_hz)
    if survey.peak.max() < _SILENT_PEAK:
        raise BadFile(f"{name} is silent", "give a recording, or leave the script out")
    weights = stream.weights(survey)
    start, end = part(survey.frames, rate_hz) if part else (0, survey.frames)
    channels = stream.channels if weights is None else weights.shape[1]
    if (end - start) * channels > MAX_SAMPLES:
        allowed = f"give at most {MAX_SAMPLES:,}, for example at 48,000 a second"
        raise BadFile(f"{name} has {(end - start) * channels:,} samples", allowed)
    pcm = np.empty((end - start, channels), np.float32)
    at = 0
    for block in stream.blocks(most_frames=survey.frames):
        first, last = max(at, start), min(at + len(block), end)
        if first < last:
            cut = block[first - at : last - at]
            pcm[first - start : last - start] = cut if weights is None else cut @ weights
        at += len(block)
    if np.abs(pcm).max() < _SILENT_PEAK * survey.peak.max():
        raise BadFile(f"{name} has channels that cancel each other", one_channel_hint(stream, survey))
    pcm = pcm if channels == 2 else pcm[:, 0]
    return SourceSound(pcm, rate_hz, name, survey.is_clipped, _remark(stream, survey, weights))


def _remark(stream: SoundStream, survey: Survey, weights: np.ndarray | None) -> str:
    if stream.channels > 2 and not survey.are_equal:
        if weights is not None and weights.shape[1] == 1:
            return "of several channels, of which only one sounds, are taken from that one"
        return "of several channels were mixed to stereo"
    if stream.channels == 2 and survey.is_cancelled:
        return "in stereo have channels that cancel each other on one loudspeaker"
    if stream.channels == 2 and not survey.are_equal and len(survey.sounding) == 1:
        return "in stereo have a silent channel, and are heard on one side"
    return ""


def sound_from_pcm(pcm: np.ndarray, rate_hz: int, name: str) -> SourceSound:
    """A sound from int16 samples [T], with the checks of a file. Raises BadFile."""
    _check_length(name, len(pcm), rate_hz, LONGEST_S, LOWEST_RATE_HZ)
    samples = to_float(pcm)
    if np.abs(samples).max() < _SILENT_PEAK:
        raise BadFile(f"{name} is silent", "say another text")
    full = np.abs(samples) >= _FULL_SCALE
    return SourceSound(samples, rate_hz, name, bool((full[:-2] & full[1:-1] & full[2:]).any()))


def _check_length(name: str, samples: int, rate_hz: int, longest_s: float, lowest_rate_hz: int) -> None:
    if not lowest_rate_hz <= rate_hz <= HIGHEST_RATE_HZ:
        telephone = f"; for telephone speech set narrowband = true, then {TELEPHONE_RATE_HZ}"
        raise BadFile(
            f"{name} has {rate_hz} samples a second",
            f"{lowest_rate_hz} to {HIGHEST_RATE_HZ} are allowed; make it again at a rate in that range"
            + (telephone if TELEPHONE_RATE_HZ <= rate_hz < lowest_rate_hz else ""),
        )
    if not SHORTEST_S <= samples / rate_hz <= longest_s:
        raise BadFile(f"{name} lasts {samples / rate_hz:.2f} s", f"a clip lasts {SHORTEST_S:g} to {longest_s:g} s")


def campaign_rate_hz(rates_hz: Iterable[int]) -> int:
    """A campaign's rate: the highest of its sounds, 48 kHz at most."""
    return min(max(rates_hz), HIGHEST_CAMPAIGN_RATE_HZ)


def resample(sound: SourceSound, rate_hz: int) -> SourceSound:
    """Resample to ceil(T * rate_hz / sound.rate_hz) samples."""
    if rate_hz == sound.rate_hz:
        return sound
    shared = math.gcd(rate_hz, sound.rate_hz)
    up, down = rate_hz // shared, sound.rate_hz // shared

    def resampled(pcm: np.ndarray) -> np.ndarray:
        return scipy.signal.resample_poly(pcm.astype(np.float64), up, down).astype(np.float32)

    return replace(each_channel(sound, resampled), rate_hz=rate_hz)


def in_stereo(sound: SourceSound) -> SourceSound:
    """The sound with two channels; those of a mono sound are equal, as a browser plays it."""
    return sound if sound.channels == 2 else replace(sound, pcm=np.stack([sound.pcm, sound.pcm], axis=1))


def each_channel(sound: SourceSound, of: Callable[[np.ndarray], np.ndarray]) -> SourceSound:
    """The sound with a function of float32 [T] to [T'] applied to each channel."""
    pcm = sound.pcm
    mapped = of(pcm) if pcm.ndim == 1 else np.stack([of(np.ascontiguousarray(one)) for one in pcm.T], axis=1)
    return replace(sound, pcm=mapped)


def faded(sound: SourceSound, at_start: bool) -> SourceSound:
    """The sound with a 5 ms fade at its start or end, to avoid a click where it was cut from a longer one."""
    count = round(_FADE_S * sound.rate_hz)
    fade = (0.5 + 0.5 * np.cos(np.pi * (np.arange(count) + 1) / count)).astype(np.float32)
    fade = fade if sound.channels == 1 else fade[:, None]
    pcm = sound.pcm.copy()
    if at_start:
        pcm[:count] *= fade[::-1]
    else:
        pcm[-count:] *= fade
    return replace(sound, pcm=pcm)


def loudness_lufs(sound: SourceSound) -> float:
    """Integrated loudness (ITU-R BS.1770-4: the powers of two channels add up).

    Raises BadFile if it is silent or under 0.4 s.
    """
    if sound.duration_s < 0.4:
        raise BadFile(f"{sound.name} lasts {sound.duration_s:.2f} s", "loudness needs 0.4 s at least")
    import pyloudnorm  # takes 30 MB, and only imports of files need it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no block passes the gate, handled below
        lufs = float(pyloudnorm.Meter(sound.rate_hz).integrated_loudness(sound.pcm.astype(np.float64)))
    if not lufs > _SILENT_LUFS:
        raise BadFile(f"{sound.name} is silent", "give a recording, or leave the script out")
    return lufs


def peak_dbfs(pcm: np.ndarray) -> float:
    """Peak level in dBFS."""
    return float(20.0 * np.log10(max(float(np.abs(pcm).max()), 1e-12)))


def active_level(sound: SourceSound) -> float:
    """Active speech level in dBov (ITU-T P.56). Raises BadFile if it is silent."""
    if (level := active_level_dbov(sound.pcm, sound.rate_hz)) is None:
        raise BadFile(f"{sound.name} holds no speech that is loud enough", "give a recording, or leave the script out")
    return level


@dataclass(frozen=True)
class LevelRule:
    """How a campaign's sounds are brought to one level: ``target`` and ``measure`` are in ``unit``."""

    unit: str
    target: float
    measure: Callable[[SourceSound], float]
    peak_limit_dbfs: float = PEAK_LIMIT_DBFS


def _unchanged(_sound: SourceSound) -> float:
    return 0.0


LEVEL_RULES: Mapping[str, LevelRule] = {
    "integrated": LevelRule("LUFS", TARGET_LUFS, loudness_lufs),
    "active": LevelRule("dBov of active speech", TARGET_DBOV, active_level),
    # every sound gets the same gain: 0 dB, or less if one would clip
    "keep": LevelRule("dB", 0.0, _unchanged, peak_limit_dbfs=0.0),
}
INTEGRATED = LEVEL_RULES["integrated"]


def max_level(sound: SourceSound, rule: LevelRule = INTEGRATED) -> float:
    """The highest level, at most the rule's target, at which a sound does not clip. Raises BadFile if it is silent."""
    return min(rule.target, _highest(rule.measure(sound), peak_dbfs(sound.pcm), rule))


def normalise(sound: SourceSound, target: float = TARGET_LUFS, rule: LevelRule = INTEGRATED) -> NormalisedSound:
    """Scale a sound to ``target`` by a rule; no limiter is applied.

    Raises:
        BadOption: its peak would exceed the rule's limit; the error names a level that the campaign could use.
        BadFile: it is silent.
    """
    before = rule.measure(sound)
    gain_db = target - before
    peak = peak_dbfs(sound.pcm) + gain_db
    if peak > rule.peak_limit_dbfs:
        raise BadOption(
            f"{sound.name} at {target:.1f} {rule.unit} would peak at {peak:+.1f} dBFS",
            f"take {_highest(before, peak - gain_db, rule):.2f} {rule.unit} or less for every sound of the campaign",
        )
    pcm = (sound.pcm * 10.0 ** (gain_db / 20.0)).astype(np.float32)
    after = replace(sound, pcm=pcm)
    return NormalisedSound(pcm, gain_db, loudness_lufs(sound), loudness_lufs(after), min(peak_dbfs(pcm), 0.0))


def _highest(level: float, peak: float, rule: LevelRule) -> float:
    """The highest level without clipping, rounded down to 0.01 so that the printed level is safe."""
    return math.floor(100.0 * (level + rule.peak_limit_dbfs - peak)) / 100.0
