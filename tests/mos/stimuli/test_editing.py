"""Editing a draft: its contents after a change, what a change deletes, what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mos.world import ACR, SYSTEMS, World
from sqlmodel import SQLModel, select

from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import campaign_config, load_template, template_names
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.kinds.registry import Kind, kind_of
from studio.mos.sessions.campaigns import find_campaign, opening_problems
from studio.mos.sessions.stage_views import preview
from studio.mos.stimuli.building import DraftConflict, extend_campaign, remove_sounds
from studio.mos.stimuli.editing import (
    LosesSounds,
    change_settings,
    drop_system,
    missing_speech,
    new_draft,
    put_system,
    set_texts,
    settings_digest,
    written_texts,
)
from studio.mos.stimuli.speech import SystemVoice, speak_all
from studio.mos.store.tables import Campaign, Item, Rater, Stimulus, System

RATE_HZ = 16_000


def tones(of: SystemVoice, texts: Any, spoken: Any) -> None:
    """Speaks a tone per text, as long as the text."""
    for place, text in texts.items():
        hz = 150 + 40 * len(of.speaker) + len(text)
        pcm = 4000 * np.sin(2 * np.pi * hz * np.arange(RATE_HZ * (6 + len(text) % 5) // 10) / RATE_HZ)
        write_wav(place.with_name(f"{place.name}.wav"), pcm.astype(np.int16), RATE_HZ)
        spoken()


def speak(world: World, folder: Path, name: str = "first") -> int:
    """Synthesise missing sounds; returns their number."""
    sayings = world.read(missing_speech, name)
    extend_campaign(world.listening, name, speak_all(sayings, folder / "spoken" / name, tones))
    return sum(len(one.texts) for one in sayings)


def lacking(world: World, name: str = "first") -> list[str]:
    return [str(error) for error in world.read(opening_problems, name)]


def texts(world: World) -> dict[str, str]:
    return {i.name: i.text for i in world.all(Item)}


def test_draft_grows_until_it_can_be_opened(world: World, tmp_path: Path) -> None:
    new_draft(world.listening, "first", "s5-preference")
    assert lacking(world) == ["a pair needs two systems; add one"]
    put_system(world.listening, "first", "wren:clara?m=3,n=1")
    put_system(world.listening, "first", "wren:miles")
    assert set_texts(world.listening, "first", "Good morning.\n\nrain|Will it rain?") == 2
    assert "2 systems without a sound: wren:clara?m=3,n=1, wren:miles" in lacking(world)[0]
    with pytest.raises(BadFile, match="sounds are missing"):
        world.set_state("open")
    assert speak(world, tmp_path) == 4
    assert lacking(world) == []
    assert texts(world) == {"text001": "Good morning.", "rain": "Will it rain?"}
    assert {s.name: s.voice for s in world.all(System)} == {
        "wren:clara?m=3,n=1": '{"voice": "wren", "speaker": "clara", "seed": 0, "m": 3, "n": 1}',
        "wren:miles": '{"voice": "wren", "speaker": "miles", "seed": 0}',
    }
    world.set_state("open")
    for change in (
        lambda: put_system(world.listening, "first", "wren:iris"),
        lambda: set_texts(world.listening, "first", "Another."),
        lambda: drop_system(world.listening, "first", "wren:miles"),
        lambda: change_settings(world.listening, "first", load_template("s5-preference")),
    ):
        with pytest.raises(BadOption, match="is open, and only drafts can be changed"):
            change()


def test_acr_test_with_a_silent_system_does_not_open(world: World, tmp_path: Path) -> None:
    """ACR systems need not say every script, but one without any sound is a mistake."""
    new_draft(world.listening, "first", "incremental-mos")
    put_system(world.listening, "first", "wren:clara")
    set_texts(world.listening, "first", "One.\nTwo.")
    speak(world, tmp_path)
    put_system(world.listening, "first", "wren:miles")
    with pytest.raises(BadFile, match="1 system without a sound: wren:miles"):
        world.set_state("open")
    assert drop_system(world.listening, "first", "wren:miles") == 0
    world.set_state("open")


def test_texts_keep_names_and_sounds_when_reordered(world: World, tmp_path: Path) -> None:
    new_draft(world.listening, "first", "incremental-mos")
    put_system(world.listening, "first", "wren:clara")
    set_texts(world.listening, "first", "One.\nTwo.\nTwo.\nthree|Three.")
    assert speak(world, tmp_path) == 4
    before = texts(world)
    assert before == {"text001": "One.", "text002": "Two.", "text003": "Two.", "three": "Three."}
    with world.store.read() as session:
        written = written_texts(session.exec(select(Item)).all())
    set_texts(world.listening, "first", written)
    assert texts(world) == before
    set_texts(world.listening, "first", "Two.\nthree|Three.\nTwo.\nNew.\nOne.")
    assert texts(world) == {**before, "text004": "New."}
    assert len(world.all(Stimulus)) == 4
    assert speak(world, tmp_path) == 1, "only the new one"


def test_deleting_sounds_with_their_texts_needs_confirmation(world: World, tmp_path: Path) -> None:
    """A changed text loses its sounds too, and they are spoken again; imported clips stay."""
    new_draft(world.listening, "first", "incremental-mos")
    put_system(world.listening, "first", "wren:clara")
    set_texts(world.listening, "first", "a|One.\nb|Two.")
    speak(world, tmp_path)
    for item in ("a", "b"):
        clip = tmp_path / "more" / "human" / f"{item}.wav"
        clip.parent.mkdir(parents=True, exist_ok=True)
        write_wav(clip, (4000 * np.sin(np.arange(RATE_HZ) / len(item) / 9)).astype(np.int16), RATE_HZ)
    extend_campaign(world.listening, "first", tmp_path / "more")
    old = {s.clip_sha for s in world.all(Stimulus)}
    with pytest.raises(LosesSounds, match="3 sounds of removed or changed texts"):
        set_texts(world.listening, "first", "a|One, or two, or even more.")
    assert texts(world) == {"a": "One.", "b": "Two."} and len(world.all(Stimulus)) == 4
    set_texts(world.listening, "first", "a|One, or two, or even more.", is_sure=True)
    assert [s.name for s in world.all(System)] == ["wren:clara", "human"]
    assert len(world.all(Stimulus)) == 1
    assert speak(world, tmp_path) == 1
    assert len({s.clip_sha for s in world.all(Stimulus)} - old) == 1, "it says the new text"


def test_invalid_text_line_is_named(world: World) -> None:
    new_draft(world.listening, "first", "abx")
    for written, why in (
        ("One.\na|Two.\na|Three.", "line 3 of the texts names 'a' again"),
        ("=cmd()", "begins with ="),
        ("../x|Two.", "is not allowed"),
        ("A|One.\na|Two.", "differs only in capitals"),
        (f"{'x' * 4001}", "has 4001 characters"),
    ):
        with pytest.raises((BadFile, BadOption), match=why):
            set_texts(world.listening, "first", written)
    assert texts(world) == {}


def test_invalid_system_is_refused(world: World) -> None:
    new_draft(world.listening, "first", "abx")
    put_system(world.listening, "first", "wren:clara")
    for system, role, why in (
        ("?m=3", "test", "is not allowed"),
        ("wren:clara?m", "test", "is not an option"),
        ("teacher:clara", "test", "the command line alone"),
        ("Wren:clara", "test", "only in capitals"),
        ("wren:iris", "anchor", "the role 'anchor'"),
    ):
        with pytest.raises(BadOption, match=why):
            put_system(world.listening, "first", system, role)
    with pytest.raises(BadOption, match="has no system 'human'"):
        drop_system(world.listening, "first", "human")
    assert [s.name for s in world.all(System)] == ["wren:clara"]


def test_mushra_anchors_follow_the_reference(world: World, tmp_path: Path) -> None:
    new_draft(world.listening, "first", "mushra")
    put_system(world.listening, "first", "wren:clara", "reference")
    put_system(world.listening, "first", "wren:miles")
    set_texts(world.listening, "first", "One.\nTwo.")
    speak(world, tmp_path)
    assert {s.name: s.role for s in world.all(System)} == {
        "wren:clara": "reference", "wren:miles": "test", "anchor 3.5 kHz": "anchor", "anchor 7 kHz": "anchor"
    }  # fmt: skip
    assert lacking(world) == []
    with pytest.raises(BadOption, match="the role of 'wren:clara' cannot be changed"):
        put_system(world.listening, "first", "wren:clara", "test")
    assert drop_system(world.listening, "first", "wren:clara") == 6
    assert [s.name for s in world.all(System)] == ["wren:miles"]
    put_system(world.listening, "first", "wren:iris", "reference")
    set_texts(world.listening, "first", "One.\nTwo.\nThree.")
    speak(world, tmp_path)
    assert lacking(world) == []
    assert len(world.all(Stimulus)) == 12, "two systems and two anchors of three texts"


def test_concurrent_changes_of_settings_are_refused(world: World) -> None:
    world.campaign(state="draft")
    looker = world.join("me", role="preview")
    looker.answer(looker.to_trials())
    with world.store.read() as session:
        seen = settings_digest(find_campaign(session, "first"))
    asked = replace(ACR, raters_per_stimulus=5)
    now = change_settings(world.listening, "first", asked, seen)
    assert now != seen and not world.all(Rater), "a preview showed the old settings"
    with pytest.raises(DraftConflict):
        change_settings(world.listening, "first", replace(ACR, raters_per_stimulus=6), seen)
    with pytest.raises(BadOption, match="is of the kind 'acr'"):
        change_settings(world.listening, "first", load_template("abx"))
    [row] = world.all(Campaign)
    assert campaign_config(row) == asked


def test_settings_that_do_not_fit_the_kind_prevent_opening(world: World) -> None:
    """A draft may lack questions while it is edited, but is not opened."""
    world.campaign(state="draft")
    change_settings(world.listening, "first", replace(ACR, questions=[]))
    assert lacking(world) == ["an ACR test needs a question; add one with its scale"]
    with pytest.raises(BadOption, match="needs a question"):
        world.set_state("open")


def test_undo_keeps_unspoken_entries(world: World) -> None:
    """Removing a system's sounds keeps entries that never had a sound."""
    world.campaign(state="draft", systems=[SystemSpec(SYSTEMS[0])])
    put_system(world.listening, "first", "wren:clara")
    remove_sounds(world.listening, "first", system=SYSTEMS[0])
    assert [s.name for s in world.all(System)] == ["wren:clara"] and len(world.all(Campaign)) == 1


