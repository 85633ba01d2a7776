"""The clip folder, and normalising a campaign's sounds to one rate and one level."""

import hashlib
import io
import os
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from soundmaking import RATE_HZ, spiky, tone

from studio.core.clips import clip_id, to_float, to_int16, wav_bytes
from studio.core.errors import BadFile
from studio.core.sound_files import read_mono
from studio.mos.store.clips import CampaignLevel, ClipFolder, rate_warnings, store_stimuli
from studio.mos.store.sounds import SourceSound, loudness_lufs, read_sound


def test_clips_are_addressed_by_content(tmp_path):
    folder, pcm = ClipFolder(tmp_path / "clips"), to_int16(tone())
    sha = folder.add(pcm, RATE_HZ)
    assert sha == clip_id(pcm, RATE_HZ) == hashlib.sha256(struct.pack("<I", RATE_HZ) + pcm.tobytes()).hexdigest()
    assert folder.path(sha) == tmp_path / "clips" / sha[:2] / f"{sha}.wav"
    data = folder.path(sha).read_bytes()
    assert len(data) == 44 + 2 * len(pcm) and data[44:] == pcm.tobytes()
    assert [p for p in (tmp_path / "clips").rglob("*") if p.is_file()] == [folder.path(sha)]
    assert np.array_equal(folder.read(sha)[0], pcm)


def test_clip_is_written_once(tmp_path):
    folder, pcm = ClipFolder(tmp_path), to_int16(tone())
    sha = folder.add(pcm, RATE_HZ)
    before = folder.path(sha).stat()
    assert folder.add(pcm, RATE_HZ) == sha
    assert folder.path(sha).stat().st_ino == before.st_ino


def test_clip_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    order = []
    real_sync, real_replace = os.fsync, type(tmp_path).replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), real_sync(fd)))
    monkeypatch.setattr(type(tmp_path), "replace", lambda self, to: (order.append("rename"), real_replace(self, to))[1])
    ClipFolder(tmp_path).add(to_int16(tone()), RATE_HZ)
    assert order == ["fsync", "fsync", "rename", "fsync"]  # its new folder's entry, its bytes, then its own entry


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        ClipFolder(tmp_path).add(to_int16(tone()), RATE_HZ)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


GOOD = "ab" * 32


@pytest.mark.parametrize(
    "sha", ["", "ab", GOOD[:-1], GOOD + "a", GOOD.upper(), GOOD[:-1] + "g", "../" + GOOD[3:], GOOD + "\n", "é" * 64]
)
def test_only_an_address_is_an_address(tmp_path, sha):
    with pytest.raises(BadFile, match="64 hex digits"):
        ClipFolder(tmp_path).path(sha)


@given(sha=st.text(max_size=80))
def test_no_text_leads_out_of_the_folder(tmp_path_factory, sha):
    folder = ClipFolder(tmp_path_factory.getbasetemp())
    try:
        path = folder.path(sha)
    except BadFile:
        return
    assert path.resolve().is_relative_to(folder.root.resolve())


def test_damaged_clip_is_noticed(tmp_path):
    folder = ClipFolder(tmp_path)
    sha = folder.add(to_int16(tone()), RATE_HZ)
    data = bytearray(folder.path(sha).read_bytes())
    data[500] ^= 1
    folder.path(sha).write_bytes(bytes(data))
    with pytest.raises(BadFile, match="damaged"):
        folder.read(sha)


