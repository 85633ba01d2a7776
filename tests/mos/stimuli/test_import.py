"""Importing sounds into a draft: same checks as at its creation, refused as a whole."""

import json
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mos.world import AB, ACR, World
from soundmaking import RATE_HZ, put, spiky, tone

from studio.core.clips import to_float, to_int16, write_wav
from studio.core.errors import BadFile, BadOption
from studio.core.sound_files import read_pcm
from studio.mos.campaign.config import load_template
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.stage_views import blinded_wav
from studio.mos.stimuli.building import DraftConflict, build_campaign, extend_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.sounds import SourceSound, loudness_lufs
from studio.mos.store.tables import Campaign, Clip, Item, Stimulus, System


@pytest.fixture
def draft(world: World, tmp_path: Path) -> World:
    """A draft of two systems and two items."""
    root = tmp_path / "begun"
    put(root, *(f"{system}/{item}.wav" for system in ("slt", "rms") for item in ("i1", "i2")))
    (root / "texts.txt").write_text("i1|The first.\n", encoding="utf-8")
    build_campaign(world.listening, "first", ACR, read_manifest(root), seed=1)
    return world


def pairs(world: World) -> set[tuple[str, str]]:
    items = {i.id: i.name for i in world.all(Item)}
    systems = {s.id: s.name for s in world.all(System)}
    return {(items[s.item_id], systems[s.system_id]) for s in world.all(Stimulus)}


def test_items_and_systems_are_imported_together(draft: World, tmp_path: Path) -> None:
    """A new item by all and a new system with all: only both together are complete."""
    root = tmp_path / "more"
    put(root, "slt/i3.wav", "rms/i3.wav", "new/i1.wav", "new/i2.wav", "new/i3.wav", "trap/listen=2.wav")
    (root / "texts.txt").write_text("i2|The second.\ni3|The third.\n", encoding="utf-8")
    count, _ = extend_campaign(draft.listening, "first", root)
    assert count == 6
    assert pairs(draft) == {(i, s) for i in ("i1", "i2", "i3") for s in ("slt", "rms", "new")} | {("listen", "control")}
    texts = {i.name: (i.text, i.role, i.expected) for i in draft.all(Item)}
    assert texts["i1"] == ("The first.", "test", None) and texts["i2"][0] == "The second."
    assert texts["listen"] == ("", "trap", "2")
    run = draft.read(load_campaign)
    assert len(run.units) == 9 and len(run.traps) == 1


def test_imported_sounds_get_the_level_and_rate_of_the_others(world: World, tmp_path: Path) -> None:
    """A campaign with a lowered level keeps it; another bandwidth is reported."""
    loud, quiet = tmp_path / "a" / "slt", tmp_path / "b" / "rms"
    for folder in (loud, quiet):
        folder.mkdir(parents=True)
    spiked = spiky(0.9)
    write_wav(loud / "i1.wav", to_int16(spiked.pcm), RATE_HZ)
    write_wav(quiet / "i1.wav", to_int16(tone(0.05, 1.0, 16_000)), 16_000)
    notes = build_campaign(world.listening, "first", ACR, read_manifest(tmp_path / "a"))
    assert "not -23" in " ".join(notes)
    _, notes = extend_campaign(world.listening, "first", tmp_path / "b")
    one, other = world.all(Stimulus)
    assert one.lufs_before + one.gain_db == pytest.approx(other.lufs_before + other.gain_db) and one.lufs_after < -24
    assert {c.rate_hz for c in world.all(Clip)} == {RATE_HZ}
    assert "rms: 16000 Hz; slt: 24000 Hz" in " ".join(notes)


def test_sound_that_would_clip_at_that_level_is_refused(draft: World, tmp_path: Path) -> None:
    root = tmp_path / "more"
    put(root, "new/i1.wav")
    write_wav(root / "new" / "i2.wav", to_int16(spiky(0.9).pcm), RATE_HZ)
    with pytest.raises(BadFile, match=r"would clip at -23\.00 LUFS.*make the campaign anew from all"):
        extend_campaign(draft.listening, "first", root)
    assert len(draft.all(System)) == 2 and len(draft.all(Stimulus)) == 4


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["slt/i1.wav"], "item 'i1' by system 'slt' is there twice; the first is the campaign"),
        (["new/i1.wav"], "system 'new' lacks i2"),
        (["slt/i3.wav"], "system 'rms' lacks i3"),
        (["SLT/i3.wav", "rms/i3.wav"], "'SLT' differs only in capitals from the campaign"),
        (["slt/I1.wav"], "'I1' differs only in capitals from the campaign"),
        (["trap/slt/i1=2.wav"], "the role of item 'i1' differs from the campaign"),
        ([], "holds no sound"),
    ],
)
def test_mismatches_are_refused_as_a_whole(draft: World, tmp_path: Path, files: list[str], message: str) -> None:
    root = tmp_path / "more"
    root.mkdir()
    put(root, *files)
    with pytest.raises(BadFile, match=message):
        extend_campaign(draft.listening, "first", root)
    assert pairs(draft) == {(i, s) for i in ("i1", "i2") for s in ("slt", "rms")}


