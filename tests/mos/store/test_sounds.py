"""Imported sounds: refusals, rates, and loudness against BS.1770's figures."""

import os
import sys
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from soundmaking import RATE_HZ, spiky, tone

from studio.core.clips import to_float, to_int16, wav_bytes
from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.mos.store.sounds import (
    TELEPHONE_RATE_HZ,
    SourceSound,
    campaign_rate_hz,
    loudness_lufs,
    max_level_lufs,
    normalise,
    peak_dbfs,
    read_sound,
    resample,
    split_excerpts,
)


def wav(path, channels, rate_hz=RATE_HZ, width=2):
    """A WAV of float channels [T] or [T, C]."""
    channels = np.atleast_2d(np.asarray(channels).T).T
    pcm = to_int16(channels)
    data = pcm.astype("<i2").tobytes() if width == 2 else (pcm.astype(np.int32) * 256).astype("<i4").tobytes()
    if width == 3:
        data = np.frombuffer(data, np.uint8).reshape(-1, 4)[:, :3].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(data)
    return path


def test_plain_wav_is_read_bit_exactly(tmp_path):
    pcm = to_int16(tone())
    (tmp_path / "a.wav").write_bytes(wav_bytes(pcm, RATE_HZ))
    sound = read_sound(tmp_path / "a.wav")
    assert sound.rate_hz == RATE_HZ and sound.pcm.dtype == np.float32 and not sound.clipped
    assert np.array_equal(to_int16(sound.pcm), pcm)


def test_two_equal_channels_are_mono(tmp_path):
    sound = read_sound(wav(tmp_path / "a.wav", np.stack([tone(), tone()], 1)))
    assert np.array_equal(to_int16(sound.pcm), to_int16(tone()))


def test_differing_channels_are_mixed_down_and_reported(tmp_path):
    sound = read_sound(wav(tmp_path / "a.wav", np.stack([tone(), tone(0.2)], 1)))
    assert sound.mixed and np.allclose(sound.pcm, (tone() + tone(0.2)) / 2, atol=1e-4)
    assert read_sound(wav(tmp_path / "b.wav", np.stack([tone(), 0 * tone()], 1))).mixed, "one ear only"
    assert not read_sound(wav(tmp_path / "c.wav", np.stack([tone(), tone()], 1))).mixed


def test_channels_in_antiphase_are_refused_with_advice(tmp_path):
    with pytest.raises(BadFile, match=r"a\.wav has 2 channels that cancel each other.*ffmpeg -i a\.wav -af pan"):
        read_sound(wav(tmp_path / "a.wav", np.stack([tone(), -tone()], 1)))


def test_telephone_speech_is_accepted_on_request(tmp_path):
    path = wav(tmp_path / "a.wav", tone(rate_hz=8_000), 8_000)
    assert read_sound(path, lowest_rate_hz=TELEPHONE_RATE_HZ).rate_hz == 8_000
    with pytest.raises(BadFile, match=r"16000 to 192000 are allowed.* set narrowband = true, then 8000"):
        read_sound(path)
    with pytest.raises(BadFile, match="8000 to 192000 are allowed"):
        read_sound(wav(tmp_path / "b.wav", tone(rate_hz=8_000), 7_999), lowest_rate_hz=TELEPHONE_RATE_HZ)


@pytest.mark.parametrize("rate_hz", [7_999, 15_999, 192_001, 1_000_000_000])
def test_rates_out_of_range_are_refused(tmp_path, rate_hz):
    with pytest.raises(BadFile, match=f"{rate_hz} samples a second; 16000 to 192000 are allowed"):
        read_sound(wav(tmp_path / "a.wav", tone(), rate_hz))


@pytest.mark.parametrize(("seconds", "good"), [(0.1, False), (0.499, False), (0.5, True), (120, True), (120.01, False)])
def test_length_is_limited(tmp_path, seconds, good):
    path = wav(tmp_path / "a.wav", tone(seconds=seconds, rate_hz=16_000), 16_000)
    if good:
        assert read_sound(path).duration_s == seconds
    else:
        with pytest.raises(BadFile, match=r"lasts .* s; a clip lasts 0\.5 to 120 s"):
            read_sound(path)