def test_played_clip_is_checked_once_per_version_of_its_file(tmp_path, monkeypatch):
    folder = ClipFolder(tmp_path)
    sha = folder.add(to_int16(tone()), RATE_HZ)
    path, reads = folder.path(sha), []
    read = folder.read
    monkeypatch.setattr(folder, "read", lambda sha: reads.append(sha) or read(sha))
    assert [folder.intact_path(sha) for _ in range(3)] == [path] * 3
    assert reads == [sha]
    good = path.read_bytes()
    for bad in (good[:-2], good[:500] + bytes([good[500] ^ 1]) + good[501:]):
        path.write_bytes(bad)
        os.utime(path, ns=(0, len(reads)))  # two writes may share a tick of the file system's clock
        for _ in range(2):
            with pytest.raises(BadFile, match="damaged"):
                folder.intact_path(sha)
    path.write_bytes(good)
    assert folder.intact_path(sha) == path
    path.unlink()
    with pytest.raises(BadFile, match=r"the clip [0-9a-f]{12} cannot be read"):
        folder.intact_path(sha)


def test_stimuli_get_one_rate_and_one_level(tmp_path):
    made = {("i", "a"): SourceSound(tone(0.3), RATE_HZ), ("i", "b"): SourceSound(tone(0.02, rate_hz=16_000), 16_000)}
    folder = ClipFolder(tmp_path)
    stored, notes = store_stimuli({key: lambda key=key: made[key] for key in made}, folder)
    assert "16000 Hz" in notes[0] and len(notes) == 1
    for key, clip in stored.items():
        pcm, rate_hz = read_mono(folder.path(clip.sha))
        assert (rate_hz, len(pcm)) == (clip.rate_hz, clip.samples) == (RATE_HZ, RATE_HZ)
        assert loudness_lufs(SourceSound(to_float(pcm), rate_hz)) == pytest.approx(-23, abs=0.05)
        assert clip.source_rate_hz == made[key].rate_hz
        assert clip.source_sha == clip_id(to_int16(made[key].pcm), clip.source_rate_hz)
        assert clip.lufs_before + clip.gain_db == pytest.approx(-23) and clip.peak_dbfs <= -1


def test_one_sound_that_would_clip_lowers_all(tmp_path):
    made = {("i", "a"): SourceSound(tone(0.3, 2.0), RATE_HZ), ("i", "b"): spiky(0.5)}
    stored, notes = store_stimuli({key: lambda key=key: made[key] for key in made}, ClipFolder(tmp_path))
    levels = [clip.lufs_after for clip in stored.values()]
    assert levels[0] == pytest.approx(levels[1], abs=0.05) and levels[0] < -30
    assert any("because one would clip" in line for line in notes)


def test_clipped_sources_are_reported(tmp_path):
    sound = SourceSound(tone(), RATE_HZ, clipped=True)
    stored, notes = store_stimuli({("i1", "a"): lambda: sound}, ClipFolder(tmp_path))
    assert set(stored) == {("i1", "a")} and notes == ["1 sounds are clipped: i1 by a"]
    assert store_stimuli({}, ClipFolder(tmp_path)) == ({}, [])


def test_metadata_of_the_source_file_is_dropped(tmp_path):
    """A LIST chunk could name the system that made the file."""
    plain = wav_bytes(to_int16(tone()), RATE_HZ)
    info = b"LIST" + struct.pack("<I", 16) + b"INFOISFT" + struct.pack("<I", 4) + b"slt\0"
    data = plain[:4] + struct.pack("<I", len(plain) - 8 + len(info)) + plain[8:36] + info + plain[36:]
    (tmp_path / "a.wav").write_bytes(data)
    with wave.open(io.BytesIO(data)) as check:
        assert check.getnframes() == RATE_HZ
    folder = ClipFolder(tmp_path / "clips")
    stored, _ = store_stimuli({("i", "a"): lambda: read_sound(tmp_path / "a.wav")}, folder)
    kept = folder.path(stored["i", "a"].sha).read_bytes()
    assert b"slt" not in kept[:200] and b"LIST" not in kept[:200] and kept[36:40] == b"data"


def test_systems_with_other_rates_are_reported():
    rates = {("i1", "a"): 24_000, ("i1", "b"): 16_000, ("i2", "b"): 24_000}
    assert "a: 24000 Hz; b: 16000 Hz, 24000 Hz" in rate_warnings(rates)[0]
    assert rate_warnings({("i1", "a"): 24_000, ("i1", "b"): 24_000}) == []


