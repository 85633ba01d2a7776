"""The owner's routes of pulled voices: the page's calls, one pull at a time, nothing for others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from hub.conftest import REPO
from hub.hubserver import Hub
from mos.world import World
from serve.serving import eventually
from starlette.testclient import TestClient

from studio.core import durable
from studio.hub.pull import remove
from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings

BELOW = "/library/voices"


@pytest.fixture
def client(hub: Hub, root: Path, tmp_path: Path) -> Iterator[TestClient]:
    """The owner's client of a studio whose voices are others."""
    world = World(Store(f"sqlite:///{tmp_path / 'studio.sqlite'}"), tmp_path / "clips")
    app = create_app(FakeEngine(), ServeSettings(traces_folder=tmp_path / "traces"), listening=world.listening)
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


def test_nobody_else_sees_or_changes_anything(client: TestClient, hub: Hub, tiny: str) -> None:
    client.headers["Authorization"] = "Bearer wrong"
    assert client.get(BELOW).status_code == 403
    for call in ("look", "pull", "stop", "verify", "remove"):
        body = {"address": REPO, "accepts_licence": True, "name": "tiny"}
        assert client.post(f"{BELOW}/{call}", json=body).status_code == 403
    assert not hub.requests
