"""Derived stimuli: anchors within BS.1534-3's mask; excerpts of both ends of a script (002, H.1)."""

import re
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.rated import MOS, a_world
from mos.world import RATE_HZ, World

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import Gates
from studio.mos.campaign.manifest import StimulusManifest
from studio.mos.stimuli.building import build_campaign, extend_campaign
from studio.mos.stimuli.derived import (
    LOW_HZ,
    MID_HZ,
    anchor,
    anchor_taps,
    excerpt_length_s,
    of_whole_scripts,
    with_excerpts,
)
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.sounds import SourceSound
from studio.mos.store.tables import Clip, Item, Stimulus, System


def sounds(folder: Path, seconds: float) -> StimulusManifest:
    """Two systems of one script, 300 Hz in its first half and 900 Hz in its second; and a short trap."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    tone = 4000 * np.sin(2 * np.pi * np.where(time_s < seconds / 2, 300, 900) * time_s)
    for name, pcm in (("heron/talk", tone), ("teal/talk", 0.5 * tone), ("trap/two=2", tone[:RATE_HZ])):
        path = folder / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            file.writeframes(pcm.astype("<i2").tobytes())
    (folder / "texts.txt").write_text("talk|What is said.\ntwo|Choose two.", encoding="utf-8")
    return read_manifest(folder)


@pytest.fixture
def lite(tmp_path: Path) -> World:
    return a_world(tmp_path)


def test_each_end_is_a_stimulus(lite: World, tmp_path: Path) -> None:
    """Two items per script of the requested length and position; the trap stays whole, with its text."""
    config = replace(MOS, gates=Gates(level=False, traps=1))
    build_campaign(lite.listening, "talks", config, sounds(tmp_path / "in", 5.0), excerpt_s=2.0)
    items = {i.id: i for i in lite.all(Item)}
    assert {i.name: i.text for i in items.values()} == {
        "talk (first 2 s)": "",
        "talk (last 2 s)": "",
        "two": "Choose two.",
    }
    lengths = {c.sha: c.samples for c in lite.all(Clip)}
    tops = {}
    for stimulus in lite.all(Stimulus):
        name = items[stimulus.item_id].name
        assert lengths[stimulus.clip_sha] == (RATE_HZ if name == "two" else 2 * RATE_HZ)
        with wave.open(str(lite.listening.clips.path(stimulus.clip_sha))) as file:
            pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(float)
        tops[name] = round(np.argmax(np.abs(np.fft.rfft(pcm))) * RATE_HZ / len(pcm))
    assert (tops["talk (first 2 s)"], tops["talk (last 2 s)"]) == (300, 900)


def test_overlapping_ends_are_refused(lite: World, tmp_path: Path) -> None:
    """Nothing is created and the sound is named."""
    with pytest.raises(BadFile, match=r"talk.wav lasts 5.0 s: its first and last 3 s overlap"):
        build_campaign(lite.listening, "talks", MOS, sounds(tmp_path / "in", 5.0), excerpt_s=3.0)
    assert not lite.all(Item)


def test_imported_sounds_are_cut_alike(lite: World, tmp_path: Path) -> None:
    """A new script and a new system with whole files; a trap stays whole, and excerpts show no text."""
    build_campaign(lite.listening, "talks", MOS, sounds(tmp_path / "in", 5.0), excerpt_s=2.0)
    more = tmp_path / "more"
    for file in ("heron/second", "teal/second", "wren/second", "wren/talk"):
        (more / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "in" / "heron" / "talk.wav", more / f"{file}.wav")
    (more / "texts.txt").write_text("second|What comes then.", encoding="utf-8")
    count, _ = extend_campaign(lite.listening, "talks", more)
    items = {i.id: i for i in lite.all(Item)}
    ends = {f"{talk} ({side} 2 s)" for talk in ("talk", "second") for side in ("first", "last")}
    assert {i.name: i.text for i in items.values()} == {**dict.fromkeys(ends, ""), "two": "Choose two."}
    systems = {s.id: s.name for s in lite.all(System)}
    lengths = {c.sha: c.samples for c in lite.all(Clip)}
    there = {(items[s.item_id].name, systems[s.system_id]): lengths[s.clip_sha] for s in lite.all(Stimulus)}
    assert count == 8 and len(there) == 13
    assert there == {(i, s): 2 * RATE_HZ for i in ends for s in ("heron", "teal", "wren")} | {
        ("two", "control"): RATE_HZ
    }
    same = {s.clip_sha for s in lite.all(Stimulus) if items[s.item_id].name.endswith("(first 2 s)")}
    assert len(same) <= 2  # the same samples whenever they were cut (teal was half as loud before)


@pytest.mark.parametrize(
    ("file", "seconds", "message"),
    [
        ("heron/talk.wav", 5.0, "item 'talk' by system 'heron' is there twice; the first is the campaign"),
        ("wren/talk.wav", 3.0, "wren: talk.wav lasts 3.0 s: its first and last 2 s overlap"),
    ],
)
def test_imported_sounds_that_cannot_be_cut_are_refused(
    lite: World, tmp_path: Path, file: str, seconds: float, message: str
) -> None:
    build_campaign(lite.listening, "talks", MOS, sounds(tmp_path / "in", 5.0), excerpt_s=2.0)
    sounds(tmp_path / "short", seconds)
    (tmp_path / "more" / file).parent.mkdir(parents=True)
    shutil.copy(tmp_path / "short" / "heron" / "talk.wav", tmp_path / "more" / file)
    with pytest.raises(BadFile, match=re.escape(message)):
        extend_campaign(lite.listening, "talks", tmp_path / "more")
    assert len(lite.all(System)) == 3 and len(lite.all(Stimulus)) == 5


def test_ends_are_recognised_by_their_names(tmp_path: Path) -> None:
    """Both of every script, of equal length; otherwise the names are the user's own and scripts are whole."""
    manifest = sounds(tmp_path / "in", 5.0)
    cut = with_excerpts(manifest, 1.23456789)[0]
    assert excerpt_length_s(cut) == 1.23457 and excerpt_length_s(manifest) is None
    assert {(i.name, i.role) for i in of_whole_scripts(cut).items} == {(i.name, i.role) for i in manifest.items}
    assert set(of_whole_scripts(cut).files) == set(manifest.files)
    assert with_excerpts(of_whole_scripts(cut), 1.23457)[1] == with_excerpts(manifest, 1.23456789)[1]
    halves = [i for i in cut.items if "(last" not in i.name]
    assert excerpt_length_s(replace(cut, items=halves)) is None
    assert excerpt_length_s(replace(cut, items=[*cut.items, replace(cut.items[0], name="whole")])) is None