def test_all_refused_files_are_named_at_once(tmp_path):
    """A lab with two hundred files can fix them in one pass."""

    def load(name):
        def loaded():
            if name.startswith("bad"):
                raise BadFile(f"{name} is damaged", "write it again")
            return SourceSound(tone(), RATE_HZ, name)

        return loaded

    bad = {(f"i{n:02}", "s"): load(f"bad{n:02}.wav") for n in range(60)}
    with pytest.raises(BadFile) as refused:
        store_stimuli({("good", "s"): load("good.wav"), **bad}, ClipFolder(tmp_path))
    assert refused.value.what.startswith("60 of 61 sounds cannot be taken:\n  bad00.wav is damaged\n  bad01.wav")
    assert "bad49" in refused.value.what and "bad50" not in refused.value.what
    assert refused.value.what.endswith("  and 10 more\n") and refused.value.do == "write it again"
    with pytest.raises(BadFile) as one:
        store_stimuli({("good", "s"): load("good.wav"), ("b", "s"): load("bad.wav")}, ClipFolder(tmp_path))
    assert one.value.what == "bad.wav is damaged"
    quiet = {k: lambda: SourceSound(1e-5 * tone(), RATE_HZ, "quiet.wav") for k in (("a", "s"), ("b", "s"))}
    with pytest.raises(BadFile, match="2 of 2 sounds cannot be taken"):  # found only when its level is measured
        store_stimuli(quiet, ClipFolder(tmp_path))


def test_stereo_sounds_make_a_campaign_of_stereo(tmp_path):
    """A browser plays a mono sound on both sides: it gets two equal channels, and their loudness."""
    both = np.stack([tone(0.3), tone(0.1)], 1)
    made = {
        ("i1", "a"): SourceSound(both, RATE_HZ, remark="in stereo are odd"),
        ("i1", "b"): SourceSound(tone(0.3), RATE_HZ),
    }
    folder = ClipFolder(tmp_path)
    stored, notes = store_stimuli({key: lambda key=key: made[key] for key in made}, folder)
    for clip in stored.values():
        pcm, rate_hz = folder.read(clip.sha)
        assert pcm.shape == (RATE_HZ, 2) and clip.samples == RATE_HZ and folder.channels(clip.sha) == 2
        assert loudness_lufs(SourceSound(to_float(pcm), rate_hz)) == pytest.approx(-23, abs=0.05)
        with wave.open(str(folder.intact_path(clip.sha))) as file:
            assert file.getnchannels() == 2 and file.getnframes() == RATE_HZ
    pcm, _ = folder.read(stored["i1", "b"].sha)
    assert np.array_equal(pcm[:, 0], pcm[:, 1])
    assert notes == [
        "1 sounds are in stereo and 1 mono, which raters may hear: i1 by a",
        "1 sounds in stereo are odd: i1 by a",
    ]


def test_stereo_does_not_join_a_mono_campaign(tmp_path):
    both = SourceSound(np.stack([tone(0.3), tone(0.1)], 1), RATE_HZ)
    mono = CampaignLevel(RATE_HZ, -23.0, {})
    with pytest.raises(BadFile, match=r"1 sounds are in stereo, and those of the campaign are mono: i by s"):
        store_stimuli({("i", "s"): lambda: both}, ClipFolder(tmp_path), mono)
    level = CampaignLevel(RATE_HZ, -23.0, {}, channels=2)
    stored, _ = store_stimuli({("i", "s"): lambda: SourceSound(tone(), RATE_HZ)}, ClipFolder(tmp_path), level)
    assert ClipFolder(tmp_path).channels(stored["i", "s"].sha) == 2


def test_address_tells_stereo_from_mono():
    pcm = to_int16(tone())
    both = pcm.reshape(-1, 2)
    assert clip_id(both, RATE_HZ) != clip_id(pcm, RATE_HZ), "the same bytes with another number of channels"
