"""Routes of the Edit page: a complete draft, equal to the command line's; and limits."""

import io
import json
import sys
import time
import wave
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve.mos_serving import ServedTests
from sqlmodel import select
from tones import Script

from studio.cli import main
from studio.mos.campaign.config import campaign_config
from studio.mos.service import ListeningTests, open_listening_tests
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stimuli import building
from studio.mos.store.tables import Clip, Item, Stimulus, System
from studio.serve.mos.draft_audio import DraftSounds
from studio.serve.trace_views import VIEWS

RATE_HZ = 16_000
TEXTS = "hello|Hello, and good morning.\nrain|Will it rain tomorrow?"


@pytest.fixture(scope="module", autouse=True)
def packages_of_the_trace_process() -> None:
    """Imported before a test waits for them: that takes seconds on a busy machine."""
    VIEWS.call(exec, "import pyloudnorm, scipy")


class Owner:
    """The owner's browser."""

    def __init__(self, served: ServedTests) -> None:
        self.http, self.headers = served.http, served.owner

    def post(self, path: str, body: Any = None, status: int = 200, **params: str) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        answer = self.http.post(f"owner/{path}", content=content, params=params, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, **params: str) -> httpx.Response:
        return self.http.get(f"owner/{path}", params=params, headers=self.headers)

    def spoken(self, name: str) -> dict[str, Any]:
        """Synthesise a draft's sounds and return it."""
        self.post(f"drafts/{name}/speak")
        until_s = time.monotonic() + 120.0
        while not (found := self.get(f"drafts/{name}").json())["speaking"]["over"]:
            assert time.monotonic() < until_s, found
            time.sleep(0.05)
        return found


@pytest.fixture
def owner(tests_served: ServedTests) -> Owner:
    tests_served.engine.script = Script(speed=1000.0, cold_ms=0.0)
    return Owner(tests_served)


def tone(hz: float, seconds: float = 0.7) -> bytes:
    """A WAV file of one tone."""
    pcm = (4000 * np.sin(2 * np.pi * hz * np.arange(int(RATE_HZ * seconds)) / RATE_HZ)).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(pcm.tobytes())
    return out.getvalue()


def held(listening: ListeningTests, name: str) -> dict[str, Any]:
    """All data of a campaign except its seed and creation time."""
    with listening.store.read() as session:
        campaign = find_campaign(session, name)
        systems = session.exec(select(System).where(System.campaign_id == campaign.id)).all()
        items = session.exec(select(Item).where(Item.campaign_id == campaign.id)).all()
        names = {s.id: s.name for s in systems} | {f"item{i.id}": i.name for i in items}
        sounds = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
        clips = {c.sha: (c.rate_hz, c.samples, c.derived_from) for c in session.exec(select(Clip)).all()}
        return {
            "config": campaign_config(campaign),
            "state": campaign.state,
            "systems": {(s.name, s.role, s.voice) for s in systems},
            "items": {(i.name, i.text, i.role, i.expected, i.tags) for i in items},
            "sounds": {
                (names[f"item{s.item_id}"], names[s.system_id], s.clip_sha, clips[s.clip_sha], s.gain_db, s.lufs_after)
                for s in sounds
            },
        }


def test_draft_is_created_filled_spoken_and_opened(owner: Owner, tests_served: ServedTests) -> None:
    made = owner.post("drafts", {"name": "windows", "template": "s5-preference"})
    assert (made["state"], made["not_ready"]) == ("draft", ["A pair needs two systems; add one"])
    owner.post("drafts/windows/systems", {"system": "tone:low?m=3"})
    owner.post("drafts/windows/systems", {"system": "tone:high"})
    made = owner.post("drafts/windows/texts", {"texts": "\n".join(f"This is sentence {n}." for n in range(4))})
    assert (made["items"]["test"], made["unspoken"]) == (4, 8)
    owner.post("drafts/windows/speak/stop")
    made = owner.spoken("windows")
    assert (made["speaking"]["done"], made["speaking"]["error"], made["unspoken"]) == (8, "", 0)
    assert (made["not_ready"], made["units"], made["sittings"], made["answers"]) == ([], 4, 20, 80)
    settings = {**made["settings"], "raters_per_stimulus": 3}
    changed = owner.post("drafts/windows/settings", {"settings": settings, "seen": made["seen"]})
    assert changed["answers"] == 12
    lost = owner.post("drafts/windows/settings", {"settings": settings, "seen": made["seen"]}, status=409)
    assert lost["code"] == "changed_meanwhile"
    [trial, *_] = owner.get("drafts/windows/preview").json()["trials"]
    sound = owner.get("drafts/windows/sound", **trial["slots"][0]["sound"])
    assert sound.headers["content-type"] == "audio/wav" and sound.content.startswith(b"RIFF")
    planned = owner.post("drafts/windows/plan", {"half_width": 0.4})
    assert planned["test"] == "preference" and planned["plan"]["half_width"] <= 0.4
    by_margin = owner.post("drafts/windows/plan", {"margin": 0.3})
    assert by_margin["ask"]["margin"] == 0.3 and by_margin["plan"]["power"] >= 0.8
    assert owner.post("drafts/windows/plan", {"margin": 0.5}, 422)["code"] == "bad_option"
    owner.post("drafts/windows/plan", {"margin": 0.3, "half_width": 0.4}, 422)
    assert all(one.request.is_guest for one in tests_served.engine.opened), "it leaves a slot to users who type"
    owner.post("campaigns/windows/state", {"state": "open"})
    for path, body in (
        ("settings", {"settings": settings}),
        ("texts", {"texts": "Another."}),
        ("systems", {"system": "tone:low"}),
        ("systems/drop", {"system": "tone:high"}),
        ("speak", {}),
        ("sounds", {}),
    ):
        assert "only drafts can be changed" in owner.post(f"drafts/windows/{path}", body, 422)["message"]


