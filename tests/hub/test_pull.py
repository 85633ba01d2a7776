"""Pulled voices: complete and verified, or not there."""

import errno
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hub.conftest import CPU, REPO, accepted, assert_no_voice, load
from hub.hubserver import TOKEN, Hub
from typer.testing import CliRunner, Result

from studio.backup.create import create_backup
from studio.cli import cli
from studio.core.errors import BadOption, BadVoice, NotStored
from studio.core.folders import VOICES
from studio.core.pulled import find_cards, read_source
from studio.engine.voices import load_voice
from studio.hub import download
from studio.hub import pull as pulling
from studio.hub.client import HubBusy, HubError
from studio.hub.listing import Limits
from studio.hub.pull import Offer, pull, remove, verify


def studio(*args: str) -> Result:
    return CliRunner().invoke(cli, ["voices", *args])


def test_a_pulled_voice_is_the_same_and_loads(
    hub: Hub, tiny: str, root: Path, voice_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = studio("pull", REPO, "--accept-licence")
    assert said.exit_code == 0, said.output
    folder = root / "tiny"
    assert {path.name for path in folder.iterdir()} == voice_files.keys() | {"hub.json"}
    assert all((folder / name).read_bytes() == data for name, data in voice_files.items())
    source = read_source(folder)
    assert source is not None and (source.repo, source.revision) == (REPO, tiny)
    assert source.licence == "apache-2.0" and source.files.keys() == voice_files.keys()
    load("tiny")
    assert f"From {REPO}@{tiny[:12]}" in studio("list").output
    assert find_cards(VOICES)["tiny"][0].about.endswith(f"From {REPO}, Apache-2.0.")
    info = studio("info", "tiny").output
    assert tiny in info and REPO in info and "apache-2.0" in info
    assert "as they were fetched" in studio("verify").output
    asked = len(hub.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    load("tiny")
    assert studio("pull", f"{REPO}@{tiny}", "--accept-licence").exit_code == 0  # it is there
    assert len(hub.requests) == asked
    assert studio("remove", "tiny").exit_code == 0
    assert_no_voice(root)


def test_a_branch_is_pinned_to_its_commit_and_updated_when_pulled_again(
    hub: Hub, tiny: str, root: Path, voice_files: dict[str, bytes]
) -> None:
    assert pull(f"{REPO}@main", root, accepted) == root / "tiny"
    newest = hub.repository(REPO).commit(voice_files | {"notes.txt": b"second"})
    assert pull(REPO, root, accepted) == root / "tiny"
    source = read_source(root / "tiny")
    assert source is not None and source.revision == newest and (root / "tiny" / "notes.txt").read_bytes() == b"second"
    assert verify(root / "tiny") == len(voice_files) + 1
    assert pull(f"{REPO}@{tiny}", root, accepted) and not (root / "tiny" / "notes.txt").exists()
    assert [path.name for path in root.iterdir() if path.name != ".staging"] == ["tiny"]


def test_another_name_changes_the_card_alone(tiny: str, root: Path) -> None:
    folder = pull(REPO, root, accepted, name="tiny-2")
    assert json.loads((folder / "card.json").read_text())["name"] == "tiny-2" and verify(folder)
    load("tiny-2")
    assert pull(REPO, root, accepted) == folder  # this commit is there
    with pytest.raises(BadVoice, match="already"):
        pull(REPO, root, accepted, name="taken", reserved=["taken"])
    for name in ("../tiny", "a/b", ".hidden"):
        with pytest.raises(BadVoice, match="no name of a folder"):
            pull(REPO, root, accepted, name=name)


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_download_is_resumed_at_the_byte(
    hub: Hub, tiny: str, root: Path, voice_files: dict[str, bytes], seed: int
) -> None:
    """Five cuts at random bytes by the server, five kills at random bytes here: twenty of each with four seeds."""
    drawn = random.Random(seed)
    sizes = {name: len(data) for name, data in voice_files.items() if name.endswith(".safetensors")}
    hub.faults.cuts = [drawn.randrange(min(sizes.values()) // 6) for _ in range(5)]
    for _ in range(5):
        left = drawn.randrange(1, sum(sizes.values()))

        def die(count: int) -> None:
            nonlocal left
            left -= count
            if left < 0:
                raise KeyboardInterrupt

        try:
            pull(REPO, root, accepted, advance=die)
        except KeyboardInterrupt:
            assert_no_voice(root)
    fetched: list[int] = []
    pull(REPO, root, accepted, advance=fetched.append)
    assert verify(root / "tiny") == len(voice_files)
    load("tiny")
    ranges = [one["Range"] for one in hub.asked("GET", "/large/") if "Range" in one]
    assert ranges and not any(count < 0 for count in fetched)


def test_a_host_that_falls_silent_is_asked_again_and_given_up(
    hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    hub.faults.stalls = [1000] + [0] * 20
    with pytest.raises(HubBusy, match="does not answer"):
        pull(REPO, root, accepted)
    assert_no_voice(root)
    assert 10 < len(hub.faults.stalls) < 18  # tries without a byte are counted
    hub.faults.stalls = [2000]
    pull(REPO, root, accepted)
    load("tiny")


def test_a_server_that_cannot_resume_starts_the_file_again(hub: Hub, tiny: str, root: Path) -> None:
    hub.faults.cuts, hub.faults.ignores_range = [1000], True
    pull(REPO, root, accepted)
    load("tiny")


def test_token_goes_to_the_hub_alone(
    hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.repository(REPO).private = True
    hub.faults.cuts = [100]
    with caplog.at_level("DEBUG"):
        said = studio("pull", REPO, "--accept-licence")
    assert said.exit_code == 0
    assert {one.get("Authorization", one.get("authorization")) for one in hub.asked("GET", "/api/")} == {
        f"Bearer {TOKEN}"
    }
    assert not any("authorization" in map(str.lower, one) for one in hub.asked("GET", "/large/"))
    assert TOKEN not in said.output + caplog.text + "".join(path.read_text() for path in root.glob("*/*.json"))


def test_limits_of_size_can_be_raised(tiny: str, root: Path, voice_files: dict[str, bytes]) -> None:
    with pytest.raises(HubError, match=r"MB, 0\.0 are the limit"):
        pull(REPO, root, accepted, limits=Limits(total_bytes=1000))
    pull(REPO, root, accepted, limits=Limits(len(voice_files), sum(map(len, voice_files.values()))))
    load("tiny")


def test_pickles_beside_safetensors_are_left_out(
    hub: Hub, root: Path, tiny: str, voice_files: dict[str, bytes]
) -> None:
    pickles = {"training.pt": b"\x80", "a/b.pth": b"\x80", "last.ckpt": b"\x80"}
    hub.repository(REPO).commit(voice_files | pickles)
    said = studio("pull", REPO, "--accept-licence")
    assert said.exit_code == 0 and all(f"left out: {name}" in said.stderr for name in pickles)
    assert {path.name for path in (root / "tiny").iterdir()} == voice_files.keys() | {"hub.json"}
    assert not any(hub.asked("GET", name) for name in pickles)


def test_no_room_is_seen_before_the_download(hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage("/"))
    monkeypatch.setattr(pulling.shutil, "disk_usage", lambda path: usage(10, 10, 1000))
    with pytest.raises(NotStored, match="0 MB are free") as caught:
        pull(REPO, root, accepted)
    assert "STUDIO_PULLED_VOICES" in caught.value.do and not hub.asked("GET", "/resolve/")
    assert_no_voice(root)


def test_a_disk_that_fills_up_keeps_what_was_fetched(
    hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = download._write, 200_000

    def full(file: Any, block: bytes) -> None:
        nonlocal left
        write(file, block[:left])
        left -= len(block)
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "_write", full)
    with pytest.raises(NotStored, match="disk is full"):
        pull(REPO, root, accepted)
    assert_no_voice(root)
    monkeypatch.setattr(download, "_write", write)
    counts: list[int] = []
    pull(REPO, root, accepted, advance=counts.append)
    load("tiny")
    assert any("Range" in one for one in hub.asked("GET", "/large/"))


@pytest.mark.parametrize("name", ["card.json", "speakstream.safetensors", "sourcefilter.safetensors", "notes.txt"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_voice_that_was_changed_on_disk_does_not_load(
    hub: Hub, root: Path, tiny: str, voice_files: dict[str, bytes], name: str, is_gone: bool
) -> None:
    hub.repository(REPO).commit(voice_files | {"notes.txt": b"of the author"})
    pull(REPO, root, accepted)
    card, folder = find_cards(VOICES)["tiny"]
    if is_gone:
        (folder / name).unlink()
    elif name == "card.json":
        (folder / name).write_text((folder / name).read_text().replace("Random weights", "Other weights"))
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b"\0")
    with pytest.raises(BadVoice):
        load_voice(card, folder, CPU, 1)
    said = studio("verify", "tiny")
    assert said.exit_code == 1 and name in said.output
    pull(REPO, root, accepted)
    load("tiny")


def test_licence_is_asked_once_and_may_be_declined(tiny: str, root: Path, hub: Hub) -> None:
    offers: list[Offer] = []
    with pytest.raises(HubError, match="not accepted"):
        pull(REPO, root, lambda offer: bool(offers.append(offer)))
    assert [offer.licences for offer in offers] == [["Apache-2.0"]]  # the repository's and the card's
    assert not hub.asked("GET", "/large/")
    assert_no_voice(root)
    said = studio("pull", REPO)  # the runner is no terminal
    assert isinstance(said.exception, BadOption) and "--accept-licence" in said.exception.do


def test_a_shipped_name_cannot_be_taken(hub: Hub, root: Path, voice_files: dict[str, bytes]) -> None:
    card = json.loads(voice_files["card.json"]) | {"name": "wren"}
    hub.repository(REPO).commit(voice_files | {"card.json": json.dumps(card).encode()})
    said = studio("pull", REPO, "--accept-licence")
    assert isinstance(said.exception, BadVoice) and "wren-2 (--as)" in said.exception.do
    assert studio("pull", REPO, "--accept-licence", "--as", "wren-2").exit_code == 0
    load("wren-2")


def test_what_was_left_behind_is_deleted(hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = root / ".staging"
    for name in ("rook--old@1", "0123.removed"):
        (staging / name).mkdir(parents=True)
        (staging / name / "card.json").write_text("{}")
    pull(REPO, root, accepted)
    assert (staging / "rook--old@1").is_dir() and not (staging / "0123.removed").exists()
    monkeypatch.setattr(pulling, "_STALE_S", -1.0)
    hub.repository(REPO).commit({"card.json": b"{}"})
    with pytest.raises(BadVoice):
        pull(REPO, root, accepted)
    assert not (staging / "rook--old@1").exists()
    load("tiny")


def test_a_backup_has_pulled_voices_and_no_downloads(
    hub: Hub, tiny: str, tmp_path: Path, voice_files: dict[str, bytes]
) -> None:
    root = tmp_path / "data" / "voices"
    pull(REPO, root, accepted)
    hub.repository(REPO).commit(voice_files | {"notes.txt": b"second"})
    with pytest.raises(KeyboardInterrupt):
        pull(REPO, root, interrupted)
    assert [*root.glob(".staging/*/card.json")]
    create_backup(tmp_path / "data", "", tmp_path / "backup")
    held = {path.name for path in (tmp_path / "backup").rglob("*") if path.parent.name != "backup" and path.is_file()}
    assert held == voice_files.keys() | {"hub.json"}
    assert not [*(tmp_path / "backup").rglob(".staging")]


def interrupted(offer: Offer) -> bool:
    raise KeyboardInterrupt


def test_two_pulls_at_once_are_kept_apart(tiny: str, root: Path) -> None:
    def again(offer: Offer) -> bool:
        with pytest.raises(HubBusy, match="another process"):
            pull(REPO, root, accepted)
        return True

    pull(REPO, root, again)
    load("tiny")


@pytest.mark.parametrize("name", ["wren", "..", "tiny/../tiny", "", "nobody"])
def test_only_pulled_voices_are_removed(tiny: str, root: Path, name: str) -> None:
    pull(REPO, root, accepted)
    with pytest.raises(BadVoice, match="no pulled voice"):
        remove(name, root)
    load("tiny")


def test_a_damaged_record(tiny: str, root: Path) -> None:
    pull(REPO, root, accepted)
    (root / "tiny" / "hub.json").write_text("{")
    with pytest.raises(BadVoice, match=r"hub\.json cannot be read"):
        load("tiny")
    said = studio("list")
    assert said.exit_code == 0 and "tiny: Random weights" in said.stdout and "hub.json cannot be read" in said.stdout
    assert studio("remove", "tiny").exit_code == 0