def test_invalid_lengths_and_names(tmp_path: Path) -> None:
    manifest = sounds(tmp_path / "in", 5.0)
    for seconds in (0.0, -1.0, 0.2, 500.0):
        with pytest.raises(BadOption, match="ends of"):
            with_excerpts(manifest, seconds)
    long = replace(manifest, items=[replace(manifest.items[0], name="x" * 75)])
    with pytest.raises(BadOption, match="is not allowed"):
        with_excerpts(long, 2.0)


RATES_HZ = (16_000, 22_050, 24_000, 44_100, 48_000)


def gain_db(taps, hz, rate_hz):
    response = np.exp(-2j * np.pi * np.outer(np.atleast_1d(hz), np.arange(len(taps))) / rate_hz) @ taps
    return 20 * np.log10(np.maximum(np.abs(response), 1e-12))


@pytest.mark.parametrize("rate_hz", RATES_HZ)
@pytest.mark.parametrize("cutoff_hz", [LOW_HZ, MID_HZ])
def test_anchors_meet_the_mask_which_is_scaled_for_the_mid_one(cutoff_hz, rate_hz):
    taps, scale, end_hz = anchor_taps(rate_hz, cutoff_hz), cutoff_hz // LOW_HZ, rate_hz / 2
    assert np.abs(gain_db(taps, np.arange(0, 3500 * scale + 1, 10), rate_hz)).max() <= 0.1
    assert gain_db(taps, np.arange(4000 * scale, end_hz + 1, 10), rate_hz).max() <= -25
    assert gain_db(taps, np.arange(min(4500 * scale, end_hz), end_hz + 1, 10), rate_hz).max() <= -50


@pytest.mark.parametrize("cutoff_hz", [LOW_HZ, MID_HZ])
@settings(max_examples=20, deadline=None)
@given(at=st.integers(1000, 20_000), rate_hz=st.sampled_from(RATES_HZ))
def test_impulse_keeps_its_position(cutoff_hz, at, rate_hz):
    pcm = np.zeros(24_000, np.float32)
    pcm[at] = 0.5
    out = anchor(SourceSound(pcm, rate_hz), cutoff_hz).pcm
    assert len(out) == len(pcm) and out.dtype == np.float32
    assert int(np.argmax(np.abs(out))) == at
    assert np.allclose(out[at - 500 : at], out[at + 1 : at + 501][::-1], atol=1e-6)  # symmetric: no phase shift


def test_passband_passes_and_stopband_is_removed():
    rate_hz = 24_000
    time_s = np.arange(2 * rate_hz) / rate_hz
    low, high = 0.2 * np.sin(2 * np.pi * 1000 * time_s), 0.2 * np.sin(2 * np.pi * 5000 * time_s)
    out = anchor(SourceSound((low + high).astype(np.float32), rate_hz), LOW_HZ)
    middle = slice(2000, -2000)
    assert np.abs(out.pcm - low)[middle].max() < 0.001
    both = anchor(SourceSound((low + high).astype(np.float32), rate_hz), MID_HZ)
    assert np.abs(both.pcm - low - high)[middle].max() < 0.001


def test_only_two_anchors_are_known():
    with pytest.raises(BadOption, match="3500 or 7000"):
        anchor(SourceSound(np.zeros(16_000, np.float32), 16_000), 5000)


def test_anchor_of_stereo_is_filtered_by_channel() -> None:
    one = np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32)
    both = anchor(SourceSound(np.stack([one, -0.5 * one], 1), RATE_HZ))
    alone = anchor(SourceSound(one, RATE_HZ))
    assert np.allclose(both.pcm[:, 0], alone.pcm, atol=1e-6) and np.allclose(
        both.pcm[:, 1], -0.5 * alone.pcm, atol=1e-6
    )