def test_browser_draft_equals_the_command_line_draft(
    owner: Owner, tests_served: ServedTests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Created by routes, exported, and created again from settings and clips by `studio campaign new`."""
    made = owner.post("drafts", {"name": "mine", "template": "speakstream-mos"})
    settings = made["settings"]
    settings["questions"][1]["labels"] = {"1": "Torn", "5": 'All "of a piece"'}
    settings["questions"].append({"id": "pace", "prompt": "How fast?\nBe honest.", "low": -2, "high": 2, "labels": {}})
    settings["gates"]["screening"] = [{"id": "ears", "prompt": "Both?", "options": ["Yes", "No"], "accept": ["Yes"]}]
    settings["gates"]["headphones"], settings["text_after"] = "huggins", True
    settings["completion"]["full"]["code"], settings["stop"]["half_width"] = "CFULL", 0.25
    settings["texts"]["title"] = "A test of ours"
    owner.post("drafts/mine/settings", {"settings": settings, "seen": made["seen"]})
    owner.post("drafts/mine/texts", {"texts": TEXTS})
    folder = tmp_path / "sounds"
    for k, system in enumerate(("heron", "reference")):
        for n, item in enumerate(("hello", "rain")):
            content = tone(300 + 90 * k + 40 * n, 0.6 + 0.1 * n)
            (folder / system).mkdir(parents=True, exist_ok=True)
            (folder / system / f"{item}.wav").write_bytes(content)
            owner.post("sounds", content, campaign="mine", system=system, file=f"{item}.wav")
    (folder / "texts.txt").write_text(TEXTS, encoding="utf-8")
    assert owner.post("drafts/mine/sounds", {})["not_ready"] == []
    (tmp_path / "mine.toml").write_text(owner.get("drafts/mine/settings.toml").text, encoding="utf-8")

    command = f"campaign new theirs --template incremental-mos --config {tmp_path}/mine.toml --from {folder} --draft"
    monkeypatch.setattr(sys, "argv", ["studio", *command.split(), "--data", str(tmp_path / "data")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    there = open_listening_tests("", tmp_path / "data")
    try:
        by_command = held(there, "theirs")
    finally:
        there.close()
    by_browser = held(tests_served.world.listening, "mine")
    assert len(by_browser["sounds"]) == 4 and by_browser["config"].questions[2].prompt == "How fast?\nBe honest."
    assert by_browser == by_command


def test_only_folders_inside_the_data_folder_are_accepted(owner: Owner, tests_served: ServedTests) -> None:
    data = tests_served.world.listening.clips.root.parent
    for system in ("heron", "teal"):
        (data / "sounds" / "lab" / system).mkdir(parents=True)
        (data / "sounds" / "lab" / system / "hello.wav").write_bytes(tone(200 + len(system)))
    (data / "sounds" / "away").symlink_to("/etc")
    (data / "sounds" / ".hidden").mkdir()
    assert owner.post("drafts", {"name": "mine", "template": "s5-preference"})["folders"] == ["lab"]
    for folder in ("../clips", "/etc", "away", ".hidden", "lab/heron", "none"):
        said = owner.post("drafts/mine/sounds", {"folder": folder}, status=422)
        assert "there is no folder" in said["message"]
    assert [s["name"] for s in owner.post("drafts/mine/sounds", {"folder": "lab"})["systems"]] == ["heron", "teal"]


def test_uploads_are_bounded_and_checked(owner: Owner, tests_served: ServedTests) -> None:
    owner.post("drafts", {"name": "mine", "template": "incremental-mos"})
    data = tests_served.world.listening.clips.root.parent
    good = tone(300)
    for campaign, system, file, body, status in (
        ("mine", "heron", "a.wav", b"RIFF, but no sound", 404),
        ("mine", "heron", "a.txt", good, 404),
        ("mine", "heron", "a.wav", tone(300, 0.1), 404),  # too short
        ("mine", "../heron", "a.wav", good, 422),
        ("mine", "heron", "../a.wav", good, 422),
        ("mine", "heron", "b/a.wav", good, 422),
        ("mine", "", "a.wav", good, 422),
        ("none", "heron", "a.wav", good, 422),
        ("first", "heron", "a.wav", good, 422),  # open
        ("mine", "heron", "a.wav", b"\0" * (64 * 2**20 + 1), 413),
    ):
        said = owner.post("sounds", body, status, campaign=campaign, system=system, file=file)
        assert said["message"]
    assert not [*(data / "uploads").iterdir()]
    assert "no file has come" in owner.post("drafts/mine/sounds", {}, 404)["message"]
    owner.post("sounds", good, campaign="mine", system="heron", file="a.wav")
    assert [s["sounds"] for s in owner.post("drafts/mine/sounds", {})["systems"]] == [1]
    assert not (data / "uploads" / "mine").exists(), "accepted uploads are in the clip folder"


def test_uploads_stay_where_the_draft_changes_during_their_import(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.post("drafts", {"name": "mine", "template": "incremental-mos"})
    owner.post("sounds", tone(300), campaign="mine", system="heron", file="a.wav")
    store, texts = building._store, iter([TEXTS])

    def meanwhile(*arguments: Any) -> Any:
        for written in texts:  # of another tab, once
            owner.post("drafts/mine/texts", {"texts": written})
        return store(*arguments)

    monkeypatch.setattr(building, "_store", meanwhile)
    assert owner.post("drafts/mine/sounds", {}, 409)["code"] == "changed_meanwhile"
    assert [s["sounds"] for s in owner.post("drafts/mine/sounds", {})["systems"]] == [1], "imported again"


def test_upload_to_another_server_during_an_import_stays(
    owner: Owner, tests_served: ServedTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers of one data folder know of each other's uploads by the folder only."""
    owner.post("drafts", {"name": "mine", "template": "incremental-mos"})
    for file in ("a.wav", "b.wav"):
        owner.post("sounds", tone(300), campaign="mine", system="heron", file=file)
    store, other = building._store, DraftSounds(tests_served.world.listening)

    def meanwhile(*arguments: Any) -> Any:
        for file in ("b.wav", "c.wav"):
            other.store("mine", "heron", file, tone(400))
        return store(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(building, "_store", meanwhile)
        assert [s["sounds"] for s in owner.post("drafts/mine/sounds", {})["systems"]] == [2]
    uploads = tests_served.world.listening.clips.root.parent / "uploads"
    left = {str(path.relative_to(uploads)) for path in uploads.rglob("*") if path.is_file()}
    assert left == {"mine/heron/b.wav", "mine/heron/c.wav"}
    (uploads / "mine/heron/b.wav").unlink()
    assert [s["sounds"] for s in owner.post("drafts/mine/sounds", {})["systems"]] == [3]
    assert not [*uploads.iterdir()]


def test_sounds_of_drafts_are_read_in_the_trace_process(
    owner: Owner, tests_served: ServedTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("studio.mos.stimuli.derived.read_sound", "studio.serve.mos.draft_audio.read_sound"):
        monkeypatch.setattr(name, None)  # here, not in the process
    monkeypatch.setattr("studio.mos.stimuli.manifest_files._read_folder", None)
    owner.post("drafts", {"name": "mine", "template": "incremental-mos"})
    for file in ("a.wav", "b.wav"):
        owner.post("sounds", tone(300), campaign="mine", system="heron", file=file)
    assert [s["sounds"] for s in owner.post("drafts/mine/sounds", {})["systems"]] == [2]
    (clip, *_) = [*tests_served.world.listening.clips.root.glob("*/*.wav")]
    assert clip.stat().st_size > 44


def test_unusable_systems_and_settings_are_refused(owner: Owner) -> None:
    made = owner.post("drafts", {"name": "mine", "template": "incremental-mos"})
    for system in ("heron:low", "tone:nobody", "tone:low?m=99", "tone:low?q=1", "tone:low?temperature=9", "teacher:x"):
        owner.post("drafts/mine/systems", {"system": system}, 404 if system in ("heron:low", "tone:nobody") else 422)
    assert "nothing to speak" in owner.post("drafts/mine/speak", status=422)["message"]
    for change in ({"raters_per_stimulus": 0}, {"kind": "abx"}, {"colour": "red"}, {"questions": [{"id": "x"}]}):
        owner.post("drafts/mine/settings", {"settings": {**made["settings"], **change}}, 422)
    owner.post("drafts", {"name": "mine", "template": "abx"}, 422)
    owner.post("drafts", {"name": "../mine", "template": "abx"}, 422)
    owner.post("drafts/mine/texts", {"texts": "x" * 70_000}, 413)
    owner.post("drafts/mine/plan", {"half_width": 0.0}, 422)
    assert owner.get("drafts/mine").json()["seen"] == made["seen"]
