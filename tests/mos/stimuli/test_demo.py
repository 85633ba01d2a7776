"""The demo test that ships with the studio: complete, built once, open to any visitor."""

import json
from pathlib import Path
from typing import Any

import pytest
from mos.world import World, reply
from sqlmodel import select

from studio.core.cards import read_cards
from studio.mos.campaign.voices import system_voice
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.stimuli.demo import ARENA_NAME, MANIFEST, NAME, add_arena, add_demo, add_demo_quietly, demo_link
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.clips import ClipFolder
from studio.mos.store.sounds import read_sound
from studio.mos.store.tables import Campaign, Slot, Stimulus, System

ASSETS = Path(__file__).resolve().parents[3] / "assets"
DEMO = ASSETS / "demo"


def test_shipped_demo_is_complete_and_small() -> None:
    """Both speakers of every voice and their teachers, every sentence by each, at one rate."""
    manifest = read_manifest(DEMO / MANIFEST)
    systems = {s.name: s.role for s in manifest.systems}
    voices = ["wren:{}", "finch:{}", "linnet:{}", "siskin:{}", "pipit:{}"]
    spoken = [one.format(speaker) for one in voices for speaker in ("clara", "miles")]
    assert systems == dict.fromkeys(spoken, "test") | {"teacher:clara": "reference", "teacher:miles": "reference"}
    assert {path.parent.name for path in ASSETS.glob("voices/*/card.json")} == {s.partition(":")[0] for s in spoken}
    assert len(manifest.files) == 12 * len(manifest.items) and manifest.warnings == []
    texts = (ASSETS / "texts" / "demo.txt").read_text(encoding="utf-8").splitlines()
    assert [f"{i.name}|{i.text}" for i in manifest.items] == texts
    assert {read_sound(path).rate_hz for path in manifest.files.values()} == {24_000}
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) <= 4_000_000


def test_shipped_demo_was_spoken_by_the_shipped_weights() -> None:
    """After a training, run `studio campaign demo --make assets/demo` again."""
    for system in read_manifest(DEMO / MANIFEST).systems:
        if system.role == "test":
            assert system.voice is not None
            path = ASSETS / "voices" / system.voice["voice"] / "card.json"
            shipped = json.loads(path.read_text(encoding="utf-8"))["sha256"]
            assert system.voice["sha256"].items() <= shipped.items()  # the net that finds words adds no sound


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with two of its sentences."""
    folder = tmp_path_factory.mktemp("demo")
    data = json.loads((DEMO / MANIFEST).read_text(encoding="utf-8"))
    data["items"] = data["items"][:2]
    kept = {i["name"] for i in data["items"]}
    data["files"] = [f for f in data["files"] if f["item"] in kept]
    for file in data["files"]:
        (folder / file["file"]).parent.mkdir(exist_ok=True)
        (folder / file["file"]).write_bytes((DEMO / file["file"]).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(data), encoding="utf-8")
    (folder / "campaign.toml").write_bytes((DEMO / "campaign.toml").read_bytes())
    return folder


def test_visitor_rates_the_demo_without_checks(world: World, small: Path) -> None:
    """It is open and plays each of the twelve systems once."""
    assert add_demo(world.listening, small)
    with world.store.read() as session:
        run = load_campaign(session, find_campaign(session, NAME))
        system_of = dict(session.exec(select(Stimulus.id, System.name).join(System)).all())
    assert len(run.units) == 24 and run.config.trials_per_sitting == 12
    visitor = world.join("somebody", NAME)
    shown = visitor.send("consent", agreed=True, version=run.config.texts.consent_version)
    assert shown["stage"] == "instructions"
    shown, heard = visitor.send("instructions"), []
    assert shown["stage"] == "trials"
    while shown["stage"] == "trials":
        assert shown["trial"]["text"]
        heard.append(system_of[_plays(world, shown)])
        visitor.world.listening.answer(visitor.rater_id, reply(shown, 4, 9000.0)).result(30)
        shown = visitor.next()
    assert len(heard) == 12 == len(set(heard))


def _plays(world: World, shown: dict[str, Any]) -> int:
    with world.store.read() as session:
        return session.exec(select(Slot.stimulus_id).where(Slot.trial_id == shown["trial"]["trial"])).one()


def test_demo_is_built_once_and_has_a_valid_link(world: World, small: Path) -> None:
    """It is not rebuilt after it was closed; a closed one has no link."""
    assert demo_link(world.listening) is None
    assert add_demo(world.listening, small) and not add_demo(world.listening, small)
    link = demo_link(world.listening)
    assert link == world.listening.links(NAME)["rater"]
    world.set_state("closed", NAME)
    assert demo_link(world.listening) is None and not add_demo(world.listening, small)
    assert [c.name for c in world.all(Campaign)] == [NAME]


def test_arena_of_the_demo_voices_is_built_on_request(world: World, small: Path) -> None:
    """It has voices only, no teacher, each with options of its card; the demo itself does not open one."""
    assert add_demo(world.listening, small)
    assert demo_link(world.listening, ARENA_NAME) is None and [c.kind for c in world.all(Campaign)] == ["acr"]
    assert add_arena(world.listening, small) and not add_arena(world.listening, small)
    assert demo_link(world.listening, ARENA_NAME) == world.listening.links(ARENA_NAME)["rater"]
    with world.store.read() as session:
        row = find_campaign(session, ARENA_NAME)
        systems = session.exec(select(System).where(System.campaign_id == row.id)).all()
    names, cards = [system.name for system in systems], read_cards(ASSETS / "voices")
    assert (row.kind, row.state) == ("arena", "open")
    for voice in map(system_voice, systems):
        assert voice.options.keys() <= {option.name for option in cards[voice.voice][0].options}
    assert len(names) == 10 and not any(name.startswith("teacher") for name in names)


@pytest.mark.parametrize("with_arena", [True, False])
def test_arena_comes_with_the_demo_where_it_is_wanted(world: World, small: Path, with_arena: bool) -> None:
    add_demo_quietly(world.listening, small, with_arena=with_arena)
    assert demo_link(world.listening) is not None
    assert (demo_link(world.listening, ARENA_NAME) is not None) == with_arena


def test_other_campaign_with_the_demo_name_is_not_offered_to_visitors(world: World, small: Path) -> None:
    """The existing campaign keeps its name and stays private."""
    world.campaign(name=NAME)
    assert demo_link(world.listening) is None
    assert add_demo(world.listening, small)
    assert [c.name for c in world.all(Campaign)] == [NAME, f"{NAME} (2)"]
    assert demo_link(world.listening) == world.listening.links(f"{NAME} (2)")["rater"]


def test_interrupted_build_leaves_nothing(world: World, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start completes it."""

    def full(_folder: ClipFolder, _pcm: object, _rate_hz: int) -> str:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(ClipFolder, "add", full)
        with pytest.raises(OSError, match="no space"):
            add_demo(world.listening, small)
    assert world.all(Campaign) == [] and demo_link(world.listening) is None
    assert add_demo(world.listening, small)