def test_long_recording_is_read_for_excerpts(tmp_path):
    path = wav(tmp_path / "a.wav", tone(seconds=130, rate_hz=16_000), 16_000)
    assert read_sound(path, longest_s=600).duration_s == 130


def test_silence_is_refused(tmp_path):
    with pytest.raises(BadFile, match=r"a\.wav is silent"):
        read_sound(wav(tmp_path / "a.wav", 0.0005 * tone()))


def test_clipping_is_reported(tmp_path):
    assert read_sound(wav(tmp_path / "a.wav", 3 * tone(0.9))).clipped
    single = tone(0.5)
    single[[100, 200, 300]] = 1.0
    assert not read_sound(wav(tmp_path / "b.wav", single)).clipped


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither WAV nor FLAC"),
        (b"ID3\x04not a wav at all", "neither WAV nor FLAC"),
        (b"RIFF\x00\x00\x00\x00WAVE", "damaged"),
        (b"RIFF\xff\xff\x00\x00WAVEfmt \x10\x00", "damaged"),
        (b"fLaC" + bytes(100), "damaged"),
        (wav_bytes(to_int16(tone()), RATE_HZ)[:-1000], "announces 24000 samples, it has fewer"),
    ],
)
def test_damaged_files_are_refused(tmp_path, data, message):
    (tmp_path / "a.wav").write_bytes(data)
    with pytest.raises(BadFile, match=message):
        read_sound(tmp_path / "a.wav")


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 60), new=st.binary(min_size=1, max_size=8), keep=st.integers(0, 26_000))
def test_no_damage_raises_an_untyped_error(tmp_path_factory, at, new, keep):
    path = tmp_path_factory.mktemp("damage") / "a.wav"
    data = bytearray(wav_bytes(to_int16(tone(seconds=0.55)), RATE_HZ))
    data[at : at + len(new)] = new
    path.write_bytes(bytes(data[:keep]))
    try:
        sound = read_sound(path)
    except BadFile:
        return
    assert sound.pcm.ndim == 1 and np.isfinite(sound.pcm).all() and 0.5 <= sound.duration_s <= 120


def test_size_is_checked_before_reading(tmp_path):
    path = tmp_path / "two-gigabytes.wav"
    with path.open("wb") as file:
        file.truncate(2 * 2**30)  # sparse: reading it would take 2 GiB of memory
    with pytest.raises(BadFile, match="has 2048 MiB; a clip may have 64 MiB"):
        read_sound(path)


def test_special_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")  # opening it would block for ever
    for name in ("pipe.wav", "absent.wav", "."):
        with pytest.raises(BadFile, match="there is no file"):
            read_sound(tmp_path / name)


def test_other_formats_are_read_by_soundfile(tmp_path):
    soundfile.write(tmp_path / "a.flac", tone(), RATE_HZ)
    soundfile.write(tmp_path / "f.wav", tone(), RATE_HZ, subtype="FLOAT")
    wav(tmp_path / "24.wav", tone(), width=3)
    for name in ("a.flac", "f.wav", "24.wav"):
        assert np.abs(read_sound(tmp_path / name).pcm - tone()).max() < 1e-4
    broken = tone().copy()
    broken[7] = np.nan
    soundfile.write(tmp_path / "nan.wav", broken, RATE_HZ, subtype="FLOAT")
    with pytest.raises(BadFile, match="not numbers"):
        read_sound(tmp_path / "nan.wav")


