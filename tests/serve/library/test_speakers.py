"""The owner's routes of added speakers: consent and owner first, refusals by their code, no name twice."""

import json
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fakes import FakeEngine
from mos.world import World
from starlette.testclient import TestClient

from studio.core.folders import DEMO, VOICES
from studio.core.speakers import CONSENT
from studio.engine.engine import open_engine
from studio.measure.references import MAX_FILE_BYTES
from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings
from studio.text.normalise import best

BELOW = "/library/speakers"
GIVEN = {"X-Studio-Consent": "given"}


def recorded() -> tuple[bytes, str]:
    """A WAV of two sentences, and their text."""
    manifest = json.loads((DEMO / "manifest.json").read_text(encoding="utf-8"))
    texts = {one["name"]: one["text"] for one in manifest["items"]}
    files = {one["item"]: one["file"] for one in manifest["files"] if one["file"].startswith("teacher-clara")}
    items, file = ("umbrella", "kettle"), BytesIO()
    sound = np.concatenate([soundfile.read(DEMO / files[item])[0] for item in items])
    soundfile.write(file, sound, 24_000, format="WAV")
    return file.getvalue(), " ".join(texts[item] for item in items)


def client_of(engine: Any, folder: Path) -> Iterator[TestClient]:
    world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    app = create_app(engine, ServeSettings(traces_folder=folder / "traces"), listening=world.listening)
    headers = {"Authorization": f"Bearer {world.listening.access.first_token}"}
    with TestClient(app, base_url="http://127.0.0.1:7860", headers=headers) as found:
        yield found
    world.listening.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The owner's client of a studio with finch."""
    with closing(open_engine(VOICES, best(), "cpu", ["finch"], slots=1, speakers=tmp_path / "speakers")) as engine:
        yield from client_of(engine, tmp_path)


def test_add_refusals_and_remove(client: TestClient, tmp_path: Path) -> None:
    sound, text = recorded()
    says = {"X-Studio-Voice": "finch", "X-Studio-Name": "Zo%C3%AB", "X-Studio-Text": text}
    there = client.get(BELOW).json()
    assert [(one["name"], one["needs_text"]) for one in there["voices"]] == [("finch", True)]
    assert (there["speakers"], there["consent"], there["max_bytes"]) == ([], CONSENT, MAX_FILE_BYTES)
    for given, status, code in (
        ({}, 422, "no_consent"),
        ({"X-Studio-Consent": "yes"}, 422, "no_consent"),
        (GIVEN | {"X-Studio-Name": ""}, 422, "bad_option"),
        (GIVEN | {"X-Studio-Name": "a%3Ab"}, 422, "bad_option"),
        (GIVEN | {"X-Studio-Name": "clara"}, 422, "bad_option"),
        (GIVEN | {"X-Studio-Voice": "nobody"}, 404, "bad_voice"),
        (GIVEN | {"X-Studio-Text": ""}, 422, "bad_text"),
        (GIVEN | {"X-Studio-Text": "Nobody was at home when it rained."}, 422, "bad_recording"),
        (GIVEN | {"X-Studio-Text": "x" * 501}, 422, "bad_option"),
        (GIVEN | {"X-Studio-Text": "x" * 3001}, 422, "bad_message"),
        (GIVEN | {"X-Studio-Keep": "perhaps"}, 422, "bad_message"),
    ):
        said = client.post(f"{BELOW}/add", content=sound, headers=says | given)
        assert (said.status_code, said.json()["code"]) == (status, code), said.text
    for body, status, code in (
        (b"", 422, "bad_message"),
        (b"hello", 422, "bad_message"),
        (sound[:40_044], 422, "bad_message"),  # fewer samples than the header says
        (b"\0" * (MAX_FILE_BYTES + 1), 413, "too_long"),
    ):
        said = client.post(f"{BELOW}/add", content=body, headers=says | GIVEN)
        assert (said.status_code, said.json()["code"]) == (status, code), said.text
    assert not (tmp_path / "speakers").exists()
    made = client.post(f"{BELOW}/add", content=sound, headers=says | GIVEN | {"X-Studio-Consent-By": "Zo%C3%AB"})
    assert made.status_code == 200 and made.json()["added"]["name"] == "Zoë"
    assert made.json()["recording"]["snr_db"] > 18 and len(made.json()["recording"]["steps"]) == 3
    (row,) = client.get(BELOW).json()["speakers"]
    assert (row["name"], row["consent"], row["consent_by"]) == ("Zoë", CONSENT, "Zoë")
    voices = {one["name"]: one["speakers"] for one in client.get("/api/voices").json()["voices"]}
    assert voices["finch"][-1] == "Zoë"
    assert client.post(f"{BELOW}/add", content=sound, headers=says | GIVEN).json()["code"] == "bad_option"
    for name, status in (("nobody", 404), ("clara", 404), ("Zoë", 200), ("Zoë", 404)):
        assert client.post(f"{BELOW}/remove", json={"voice": "finch", "name": name}).status_code == status
    assert client.get(BELOW).json()["speakers"] == []


def test_strangers_and_engines_without_speakers(client: TestClient, tmp_path: Path) -> None:
    stranger = {"Authorization": "Bearer wrong"}
    assert client.get(BELOW, headers=stranger).status_code == 403
    assert client.post(f"{BELOW}/add", content=b"x", headers=GIVEN | stranger).status_code == 403
    assert client.post(f"{BELOW}/remove", json={}, headers=stranger).status_code == 403
    other = tmp_path / "other"
    other.mkdir()
    for fake in client_of(FakeEngine(), other):
        assert fake.get(BELOW).json()["voices"] == []
        said = fake.post(f"{BELOW}/add", content=recorded()[0], headers=GIVEN | {"X-Studio-Name": "x"})
        assert said.status_code == 501 and "does not support added speakers" in said.json()["message"]