@pytest.mark.parametrize("name", template_names())
def test_preview_is_drawn_before_there_is_a_sound(world: World, name: str) -> None:
    new_draft(world.listening, "first", name)
    shown = world.read(preview)
    kind = kind_of(load_template(name).kind)
    assert len(shown["trials"]) == (0 if kind.is_live else 1)
    assert all(trial["asked"] == (["SIG", "BAK", "OVRL"] if name == "p835" else []) for trial in shown["trials"])
    assert kind.about and kind.about != Kind.about
    assert all(slot["sound"] is None for trial in shown["trials"] for slot in trial["slots"])
    assert shown["stages"][0] == "consent" and shown["screen"]["kind"] == load_template(name).kind


def test_preview_plays_the_sounds_and_stores_nothing(world: World) -> None:
    world.campaign(state="draft")

    def rows() -> list[Any]:
        return [
            repr(row) for table in SQLModel.__subclasses__() if hasattr(table, "__table__") for row in world.all(table)
        ]

    before = rows()
    shown = world.read(preview)
    heard = [slot["sound"] for trial in shown["trials"] for slot in trial["slots"]]
    assert len(shown["trials"]) == 3 and {sound["system"] for sound in heard} <= set(SYSTEMS)
    assert shown["trials"][0]["text"].startswith("The test sentence")
    assert rows() == before