def test_decompression_bomb_is_not_unpacked(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.flac", np.zeros(16_000 * 600, np.float32), 16_000)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("it was unpacked"))
    with pytest.raises(BadFile, match=r"lasts 600\.00 s"):
        read_sound(tmp_path / "a.flac")


def test_missing_soundfile_is_named_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(NeedsPackage, match="convert it to mono 16-bit PCM WAV"):
        read_sound(wav(tmp_path / "24.wav", tone(), width=3))
    assert read_sound(wav(tmp_path / "16.wav", tone())).rate_hz == RATE_HZ


def test_campaign_rate_is_the_highest_up_to_48k():
    assert campaign_rate_hz([16_000, 24_000, 22_050]) == 24_000
    assert campaign_rate_hz([24_000, 96_000]) == 48_000


@pytest.mark.parametrize(("old", "new"), [(16_000, 48_000), (22_050, 24_000), (96_000, 48_000), (44_100, 48_000)])
def test_resampling_keeps_the_tone_and_its_time(old, new):
    there = resample(SourceSound(tone(rate_hz=old), old), new)
    assert there.rate_hz == new and there.pcm.dtype == np.float32 and len(there.pcm) == new
    middle = slice(new // 10, -new // 10)
    assert np.abs(there.pcm - tone(rate_hz=new))[middle].max() < 0.002


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 44_100, 48_000])
def test_loudness_equals_bs1770(rate_hz):
    # BS.1770-4, annex 1: a 997 Hz sine at 0 dBFS in one channel reads -3.01 LKFS.
    assert loudness_lufs(SourceSound(tone(1.0, 3.0, rate_hz), rate_hz)) == pytest.approx(-3.01, abs=0.1)
    assert loudness_lufs(SourceSound(tone(0.1, 3.0, rate_hz), rate_hz)) == pytest.approx(-23.01, abs=0.1)


def test_silent_and_short_sounds_have_no_loudness():
    with pytest.raises(BadFile, match="silent"):
        loudness_lufs(SourceSound(np.zeros(RATE_HZ, np.float32), RATE_HZ))
    with pytest.raises(BadFile, match=r"0\.4 s"):
        loudness_lufs(SourceSound(tone(seconds=0.3), RATE_HZ))


@settings(max_examples=25, deadline=None)
@given(peak=st.floats(0.01, 1.0), seconds=st.floats(0.5, 3.0), target=st.floats(-40, -23))
def test_normalised_sounds_have_the_requested_level(peak, seconds, target):
    before = SourceSound(tone(peak, seconds), RATE_HZ)
    after = normalise(before, target)
    assert after.lufs_after == pytest.approx(target, abs=0.05)
    assert after.gain_db == pytest.approx(target - after.lufs_before)
    assert after.peak_dbfs == pytest.approx(peak_dbfs(before.pcm) + after.gain_db, abs=0.01) and after.peak_dbfs <= -1
    assert loudness_lufs(SourceSound(to_float(to_int16(after.pcm)), RATE_HZ)) == pytest.approx(target, abs=0.05)


def test_clipping_normalisation_is_refused_with_the_possible_level():
    with pytest.raises(BadOption, match=r"spiky\.wav at -23\.0 LUFS would peak at \+1\d\.\d dBFS") as refused:
        normalise(spiky(0.5))
    said = float(refused.value.do.split(" ")[1])
    assert -1.01 <= normalise(spiky(0.5), said).peak_dbfs <= -1
    with pytest.raises(BadOption):
        normalise(spiky(0.5), said + 0.02)


@settings(max_examples=20, deadline=None)
@given(spikes=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3))
def test_common_level_suits_every_sound_and_is_the_highest(spikes):
    all_sounds = [spiky(s) for s in spikes]
    level = min(map(max_level_lufs, all_sounds))
    peaks = [normalise(s, level).peak_dbfs for s in all_sounds]
    assert level == -23.0 or max(peaks) > -1.02
    assert max(peaks) <= -1


def test_ends_of_a_long_sound():
    sound = SourceSound(
        np.random.default_rng(0).uniform(-0.5, 0.5, 100 * RATE_HZ).astype(np.float32), RATE_HZ, "long.wav"
    )
    first, last = split_excerpts(sound)
    assert first.duration_s == last.duration_s == 30
    fade = round(0.005 * RATE_HZ)
    assert np.array_equal(first.pcm[:-fade], sound.pcm[: 30 * RATE_HZ - fade]) and first.pcm[-1] == 0
    assert np.array_equal(last.pcm[fade:], sound.pcm[70 * RATE_HZ + fade :]) and last.pcm[0] == 0
    assert "first 30 s of long.wav" in first.name and "last 30 s" in last.name
    short = SourceSound(tone(), RATE_HZ)
    assert split_excerpts(short) == (short, short)