def test_differing_text_is_refused(draft: World, tmp_path: Path) -> None:
    put(tmp_path / "more", "new/i1.wav", "new/i2.wav")
    (tmp_path / "more" / "texts.txt").write_text("i1|Another.\n", encoding="utf-8")
    with pytest.raises(BadFile, match="the text of item 'i1' differs from the campaign"):
        extend_campaign(draft.listening, "first", tmp_path / "more")


def test_json_manifest_may_name_existing_items(draft: World, tmp_path: Path) -> None:
    """An equal role is accepted, a different one or a duplicate refused."""
    root = tmp_path / "more"
    put(root, "n1.wav", "n2.wav")
    (root / "one.trace").write_bytes(b"a trace")
    data = {
        "systems": [{"name": "new", "voice": {"m": 3}}, {"name": "slt", "role": "test"}],
        "items": [{"name": "i1", "text": "The first."}],
        "files": [
            {"system": "new", "item": "i1", "file": "n1.wav", "trace": "one.trace"},
            {"system": "new", "item": "i2", "file": "n2.wav"},
        ],
    }
    manifest = root / "m.json"
    for systems, message in (
        ([*data["systems"], {"name": "slt"}], "'slt' is there twice"),
        ([data["systems"][0], {"name": "slt", "role": "anchor"}], "the role of system 'slt' differs from the campaign"),
    ):
        manifest.write_text(json.dumps(data | {"systems": systems}), encoding="utf-8")
        with pytest.raises(BadFile, match=message):
            extend_campaign(draft.listening, "first", manifest)
    manifest.write_text(json.dumps(data), encoding="utf-8")
    assert extend_campaign(draft.listening, "first", manifest)[0] == 2
    (traced,) = (s.trace for s in draft.all(Stimulus) if s.trace)
    assert draft.listening.clips.trace_path(traced).read_bytes() == b"a trace"


@pytest.mark.parametrize("state", ["open", "closed"])
def test_rated_stimuli_never_change(draft: World, tmp_path: Path, state: str) -> None:
    put(tmp_path / "more", "new/i1.wav", "new/i2.wav")
    draft.set_state("open")
    draft.set_state(state)
    with pytest.raises(BadOption, match=f"'first' is {state}.*add to a draft, or make another campaign"):
        extend_campaign(draft.listening, "first", tmp_path / "more")


def test_concurrent_import_is_refused(draft: World, tmp_path: Path) -> None:
    """The second of two has to look again."""
    for name in ("one", "two"):
        put(tmp_path / name, f"{name}/i1.wav", f"{name}/i2.wav")
    done: list[int] = []

    def meanwhile() -> None:
        if not done:
            done.append(1)
            extend_campaign(draft.listening, "first", tmp_path / "two")

    with pytest.raises(DraftConflict, match="changed elsewhere"):
        extend_campaign(draft.listening, "first", tmp_path / "one", on_sound=meanwhile)
    assert [s.name for s in draft.all(System)] == ["rms", "slt", "two"]


def test_import_that_the_kind_cannot_use_is_refused(world: World, tmp_path: Path) -> None:
    """For example a second reference in a forced choice."""
    root = tmp_path / "begun"
    put(root, "slt/i1.wav", "rms/i1.wav", "reference/i1.wav")
    config = replace(AB, kind="similarity", choices=["a", "b"])
    build_campaign(world.listening, "first", config, read_manifest(root))
    put(tmp_path / "more", "second.wav")
    (tmp_path / "more" / "m.json").write_text(
        json.dumps(
            {
                "systems": [{"name": "second", "role": "reference"}],
                "items": [],
                "files": [{"system": "second", "item": "i1", "file": "second.wav"}],
            }
        ),
        encoding="utf-8",
    )
    with pytest.raises(BadOption, match="needs one reference"):
        extend_campaign(world.listening, "first", tmp_path / "more" / "m.json")
    assert len(world.all(System)) == 3 and len(world.all(Campaign)) == 1


