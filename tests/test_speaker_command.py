"""``studio voices speaker``: add, list and remove; the consent is required."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption, BadVoice
from studio.core.folders import DEMO, VOICES
from studio.core.sound_files import read_mono
from studio.core.speakers import CONSENT, LIMITS, AddedSpeaker, BadRecording, NoConsent, SpeakerStore
from studio.systems.combined import all_cards


@pytest.fixture
def speakers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "speakers"
    monkeypatch.setenv("STUDIO_SPEAKERS", str(folder))
    return folder


@pytest.fixture
def recording(tmp_path: Path) -> tuple[str, str]:
    """A file of two sentences, and their text."""
    manifest = json.loads((DEMO / "manifest.json").read_text(encoding="utf-8"))
    texts = {one["name"]: one["text"] for one in manifest["items"]}
    files = {one["item"]: one["file"] for one in manifest["files"] if one["file"].startswith("teacher-clara")}
    items = ("umbrella", "kettle")
    path = tmp_path / "clara.wav"
    soundfile.write(path, np.concatenate([soundfile.read(DEMO / files[item])[0] for item in items]), 24_000)
    return str(path), " ".join(texts[item] for item in items)


def run(*arguments: str) -> str:
    """Output of ``studio``; raises its error."""
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_add_list_say_and_remove(speakers: Path, recording: tuple[str, str], tmp_path: Path) -> None:
    path, text = recording
    assert "No speaker was added" in run("voices", "speaker", "list")
    add = ("voices", "speaker", "add", "finch:maria", path, "--text", text, "--consent", "--keep-recording")
    said = run(*add, "--consent-by", "Maria, in writing")
    assert "finch:maria is added from" in said and '. Hear it: studio say "Good morning." --voice finch:maria\n' in said
    assert LIMITS in said and "the level by" in said
    (row,) = json.loads(run("voices", "speaker", "list", "--json"))
    assert (row["voice"], row["name"], row["consent_by"]) == ("finch", "maria", "Maria, in writing")
    assert f"consent confirmed {row['consent_at'][:10]} by Maria, in writing" in run("voices", "speaker", "list")
    assert len([*speakers.glob("*/recording.wav")]) == 1
    assert "theo, maria" in next(line for line in run("voices").splitlines() if line.startswith("finch:"))
    wav = tmp_path / "morning.wav"
    run("say", "Good morning.", "--voice", "finch:maria", "-o", str(wav), "--trace", str(tmp_path / "morning.trace"))
    assert "bit for bit" in run("replay", str(tmp_path / "morning.trace"))
    assert f"consent_given {row['consent_at'][:10]}" in run("inspect", str(tmp_path / "morning.trace"))
    assert b"voice finch:maria" in wav.read_bytes() and b"with consent given on " in wav.read_bytes()
    assert len(read_mono(wav)[0]) > 12_000
    run("say", "Good morning.", "--voice", "finch:miles", "-o", str(wav))
    assert b"Synthetic speech: voice finch:miles" in wav.read_bytes() and b"consent" not in wav.read_bytes()
    assert "finch:maria is removed" in run("voices", "speaker", "remove", "finch:maria")
    assert not [*speakers.iterdir()]
    with pytest.raises(BadVoice, match="no added speaker 'maria'"):
        run("voices", "speaker", "remove", "finch:maria")


def test_hint_finds_the_speaker_of_another_folder(
    recording: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STUDIO_SPEAKERS")
    path, text = recording
    data, voices = tmp_path / "my data", tmp_path / "voices"
    voices.symlink_to(VOICES, target_is_directory=True)
    where = ("--data", str(data), "--voices", str(voices))
    said = run("voices", "speaker", "add", "finch:ma ria", path, "--text", text, "--consent", *where)
    setting, program, *command = shlex.split(said.split("Hear it: ")[1].splitlines()[0])
    assert setting == f"STUDIO_SPEAKERS={data / 'speakers'}" and program == "studio"
    monkeypatch.setenv(*setting.split("=", 1))
    wav = tmp_path / "morning.wav"
    run(*command, "-o", str(wav))
    assert b"voice finch:ma ria" in wav.read_bytes()


def test_all_commands_look_in_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STUDIO_SPEAKERS")
    monkeypatch.setenv("STUDIO_DATA_FOLDER", str(tmp_path))
    now = "2026-11-30T10:00:00Z"
    speaker = AddedSpeaker("finch", "maria", "", 2.0, now, CONSENT, "", now, "0" * 64, "1" * 64)
    SpeakerStore(tmp_path / "speakers").add(speaker, b"", None)
    assert "finch:maria" in run("voices", "speaker", "list")
    assert "theo, maria" in next(line for line in run("voices").splitlines() if line.startswith("finch:"))
    assert all_cards(VOICES)["finch"].speakers[-1] == "maria", "of say, type and talk"


def test_what_is_refused(speakers: Path, recording: tuple[str, str], tmp_path: Path) -> None:
    path, text = recording
    add = ("voices", "speaker", "add")
    with pytest.raises(NoConsent, match="consent is missing"):
        run(*add, "finch:maria", str(tmp_path / "nothing.wav"), "--text", text)  # before the file is read
    with pytest.raises(BadOption, match="names no voice and speaker"):
        run(*add, "finch", path, "--text", text, "--consent")
    with pytest.raises(BadVoice, match="speakers cannot be added to"):
        run(*add, "wren:maria", path, "--text", text, "--consent")
    with pytest.raises(BadRecording, match="do not match"):
        run(*add, "finch:maria", path, "--text", "Nobody was at home when the rain began.", "--consent")
    soundfile.write(path, np.zeros(100_000), 24_000)
    with pytest.raises(BadRecording, match=r"clara\.wav is silent"):
        run(*add, "finch:maria", path, "--text", text, "--consent")
    assert not speakers.exists()
