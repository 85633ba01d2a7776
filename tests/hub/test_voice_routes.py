"""The owner's routes of voices from the hub: the page's calls, one pull and one push at a time, only for the owner."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from hub.conftest import REPO
from hub.hubserver import TOKEN, Hub
from mos.world import World
from serve.serving import eventually
from starlette.testclient import TestClient

from studio.core import durable
from studio.hub.pull import remove
from studio.hub.push import push_voice
from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.library import publishing
from studio.serve.settings import ServeSettings

BELOW = "/library/voices"


class OwnVoices(FakeEngine):
    """An engine with these voices, of which none is opened."""

    def __init__(self, folders: dict[str, Path]) -> None:
        super().__init__()
        self.folders = folders

    def recomputer(self) -> "OwnVoices":
        return self

    def voice_folders(self) -> dict[str, Path]:
        return self.folders


@pytest.fixture
def own(tmp_path: Path, voice_files: dict[str, bytes]) -> Path:
    """A voice of this studio."""
    folder = tmp_path / "own"
    folder.mkdir()
    for name, data in voice_files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def client(hub: Hub, root: Path, own: Path, tmp_path: Path) -> Iterator[TestClient]:
    """The owner's client of a studio with one voice of its own."""
    world = World(Store(f"sqlite:///{tmp_path / 'studio.sqlite'}"), tmp_path / "clips")
    engine = OwnVoices({"tiny": own, "pulled": root / "tiny"})
    app = create_app(engine, ServeSettings(traces_folder=tmp_path / "traces"), listening=world.listening)
    headers = {"Authorization": f"Bearer {world.listening.access.first_token}"}
    with TestClient(app, base_url="http://127.0.0.1:7860", headers=headers) as found:
        yield found
    world.listening.close()


def state(client: TestClient) -> dict[str, Any]:
    return client.get(BELOW).json()


def finished(client: TestClient) -> dict[str, Any]:
    eventually(lambda: not state(client)["pull"]["is_running"], "the pull ends")
    return state(client)["pull"]


def test_look_accept_pull_verify_remove(client: TestClient, hub: Hub, tiny: str, root: Path) -> None:
    assert state(client) == {"voices": [], "pull": None}
    offer = client.post(f"{BELOW}/look", json={"address": REPO}).json()
    assert offer["address"] == f"{REPO}@{tiny}" and offer["licences"] == ["Apache-2.0"] and offer["name"] == "tiny"
    assert not hub.asked("GET", "/large/")
    wanted = {"address": offer["address"], "accepts_licence": False}
    assert client.post(f"{BELOW}/pull", json=wanted).status_code == 400
    assert client.post(f"{BELOW}/pull", json=wanted | {"accepts_licence": True}).status_code == 200
    pulled = finished(client)
    assert (pulled["voice"], pulled["error"], pulled["done_bytes"]) == ("tiny", "", offer["bytes"])
    (row,) = state(client)["voices"]
    assert (row["repo"], row["revision"], row["licence"], row["is_spoken"]) == (REPO, tiny, "Apache-2.0", False)
    assert client.post(f"{BELOW}/verify", json={"name": "tiny"}).json() == {"files": 3}
    (root / "tiny" / "speakstream.safetensors").write_bytes(b"other")
    said = client.post(f"{BELOW}/verify", json={"name": "tiny"})
    assert said.status_code == 404 and "sha256 differs" in said.json()["message"]
    assert str(root) not in said.text
    (root / "tiny" / "hub.json").write_text("{")
    assert "cannot be read" in state(client)["voices"][0]["problem"]
    assert client.post(f"{BELOW}/remove", json={"name": "tiny"}).json() == {"removed": "tiny"}
    assert state(client)["voices"] == [] and not [*root.glob("*/hub.json"), *root.glob(".staging/*.removed")]


def test_one_pull_at_a_time_which_can_be_stopped_and_goes_on(client: TestClient, hub: Hub, tiny: str) -> None:
    hub.faults.trickle_s = 0.002
    wanted = {"address": REPO, "accepts_licence": True}
    assert client.post(f"{BELOW}/pull", json=wanted).status_code == 200
    assert client.post(f"{BELOW}/pull", json=wanted).status_code == 503
    eventually(lambda: state(client)["pull"]["done_bytes"] > 4000, "bytes arrive")
    client.post(f"{BELOW}/stop")
    assert "was stopped" in finished(client)["error"] and state(client)["voices"] == []
    hub.faults.trickle_s = 0
    client.post(f"{BELOW}/pull", json=wanted)
    assert finished(client)["voice"] == "tiny"
    assert any("Range" in one for one in hub.asked("GET", "/"))


