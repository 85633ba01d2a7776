"""Imported sounds: refusals, rates, and loudness against BS.1770's figures."""

import os
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from soundmaking import RATE_HZ, spiky, tone

from studio.core.clips import to_float, to_int16, wav_bytes
from studio.core.errors import BadFile, BadOption
from studio.mos.store.sounds import (
    TELEPHONE_RATE_HZ,
    SourceSound,
    campaign_rate_hz,
    faded,
    in_stereo,
    loudness_lufs,
    max_level,
    normalise,
    peak_dbfs,
    read_sound,
    resample,
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


def test_stereo_is_kept(tmp_path):
    both = np.stack([tone(), tone(0.2)], 1)
    sound = read_sound(wav(tmp_path / "a.wav", both))
    assert sound.channels == 2 and sound.pcm.shape == both.shape and np.allclose(sound.pcm, both, atol=1e-4)
    assert sound.remark == "" and not sound.clipped
    assert "silent channel" in read_sound(wav(tmp_path / "b.wav", np.stack([tone(), 0 * tone()], 1))).remark
    assert "cancel each other" in read_sound(wav(tmp_path / "c.wav", np.stack([tone(), -tone()], 1))).remark


def test_only_channel_that_sounds_is_taken_of_several(tmp_path):
    six = np.zeros((RATE_HZ, 6), np.float32)
    six[:, 2] = tone()
    sound = read_sound(wav(tmp_path / "a.wav", six))
    assert sound.channels == 1 and np.allclose(sound.pcm, tone(), atol=1e-4) and "only one sounds" in sound.remark


def test_several_channels_are_mixed_to_stereo_by_bs775(tmp_path):
    six = np.zeros((RATE_HZ, 6), np.float32)
    six[:, 0], six[:, 2], six[:, 3] = 0.1, tone(0.3), 0.5
    sound = read_sound(wav(tmp_path / "a.wav", six))
    whole = 1 + 2 * 0.5**0.5  # front, centre and back of one side
    assert sound.channels == 2 and "mixed to stereo" in sound.remark
    assert np.allclose(sound.pcm[:, 0], (0.1 + 0.5**0.5 * tone(0.3)) / whole, atol=1e-4), "no low-frequency effects"
    assert np.allclose(sound.pcm[:, 1], 0.5**0.5 * tone(0.3) / whole, atol=1e-4)


def test_loudness_of_two_channels_adds_up():
    """BS.1770-4: equal channels read 3.01 LU more than one of them."""
    one = SourceSound(tone(0.1, 3.0), RATE_HZ)
    assert loudness_lufs(in_stereo(one)) - loudness_lufs(one) == pytest.approx(3.01, abs=0.01)
    level = normalise(in_stereo(one))
    assert level.pcm.shape == (3 * RATE_HZ, 2) and level.lufs_after == pytest.approx(-23, abs=0.05)
    there = resample(in_stereo(one), 16_000)
    assert there.pcm.shape == (48_000, 2) and np.array_equal(there.pcm[:, 0], there.pcm[:, 1])


def test_telephone_speech_is_accepted_on_request(tmp_path):
    path = wav(tmp_path / "a.wav", tone(rate_hz=8_000), 8_000)
    assert read_sound(path, lowest_rate_hz=TELEPHONE_RATE_HZ).rate_hz == 8_000
    with pytest.raises(BadFile, match=r"16000 to 192000 are allowed.* set narrowband = true, then 8000"):
        read_sound(path)
    with pytest.raises(BadFile, match="8000 to 192000 are allowed"):
        read_sound(wav(tmp_path / "b.wav", tone(rate_hz=8_000), 7_999), lowest_rate_hz=TELEPHONE_RATE_HZ)


@pytest.mark.parametrize("rate_hz", [7_999, 15_999, 192_001])
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
        (b"", "is empty"),
        (b"ID3\x04not a wav at all", "damaged or of a coding that is not read"),
        (b"RIFF\x00\x00\x00\x00WAVE", "no data chunk"),
        (b"RIFF\xff\xff\x00\x00WAVEfmt \x10\x00", "no data chunk"),
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
    assert sound.channels == len(sound.pcm.shape) and np.isfinite(sound.pcm).all() and 0.5 <= sound.duration_s <= 120


def test_size_is_checked_before_reading(tmp_path):
    path = tmp_path / "two-gigabytes.wav"
    with path.open("wb") as file:
        file.truncate(2 * 2**30)  # sparse: reading it would take 2 GiB of memory
    with pytest.raises(BadFile, match="has 2048 MiB; a sound file may have 64 MiB"):
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


def test_long_sound_at_a_high_rate_is_refused(tmp_path):
    """Memory of resampling and loudness is bounded by the samples."""
    many = np.stack([tone(seconds=70, rate_hz=96_000), tone(0.2, 70, 96_000)], 1)
    with pytest.raises(BadFile, match=r"13,440,000 samples; give at most 12,000,000"):
        read_sound(wav(tmp_path / "a.wav", many, 96_000))


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
    level = min(map(max_level, all_sounds))
    peaks = [normalise(s, level).peak_dbfs for s in all_sounds]
    assert level == -23.0 or max(peaks) > -1.02
    assert max(peaks) <= -1


def test_part_of_a_long_sound_is_read_and_faded(tmp_path):
    whole = np.random.default_rng(0).uniform(-0.5, 0.5, 100 * RATE_HZ).astype(np.float32)
    path = wav(tmp_path / "long.wav", np.stack([whole, -0.5 * whole], 1))
    part = read_sound(path, 600, part=lambda samples, rate_hz: (samples - 30 * rate_hz, samples))
    assert part.duration_s == 30 and np.allclose(part.pcm[:, 0], whole[70 * RATE_HZ :], atol=1e-4)
    fade = round(0.005 * RATE_HZ)
    first, last = faded(part, at_start=False), faded(part, at_start=True)
    assert np.array_equal(first.pcm[:-fade], part.pcm[:-fade]) and not first.pcm[-1].any()
    assert np.array_equal(last.pcm[fade:], part.pcm[fade:]) and not last.pcm[0].any()