def test_generated_anchors_are_generated_for_new_scripts(world: World, tmp_path: Path) -> None:
    """A MUSHRA test with imported anchors needs them in the import."""
    root = tmp_path / "begun"
    put(root, "slt/i1.wav", "rms/i1.wav", "reference/i1.wav")
    build_campaign(world.listening, "first", load_template("mushra"), read_manifest(root))
    put(tmp_path / "more", "slt/i2.wav", "rms/i2.wav", "reference/i2.wav")
    count, _ = extend_campaign(world.listening, "first", tmp_path / "more")
    anchors = {s.name for s in world.all(System) if s.role == "anchor"}
    assert len(anchors) == 2 and count == 5
    assert pairs(world) == {(i, s) for i in ("i1", "i2") for s in {"slt", "rms", "reference"} | anchors}


TWINS = "sounds that are the same under two systems, sample for sample: "


def twin_warnings(notes: list[str]) -> list[str]:
    return [line for line in notes if "the same under two systems" in line]


def test_sound_shared_by_two_systems_is_reported(world: World, tmp_path: Path) -> None:
    """By script and both systems, for any file format; existing duplicates are not reported again."""
    root = tmp_path / "begun"
    for k, system in enumerate(("slt", "rms", "bdl")):
        (root / system).mkdir(parents=True)
        for item in ("i1", "i2", "i3"):
            hz = 300.0 if item == "i2" and system != "bdl" else 400.0 + 100 * k + ord(item[1])
            write_wav(root / system / f"{item}.wav", to_int16(tone(0.1, hz=hz)), RATE_HZ)
    # an equally loud other sound is no duplicate; the same sound in another file format is
    write_wav(root / "rms" / "i2.wav", to_int16(tone(hz=301.0)), RATE_HZ)
    notes = build_campaign(world.listening, "first", ACR, read_manifest(root), seed=1)
    assert twin_warnings(notes) == []
    copied = tmp_path / "copied"
    shutil.copytree(root, copied)
    with wave.open(str(copied / "rms" / "i2.wav"), "wb") as file:  # slt's, in stereo
        file.setparams((2, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(np.repeat(to_int16(tone(hz=300.0)), 2).astype("<i2").tobytes())
    notes = build_campaign(world.listening, "second", ACR, read_manifest(copied), seed=1)
    assert twin_warnings(notes) == [f"{TWINS}i2 by rms and slt"]
    more = tmp_path / "more"
    for item in ("i1", "i2", "i3"):
        (more / "new").mkdir(parents=True, exist_ok=True)
        source = "bdl" if item == "i3" else "slt"
        shutil.copy(copied / source / ("i3.wav" if item == "i3" else "i1.wav"), more / "new" / f"{item}.wav")
    _, notes = extend_campaign(world.listening, "second", more)
    assert twin_warnings(notes) == [f"{TWINS}i1 by slt and new, i3 by bdl and new"]


def test_hidden_reference_is_no_duplicate(world: World, tmp_path: Path) -> None:
    """MUSHRA shows one file twice and derives its anchors from it."""
    root = tmp_path / "begun"
    rng = np.random.default_rng(1)
    for system in ("slt", "reference"):
        (root / system).mkdir(parents=True)
        noise = (1500 * rng.standard_normal(RATE_HZ)).clip(-9000, 9000).astype(np.int16)
        write_wav(root / system / "i1.wav", noise, RATE_HZ)
    assert twin_warnings(build_campaign(world.listening, "first", load_template("mushra"), read_manifest(root))) == []


def stereo(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_wav(root / name, to_int16(np.stack([tone(0.1), tone(0.03, hz=440.0)], 1)), RATE_HZ)
    return root


def test_stereo_reaches_the_rater(world: World, tmp_path: Path) -> None:
    """Clips, those of a mono system beside them, later imports, and the blinded copies have two channels."""
    root = stereo(tmp_path / "begun", "slt/i1.wav", "slt/i2.wav")
    put(root, "rms/i1.wav", "rms/i2.wav")
    build_campaign(world.listening, "first", ACR, read_manifest(root), seed=1)
    more = stereo(tmp_path / "more", "slt/i3.wav")
    put(more, "rms/i3.wav")
    extend_campaign(world.listening, "first", more)
    clips = world.listening.clips
    for clip in world.all(Clip):
        pcm, rate_hz = clips.read(clip.sha)
        assert pcm.shape == (clip.samples, 2)
        assert loudness_lufs(SourceSound(to_float(pcm), rate_hz)) == pytest.approx(-23, abs=0.1)
        copy, _ = read_pcm(blinded_wav(clips.path(clip.sha), clip.samples + 100, seed=7))
        assert copy.shape == (clip.samples + 100, 2) and not copy[-50:].astype(bool).all()
        assert np.abs(copy[: len(pcm)].astype(int) - pcm).max() <= 1 and rate_hz == clip.rate_hz


def test_stereo_is_not_added_to_mono(draft: World, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="are in stereo, and those of the campaign are mono"):
        extend_campaign(draft.listening, "first", stereo(tmp_path / "more", "slt/i3.wav", "rms/i3.wav"))
