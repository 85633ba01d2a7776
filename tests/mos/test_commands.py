"""Output of ``studio campaign`` commands, and what they do beyond the calls behind them."""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
from fakes import FakeEngine
from mos.rated import write_sounds
from soundmaking import put
from sqlmodel import select
from tones import Script

from studio.cli import main
from studio.core.clips import write_wav
from studio.mos.campaign.config import from_json, load_template
from studio.mos.service import open_listening_tests
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.stimuli.editing import new_draft, put_system, set_texts
from studio.mos.store.access import Forbidden
from studio.mos.store.tables import Item

Studio = Callable[..., tuple[str, str]]


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Studio:
    """Runs a command successfully on a data folder of its own; returns stdout and stderr."""
    monkeypatch.setenv("STUDIO_DATA_FOLDER", str(tmp_path / "data"))

    def run(*arguments: object, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["studio", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code == status, err
        return out, err

    return run


def test_command_that_creates_the_database_prints_the_owner_token(studio: Studio, tmp_path: Path) -> None:
    """Once, so that a lab that creates its test before it starts the app can log in."""
    new = ("campaign", "new", "first", "--template", "incremental-mos", "--from", write_sounds(tmp_path / "sounds"))
    out, err = studio(*new)
    [token] = re.findall(r"The owner's access key, shown this once: (\S+)", err)
    assert token not in out and "/rate?test=" in out
    listening = open_listening_tests("", tmp_path / "data")
    listening.access.check_owner(token)
    assert "token" not in "".join(studio("campaign", "list"))
    out, err = studio("campaign", "token")
    with pytest.raises(Forbidden):
        listening.access.check_owner(token)
    listening.access.check_owner(out.strip())
    listening.close()


def test_new_token_replaces_the_printed_one(studio: Studio) -> None:
    """Also if the same command creates the database."""
    out, err = studio("campaign", "token")
    assert len(out.split()) == 1 and "token" not in err


def test_removal_is_confirmed_and_reported(studio: Studio, tmp_path: Path) -> None:
    sounds = write_sounds(tmp_path / "sounds")
    studio("campaign", "new", "first", "--template", "incremental-mos", "--from", sounds, "--draft")
    assert studio("campaign", "remove", "first", "--system", "teal")[0] == "first: 3 sounds removed, 6 left\n"
    assert "0 raters and 0 answers" in studio("campaign", "delete", "first", "--yes")[0]
    assert "no campaigns" in studio("campaign", "list")[0]


def test_trap_is_neither_a_system_nor_a_script(studio: Studio, tmp_path: Path) -> None:
    sounds = write_sounds(tmp_path / "sounds")
    (sounds / "trap").mkdir()
    copyfile(sounds / "heron" / "item0.wav", sounds / "trap" / "choose-two=2.wav")
    out, _ = studio("campaign", "new", "own", "--template", "incremental-mos", "--from", sounds, "--draft")
    assert "own: 3 systems, 3 scripts, 1 trap, a draft" in out


def test_example_test_has_traps(studio: Studio, tmp_path: Path) -> None:
    """Spoken, with the expected answer in their names, and a text that does not reveal it."""
    new = ("campaign", "new", "first", "--from", write_sounds(tmp_path / "sounds"), "--traps", "2", "--template")
    studio(*new, "incremental-mos")
    listening = open_listening_tests("", tmp_path / "data")
    with listening.store.read() as session:
        run = load_campaign(session, find_campaign(session, "first"))
        traps = [item for item in session.exec(select(Item)) if item.role == "trap"]
    listening.close()
    assert (run.config.gates.traps, len(run.traps)) == (2, 5)
    assert sorted(item.expected for item in traps) == ["1", "2", "3", "4", "5"]
    assert all(item.text and "choose" not in item.text for item in traps)


def test_telephone_speech_is_accepted_if_the_campaign_says_so(studio: Studio, tmp_path: Path) -> None:
    put(tmp_path / "sounds", "a/i.wav", "b/i.wav")
    for path in (tmp_path / "sounds").rglob("*.wav"):
        write_wav(path, np.tile(np.arange(-2000, 2000, 80, dtype=np.int16), 160), 8_000)
    (tmp_path / "my.toml").write_text("narrowband = true\n", encoding="utf-8")
    new = ("campaign", "new", "first", "--template", "incremental-mos", "--from", tmp_path / "sounds")
    studio(*new, "--config", tmp_path / "my.toml", "--draft")
    put(tmp_path / "more", "a/j.wav", "b/j.wav")
    for path in (tmp_path / "more").rglob("*.wav"):
        write_wav(path, np.tile(np.arange(-2000, 2000, 100, dtype=np.int16), 200), 8_000)
    assert "2 sounds added" in studio("campaign", "import", "first", "--from", tmp_path / "more")[0]


def test_draft_is_edited_spoken_and_previewed_by_commands(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts as on the Edit page: settings from a file, changed settings, missing sounds, a voice."""
    monkeypatch.setattr("studio.engine.engine.open_engine", lambda *_, **__: FakeEngine(Script(speed=1000.0)))
    listening = open_listening_tests("", tmp_path / "data")
    new_draft(listening, "mine", "incremental-mos")
    out, _ = studio("campaign", "settings", "mine")
    assert from_json(tomllib.loads(out)) == load_template("incremental-mos")
    (tmp_path / "own.toml").write_text("raters_per_stimulus = 3\n[gates]\nheadphones = 'none'\n", encoding="utf-8")
    studio("campaign", "settings", "mine", "--config", tmp_path / "own.toml", "-o", tmp_path / "whole.toml")
    found = from_json(tomllib.loads((tmp_path / "whole.toml").read_text(encoding="utf-8")))
    assert (found.raters_per_stimulus, found.gates.headphones, found.questions[0].labels["1"]) == (3, "none", "Bad")
    out, _ = studio("campaign", "ready", "mine", status=1)
    assert out == "the campaign has nothing to rate; add at least one script with its sounds\n"
    put_system(listening, "mine", "tone:low?m=2")
    set_texts(listening, "mine", "Good morning.")
    assert "1 system without a sound" in studio("campaign", "ready", "mine", status=1)[0]
    assert studio("campaign", "speak", "mine")[0] == "mine: 1 sound added, still a draft\n"
    assert studio("campaign", "ready", "mine")[0] == "mine is ready to open\n"
    studio("campaign", "open", "mine")
    assert studio("campaign", "ready", "mine")[0] == "mine is open\n"
    studio("campaign", "settings", "mine", "--config", tmp_path / "own.toml", status=2)
    listening.close()


def test_mismatched_parts_are_reported_when_they_are_set(studio: Studio, tmp_path: Path) -> None:
    """When one is created, changed, opened or closed, before the first rater comes."""
    sounds = write_sounds(tmp_path / "sounds")
    made = ("--template", "incremental-mos", "--from", sounds)
    then, other = tmp_path / "then.toml", tmp_path / "other.toml"
    then.write_text('then = "pairs"\n')
    other.write_text("[texts]\nconsent_version = 9\n")
    _, err = studio("campaign", "new", "scores", *made, "--config", then, "--draft")
    assert "continues with 'pairs', which does not exist" in err
    _, err = studio("campaign", "new", "pairs", *made, "--config", other, "--draft")
    assert "'scores' continues with this test, which has another version of the consent" in err
    out, _ = studio("campaign", "ready", "scores", status=1)
    assert "'pairs', which comes after this test, has another version of the consent" in out
    _, err = studio("campaign", "new", "more", *made, "--config", then, "--draft")
    assert "has another version of the consent" in err
    _, err = studio("campaign", "new", "at once", *made, "--config", then, status=2)
    assert "has another version of the consent" in err
    same = tmp_path / "same.toml"
    same.write_text("[texts]\nconsent_version = 1\n[gates]\nmin_consensus = 0.3\nconsensus_answers = 900\n")
    _, err = studio("campaign", "settings", "pairs", "--config", same)
    assert "agreement with the others judges no rater" in err and "version" not in err
    _, err = studio("campaign", "open", "scores", status=2)
    assert "'pairs', which comes after this test, is not open" in err
    studio("campaign", "open", "pairs")
    _, err = studio("campaign", "open", "scores")
    assert "note" not in err
    _, err = studio("campaign", "close", "pairs")
    assert "'scores' continues with this test, which is closed" in err
