"""The service as routes call it: whole campaigns, links, sounds, blinding."""

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from mos.world import AB, ACR, SYSTEMS, RaterSession, SystemSpec, World, items_of

from studio.core.errors import BadOption
from studio.core.sound_files import read_mono
from studio.mos.analysis.answers import load_answers
from studio.mos.campaign.config import CampaignConfig, Completion, Question
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.service import ListeningTests
from studio.mos.sessions.answers import count_answers
from studio.mos.sessions.campaigns import NotOpen
from studio.mos.store.access import Forbidden
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import Answer, Rater, Slot, Stimulus, System, Trial

SCALE = replace(ACR, kind="scale", questions=[Question("quality", "How good?", 1, 100)])
SIMILARITY = replace(AB, kind="similarity", choices=["a", "b"])
CONFIGS = {c.kind: c for c in (ACR, AB, SIMILARITY, SCALE)}
VALUES: dict[str, Any] = {"acr": 4, "ab": "tie", "similarity": "b", "scale": 77}


def of_kind(world: World, config: CampaignConfig) -> None:
    """A campaign that fits the kind."""
    systems = [SystemSpec(s) for s in SYSTEMS]
    reference = [SystemSpec("lyrebird", "reference")] if config.kind == "similarity" else []
    world.campaign(config, systems=[*systems, *reference])


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_whole_campaign(world: World, kind: str) -> None:
    """From the link to the completion code until every unit has its raters; every rating names its systems."""
    done = Completion("C0DE", "https://panel.example/done")
    of_kind(world, replace(CONFIGS[kind], raters_per_stimulus=2, completion=done))
    finished = 0
    while (rater := world.join(f"rater {finished}")).to_trials()["stage"] == "trials":
        screens = rater.finish(VALUES[kind])
        assert [s["trial"]["position"] for s in screens] == list(range(4))
        end = rater.next()
        assert (end["stage"], end["code"], end["redirect"]) == ("done", "C0DE", "https://panel.example/done")
        finished += 1
    assert finished == (4 if kind == "acr" else 2)
    with world.store.read() as session:
        found = load_answers(session, world.campaign_id())
        assert count_answers(session, world.campaign_id())["test"] == len(found) == finished * 4
    shown = {"acr": 1}.get(kind, 2)
    assert all(len(j.systems) == shown and set(j.systems) <= set(SYSTEMS) for j in found)
    assert Counter(s for j in found for s in j.systems) == dict.fromkeys(SYSTEMS, finished * 4 * shown // 2)
    assert all(r.stage == "done" for r in world.all(Rater))


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_nothing_sent_to_a_rater_reveals_the_system(world: World, kind: str) -> None:
    """All responses and sounds, searched for names of systems, scripts and clips."""
    gates = replace(
        ACR.gates,
        headphones="woods",
        level=True,
        screening=[ScreeningQuestion("native", "Native?", ["yes", "no"], ["yes"])],
    )
    of_kind(world, replace(CONFIGS[kind], gates=gates))
    listening = world.listening
    got: list[Any] = [listening.describe_link("first", world.link())]
    got.append(listening.join("first", world.link(), "anna", {}, {}))
    anna = world.join("anna")
    got.append(anna.next())
    got.append(anna.send("consent", agreed=True, version=3))
    got.append(anna.send("screening", answers={"native": "yes"}))
    got.append(anna.send("instructions"))
    got.append(anna.send("level"))
    got.append(anna.send("headphones", answers=anna.headphones("woods")))
    sounds: list[bytes] = []
    keys: list[str] = []
    while (shown := anna.next())["stage"] == "trials":
        got.append(shown)
        parts = [_parts(one["url"]) for one in shown["trial"]["slots"]]
        sounds += [listening.sounds.clip(anna.rater_id, *part).read_bytes() for part in parts]
        keys += [key for *_, key in parts]
        got.append(anna.answer(shown, VALUES[kind]).model_dump())
    got.append(anna.send("comments", comment=""))
    assert got[-1]["stage"] == "done" and len(sounds) >= 4
    replies = json.dumps(got)
    for key in [*keys, got[1]["token"]]:  # random letters, which may spell anything
        replies = replies.replace(key, "")
    replies = replies.casefold()
    secret = {s.name for s in world.all(System)} | {s.clip_sha for s in world.all(Stimulus)}
    secret |= {i.name for i in items_of(4)} | {"system", "stimulus", "sha", "seed", "lyrebird"}
    assert [word for word in secret if word.casefold() in replies] == []
    assert {len(s) for s in sounds} == {44 + 16_000}, "a header and the samples, nothing else"
    for shown in (g for g in got if g.get("stage") == "trials"):
        assert set(shown) == {"stage", "title", "language", "stages", "screen", "trial"}
        assert set(shown["trial"]) == {"trial", "position", "of", "practice", "text", "slots", "break_before", "asked"}


def _parts(url: str) -> tuple[str, int, str]:
    kind, trial, slot, key = url.split("/")
    assert kind == "clip"
    return trial, int(slot), key


def test_check_looks_like_any_other_screen(world: World) -> None:
    """Traps, golds and repeats are sent in the same form as tests."""
    items = [*items_of(4), *items_of(1, "trap"), *items_of(1, "gold")]
    config = replace(ACR, repeats=1, show_text=False, gates=replace(ACR.gates, traps=1, golds=1))
    world.campaign(config, items=items)
    anna = world.begin("anna")
    screens = anna.finish()
    roles = {t.id: t.role for t in world.all(Trial)}
    assert Counter(roles[s["trial"]["trial"]] for s in screens) == {"test": 4, "trap": 1, "gold": 1, "repeat": 1}
    for shown in screens:
        kept = {k: v for k, v in shown["trial"].items() if k not in ("trial", "position", "slots")}
        assert kept == {"of": 7, "practice": False, "text": None, "break_before": False, "asked": []}
        assert len({len(s["url"]) for s in shown["trial"]["slots"]}) == 1


def test_sound_belongs_to_its_slot_and_rater(world: World) -> None:
    """It may be fetched twice; another rater's address, screen or slot is refused."""
    of_kind(world, SIMILARITY)
    anna, bert = world.join("anna"), world.join("bert")
    shown = anna.to_trials()
    bert.to_trials()
    clip = {s.id: s.clip_sha for s in world.all(Stimulus)}
    slots = {(s.trial_id, s.slot): (clip[s.stimulus_id], s.place) for s in world.all(Slot)}
    assert [s["place"] for s in shown["trial"]["slots"]] == ["candidate", "candidate", "reference"]
    for there in shown["trial"]["slots"]:
        trial, slot, key = _parts(there["url"])
        for _ in range(2):
            path = world.listening.sounds.clip(anna.rater_id, trial, slot, key)
            assert (path.stem, there["place"]) == slots[trial, slot]
            assert len(read_mono(path)[0]) == 8000
        for wrong in ((bert.rater_id, trial, slot, key), (anna.rater_id, trial, slot + 1, key)):
            with pytest.raises(Forbidden):
                world.listening.sounds.clip(*wrong)
    made_up = world.listening.access.clip_key(anna.rater_id, "ab" * 12, 0)
    with pytest.raises(Forbidden):
        world.listening.sounds.clip(anna.rater_id, "ab" * 12, 0, made_up)


def test_link_opens_its_campaign(world: World) -> None:
    """A wrong link gets the same message whether the campaign exists or not."""
    world.campaign(state="draft")
    greet = world.listening.describe_link
    panel, preview = world.link(), world.link(role="preview")
    known = {"title": "Voices", "language": "en", "standing": False}
    assert greet("first", panel) == {**known, "open": False, "preview": False}
    assert greet("first", preview) == {**known, "open": True, "preview": True}
    world.set_state("open")
    assert greet("first", panel)["open"]
    said = set()
    for name, key in (("first", "x"), ("first", ""), ("second", panel), ("first", panel[:-1] + "é")):
        with pytest.raises(Forbidden) as refused:
            greet(name, key)
        said.add(str(refused.value))
        with pytest.raises(Forbidden):
            world.listening.join(name, key, "anna", {}, {})
    assert len(said) == 1
    for name in ("\0", "x" * 500, "\ud800"):
        with pytest.raises(BadOption):
            greet(name, panel)
    assert world.all(Rater) == []


def test_link_does_not_name_its_campaign(world: World) -> None:
    """Neither name nor id; old links by name still work."""
    world.campaign(name="bad voice of the rival")
    world.campaign(name="second")
    listening, seen = world.listening, set[str]()
    for name in ("bad voice of the rival", "second"):
        for role, path in zip(("panel", "preview"), listening.links(name).values(), strict=True):
            page, _, query = path.partition("?")
            (_, test), (_, key) = found = parse_qsl(query)
            assert page == "/rate" and [k for k, _ in found] == ["test", "key"]
            assert re.fullmatch("[0-9a-f]{16}", test) and key == world.link(name, role)
            assert listening.describe_link(test, key) == listening.describe_link(name, key)
            joined = listening.join(test, key, "anna", {}, {})
            assert joined == listening.join(name, key, "anna", {}, {})
            seen.add(test)
    assert len(seen) == 2
    [other] = seen - {test}
    with pytest.raises(Forbidden):
        listening.describe_link(other, key)


@pytest.mark.parametrize("who", ["panel|5f|\0", "\ud800", "é" * 400, ""])
def test_any_panel_id_is_accepted(world: World, who: str) -> None:
    """It is stored unchanged, for payment only."""
    world.campaign()
    rater = world.join(who).agree()
    assert world.join(who).rater_id == rater.rater_id
    assert json.loads(rater.row().panel) == {"PROLIFIC_PID": who}


def test_closed_campaign_accepts_no_new_raters(world: World) -> None:
    """Current raters finish; it can reopen; a draft accepts nobody."""
    world.campaign(state="draft")
    with pytest.raises(NotOpen):
        world.join("early")
    world.set_state("open")
    anna = world.join("anna")
    shown = anna.to_trials()
    world.set_state("closed")
    with pytest.raises(NotOpen):
        world.join("late")
    assert world.join("anna").rater_id == anna.rater_id
    assert anna.answer(shown).counted
    assert len(anna.finish()) == 3 and anna.row().stage == "done"
    world.set_state("open")
    assert world.join("late").joined_at == "consent"


def test_preview_is_never_counted(world: World) -> None:
    """Its answers are stored, but in no count or analysis."""
    world.campaign()
    for who, role in (("anna", "panel"), ("me", "preview")):
        rater = world.begin(who, role=role)
        rater.finish()
    with world.store.read() as session:
        assert count_answers(session, world.campaign_id()) == {"test": 4}
        assert len(load_answers(session, world.campaign_id())) == 4
    assert len(world.all(Answer)) == 8


def test_restart_changes_nothing(world: World, url: str) -> None:
    """Links, tokens, sound addresses and the open screen are valid in the next process."""
    world.campaign()
    anna = world.join("anna")
    shown = anna.to_trials()
    again = ListeningTests(Store(url), ClipFolder(world.listening.clips.root))
    assert again.access.rater_of(anna.token) == anna.rater_id
    assert again.next(anna.rater_id).result(10) == shown
    assert again.sounds.clip(anna.rater_id, *_parts(shown["trial"]["slots"][0]["url"])).is_file()
    assert again.describe_link("first", world.link())["open"]
    again.close()


def test_unknown_rater_id_is_refused(world: World) -> None:
    """By every call."""
    listening = world.listening
    for call in (
        lambda: listening.next(99).result(10),
        lambda: listening.stage(99, "consent", {}).result(10),
        lambda: listening.withdraw(99).result(10),
        lambda: listening.sounds.headphone(99, 0),
    ):
        with pytest.raises(Forbidden):
            call()


def test_many_concurrent_raters(world: World) -> None:
    """Ten raters complete a campaign: nothing is lost, doubled or swapped."""
    world.campaign(replace(ACR, raters_per_stimulus=5), items=items_of(4))
    world.link()
    rater_sessions: list[RaterSession] = []

    def go(n: int) -> None:
        rater = world.begin(f"rater {n}")
        rater.finish(1 + n % 5)
        rater_sessions.append(rater)

    threads = [threading.Thread(target=go, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(rater_sessions) == 10
    trials = {t.id: t for t in world.all(Trial)}
    per_rater = Counter(trials[a.trial_id].rater_id for a in world.all(Answer))
    assert per_rater == {s.rater_id: 4 for s in rater_sessions}
    assert set(Counter(t.unit for t in trials.values()).values()) == {5}
    with world.store.read() as session:
        found = load_answers(session, world.campaign_id())
    values: dict[str, set[int]] = {}
    for one in found:
        values.setdefault(one.rater, set()).update(one.scores.values())
    assert len(values) == 10 and all(len(v) == 1 for v in values.values())


def test_service_loads_neither_the_engine_nor_the_web() -> None:
    """The CLI has to work where neither is installed."""
    heavy = ("torch", "torchaudio", "gradio", "fastapi", "starlette", "uvicorn", "studio.engine")
    code = f"import sys, studio.mos.service; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
