"""What is published comes back bit for bit; ratings are published without what could name a rater."""

import csv
import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub.conftest import REPO
from hub.hubserver import TOKEN, Hub
from mos.world import AB, World, reply
from needs import needs
from typer.testing import CliRunner, Result

from studio.cli import cli
from studio.core.cards import read_card
from studio.core.errors import BadOption, BadVoice
from studio.core.folders import PULLED_VARIABLE, VOICES
from studio.hub.client import HubError
from studio.hub.pull import pull
from studio.hub.push import push_voice
from studio.mos.import_export.export import DICTIONARY
from studio.mos.store.database import Store


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def folder(tmp_path: Path, voice_files: dict[str, bytes]) -> Path:
    """A voice of one's own, with a sample and a note, and files that are not published."""
    folder = tmp_path / "own" / "tiny"
    folder.mkdir(parents=True)
    for name, data in (
        voice_files | {"sample.wav": b"RIFF", "notes.txt": b"slow", "last.pt": b"", ".x.json": b"{}"}
    ).items():
        (folder / name).write_bytes(data)
    return folder


def studio(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def newest(hub: Hub, repo: str) -> dict[str, bytes]:
    repository = hub.repositories[repo]
    return repository.commits[repository.branches["main"]]


def metadata(readme: bytes) -> dict[str, Any]:
    return yaml.safe_load(readme.decode().split("---\n")[1])


def test_a_pushed_voice_comes_back_bit_for_bit(hub: Hub, token: None, folder: Path, root: Path) -> None:
    said = studio("voices", "push", str(folder), REPO)
    assert said.exit_code == 0 and f"{hub.url}/{REPO}/commit/" in said.stdout
    published = {path.name for path in folder.iterdir()} - {"last.pt", ".x.json"}
    assert newest(hub, REPO).keys() == published | {"README.md"}
    back = pull(REPO, root, lambda offer: True)
    assert {path.name for path in back.iterdir()} == published | {"hub.json"}
    assert all((back / name).read_bytes() == (folder / name).read_bytes() for name in published)
    (folder / "notes.txt").unlink()
    (folder / "hub.json").write_bytes((back / "hub.json").read_bytes())  # of a voice that was pulled before
    assert studio("voices", "push", str(folder), REPO).exit_code == 0
    assert newest(hub, REPO).keys() == (published | {"README.md"}) - {"notes.txt"}
    assert TOKEN not in said.output


def test_a_shipped_voice_brings_the_files_that_it_shares(hub: Hub, token: None, root: Path) -> None:
    """The vocoder of finch is in the folder of wren."""
    assert studio("voices", "push", "finch", "rook/finch").exit_code == 0
    card = read_card(VOICES / "finch")
    files = newest(hub, "rook/finch")
    assert card.sha256.keys() <= files.keys() and files["card.json"] == (VOICES / "finch" / "card.json").read_bytes()
    readme = files["README.md"].decode()
    about = metadata(files["README.md"])
    assert about["license"] == "apache-2.0" and about["pipeline_tag"] == "text-to-speech"
    assert card.learned_from in readme and card.notes in readme and f"{card.figures['word_error_rate']:g}" in readme
    assert "studio voices pull rook/finch" in readme
    folder = pull("rook/finch", root, lambda offer: True, name="finch-2")
    assert {path.name for path in folder.iterdir()} == {"card.json", "hub.json", *card.sha256}


def test_another_licence_has_a_name(hub: Hub, token: None, folder: Path) -> None:
    text = (folder / "card.json").read_text().replace(read_card(folder).licence, "Ours | for research")
    (folder / "card.json").write_text(text)
    push_voice(folder, REPO)
    about = metadata(newest(hub, REPO)["README.md"])
    assert (about["license"], about["license_name"]) == ("other", "Ours | for research")


def test_private_is_private(hub: Hub, token: None, folder: Path, tiny: str) -> None:
    push_voice(folder, "rook/own", private=True)
    assert hub.repositories["rook/own"].private
    before = newest(hub, REPO)
    with pytest.raises(HubError, match="is public"):
        push_voice(folder, REPO, private=True)
    assert newest(hub, REPO) == before


def test_a_push_needs_a_token_and_an_intact_voice(
    hub: Hub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HubError, match="needs a token"):
        push_voice(folder, REPO)
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    with pytest.raises(HubError, match="does not know the token"):
        push_voice(folder, REPO)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(HubError, match="main branch"):
        push_voice(folder, f"{REPO}@other")
    (folder / "speakstream.safetensors").write_bytes(b"other")
    with pytest.raises(BadVoice, match="sha256 differs"):
        push_voice(folder, REPO)
    assert REPO not in hub.repositories
    assert isinstance(studio("voices", "push", str(tmp_path), REPO).exception, BadVoice)


@pytest.fixture
def database(tmp_path: Path) -> list[str]:
    """Options of a database whose campaign has answers with a comment, by a rater of a panel."""
    world = World(Store(f"sqlite:///{tmp_path / 'studio.sqlite'}"), tmp_path / "clips")
    world.campaign(AB)
    rater = world.begin("wendy-of-the-panel")
    shown = rater.next()
    answer = reply(shown, "a").model_copy(update={"comment": "what nobody else shall read"})
    world.listening.answer(rater.rater_id, answer).result(30)
    rater.finish("b")
    world.store.close()
    return ["--data", str(tmp_path)]


def test_ratings_are_published_as_pseudonyms_with_a_dictionary(hub: Hub, token: None, database: list[str]) -> None:
    asked = ["campaign", "push", "first", "rook/test", "--licence", "cc-by-4.0", *database]
    refused = studio(*asked)  # no terminal
    assert isinstance(refused.exception, BadOption) and "--yes" in refused.exception.do
    assert "answers.csv" in refused.stderr and "Not published: comment" in refused.stderr
    assert not hub.requests
    said = studio(*asked, "--yes")
    assert said.exit_code == 0, said.output
    files = newest(hub, "datasets/rook/test")
    assert files.keys() == {"answers.csv", "dictionary.csv", "README.md"}
    rows = list(csv.DictReader(io.StringIO(files["answers.csv"].decode())))
    columns = [row["column"] for row in csv.DictReader(io.StringIO(files["dictionary.csv"].decode()))]
    assert rows and list(rows[0]) == columns
    whole = {column.name for column in DICTIONARY}
    assert whole - {*columns} == {"comment", "trace_a", "trace_b", "received_at"}
    assert all(len(row["received_on"]) == len("2026-01-01") for row in rows)
    everything = b"".join(files.values()).decode()
    assert "wendy" not in everything and "what nobody else shall read" not in everything
    assert metadata(files["README.md"])["license"] == "cc-by-4.0"


COMMAND = [sys.executable, "-m", "studio", "voices", "pull", REPO]


@pytest.mark.slow
def test_a_killed_command_goes_on_and_asks_on_a_terminal(hub: Hub, tiny: str, tmp_path: Path) -> None:
    """The whole command with HF_ENDPOINT: killed while it downloads, then run again on a terminal."""
    needs(hasattr(pty, "openpty"), "pseudo-terminals")
    env = {name: value for name, value in os.environ.items() if name not in ("HF_TOKEN", "HF_HUB_OFFLINE")}
    env |= {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path),
        PULLED_VARIABLE: str(tmp_path / "p"),
    }
    hub.faults.trickle_s = 0.001
    first = subprocess.Popen([*COMMAND, "--accept-licence"], env=env, stderr=subprocess.PIPE)
    part = tmp_path / "p" / ".staging"
    while not any(one.stat().st_size for one in part.glob("*/*.safetensors.part")):
        assert first.poll() is None, first.stderr
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert not (tmp_path / "p" / "tiny").exists()
    hub.faults.trickle_s = 0
    ours, theirs = pty.openpty()
    second = subprocess.Popen(COMMAND, env=env, stdin=theirs, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.write(ours, b"y\n")
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert "Licence: Apache-2.0" in err and "Accept the licence?" in err and "tiny is pulled" in out
    assert any("Range" in one for one in hub.asked("GET", "/large/"))
    offline = env | {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    subprocess.run([*COMMAND[:4], "verify", "tiny"], env=offline, check=True, timeout=120)