def test_errors_are_sentences(client: TestClient, hub: Hub, tiny: str) -> None:
    said = client.post(f"{BELOW}/look", json={"address": "nobody/nothing"})
    assert said.status_code == 400 and "there is no repository" in said.json()["message"]
    assert client.post(f"{BELOW}/look", json={"address": "a/b/c"}).status_code == 400
    assert client.post(f"{BELOW}/look", json={"address": "x" * 500}).status_code == 422
    assert client.post(f"{BELOW}/look", json={"address": REPO, "name": "../x"}).status_code == 404
    for name in ("", "..", "nobody"):
        assert client.post(f"{BELOW}/remove", json={"name": name}).status_code == 404
        assert client.post(f"{BELOW}/verify", json={"name": name}).status_code == 404
    hub.faults.status = 503
    assert client.post(f"{BELOW}/look", json={"address": REPO}).status_code == 503
    client.post(f"{BELOW}/pull", json={"address": REPO, "accepts_licence": True})
    assert "has an error (503)" in finished(client)["error"]
    hub.repositories.clear()


def test_removed_twice_and_listed_at_once(
    client: TestClient, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post(f"{BELOW}/pull", json={"address": REPO, "accepts_licence": True})
    assert finished(client)["voice"] == "tiny"
    (root / "tiny" / "gone.json").symlink_to("nowhere")  # as a file that is listed and deleted before it is read
    (row,) = state(client)["voices"]
    assert (row["name"], row["bytes"]) == ("tiny", 0)

    def another_removes(folder: Path) -> None:
        monkeypatch.undo()
        remove("tiny", root)

    monkeypatch.setattr(durable, "make_folder", another_removes)
    assert client.post(f"{BELOW}/remove", json={"name": "tiny"}).status_code == 200
    assert state(client)["voices"] == [] and not [*root.glob("*/hub.json"), *root.glob(".staging/*.removed")]


def published(client: TestClient) -> dict[str, Any]:
    eventually(lambda: not client.get(f"{BELOW}/push").json()["push"]["is_running"], "the upload ends")
    return client.get(f"{BELOW}/push").json()["push"]


def test_own_voice_is_published_and_pulled_back(
    client: TestClient, hub: Hub, tiny: str, root: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post(f"{BELOW}/pull", json={"address": REPO, "accepts_licence": True})
    assert finished(client)["voice"] == "tiny"
    wanted = {"voice": "tiny", "repo": "rook/mine", "private": True}
    assert client.post(f"{BELOW}/push", json=wanted).status_code == 200
    assert "needs a token" in published(client)["error"] and "rook/mine" not in hub.repositories
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    listed = client.get(f"{BELOW}/push").json()
    assert listed["has_token"] and [one["name"] for one in listed["voices"]] == ["tiny"]
    client.post(f"{BELOW}/push", json=wanted)
    done = published(client)
    assert done["error"] == "" and "rook/mine" in done["link"] and hub.repositories["rook/mine"].private
    client.post(f"{BELOW}/pull", json={"address": "rook/mine", "name": "back", "accepts_licence": True})
    assert finished(client)["voice"] == "back"
    weights = "speakstream.safetensors"
    assert (root / "back" / weights).read_bytes() == (own / weights).read_bytes()


def test_a_damaged_record_hides_no_other_voice(client: TestClient, root: Path) -> None:
    (root / "tiny").mkdir(parents=True, exist_ok=True)
    (root / "tiny" / "hub.json").write_text("x")
    listed = client.get(f"{BELOW}/push")
    assert listed.status_code == 200 and [one["name"] for one in listed.json()["voices"]] == ["tiny"]
    refused = client.post(f"{BELOW}/push", json={"voice": "pulled", "repo": "rook/mine"})
    assert refused.status_code == 404 and "there is no voice 'pulled' to publish" in refused.json()["message"]


def test_only_own_voices_are_published_one_at_a_time(
    client: TestClient, hub: Hub, tiny: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    client.post(f"{BELOW}/pull", json={"address": REPO, "accepts_licence": True})
    finished(client)
    for name in ("pulled", "nobody", "../own"):
        assert client.post(f"{BELOW}/push", json={"voice": name, "repo": "rook/mine"}).status_code == 404
    started, may_end = threading.Event(), threading.Event()

    def waits(folder: Path, repo: str, *, private: bool) -> str:
        started.set()
        may_end.wait(60.0)
        return push_voice(folder, repo, private=private)

    monkeypatch.setattr(publishing, "push_voice", waits)
    wanted = {"voice": "tiny", "repo": "a/b/c"}
    client.post(f"{BELOW}/push", json=wanted)
    started.wait(60.0)
    assert client.post(f"{BELOW}/push", json=wanted).status_code == 503
    may_end.set()
    assert "is no name of a repository" in published(client)["error"]
    (own / "speakstream.safetensors").write_bytes(b"other")
    client.post(f"{BELOW}/push", json=wanted | {"repo": "rook/mine"})
    error = published(client)["error"]
    assert "sha256 differs" in error and str(own) not in error


def test_nobody_else_sees_or_changes_anything(client: TestClient, hub: Hub, tiny: str) -> None:
    client.headers["Authorization"] = "Bearer wrong"
    assert client.get(BELOW).status_code == 403
    assert client.get(f"{BELOW}/push").status_code == 403
    for call in ("look", "pull", "stop", "push", "verify", "remove"):
        body = {"address": REPO, "accepts_licence": True, "name": "tiny"}
        assert client.post(f"{BELOW}/{call}", json=body).status_code == 403
    assert not hub.requests
