"""CCR, DCR, ABX and MUSHRA from a folder of sounds to their tables: what raters are given, and what is made of it."""

import json
import wave
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from mos.world import Sitting, World
from sqlmodel import col, select

from studio.core.clips import read_wav
from studio.mos.building import build
from studio.mos.campaigns import find, set_state
from studio.mos.config import CampaignConfig, Gates
from studio.mos.export import export_rows
from studio.mos.kinds.base import BadAnswer
from studio.mos.manifest import read_manifest
from studio.mos.report import html, latex, markdown
from studio.mos.results import results
from studio.mos.tables import AnswerCreate, ChoiceCreate, PlayCreate, ScoreCreate, Slot, Stimulus, System
from studio.mos.templates import template

NAMES = ("osprey", "reference", "teal")
ITEMS = 4
RATE_HZ = 24_000
LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
Policy = Callable[[dict[int, str]], int | str]  # systems by slot, to a score of each slot, or a choice


def folder_of_sounds(folder: Path) -> Path:
    """Noise, which has something above every anchor; each system of another length."""
    rng = np.random.default_rng(3)
    for k, system in enumerate(NAMES):
        for item in range(ITEMS):
            path = folder / system / f"item{item}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            pcm = rng.normal(0, 1500, round((0.55 + 0.03 * k) * RATE_HZ)).clip(-9000, 9000)
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
                file.writeframes(pcm.astype("<i2").tobytes())
    return folder


def campaign(world: World, folder: Path, name: str, **settings: Any) -> CampaignConfig:
    """A template's campaign, opened; raters are let in without gates."""
    base = template(name)
    texts = replace(base.texts, consent_version=3)
    config = replace(base, gates=Gates(level=False), texts=texts, **{"trials_per_sitting": 4, **settings})
    build(world.listening, name, config, read_manifest(folder_of_sounds(folder)), seed=5)
    world.store.write_now(lambda session: set_state(session, name, "open").id)
    return config


def systems_of(world: World, trial: str) -> tuple[dict[int, str], str | None]:
    """What really plays on a screen: the systems to judge by slot, and the one beside them."""
    with world.store.read() as session:
        rows = session.exec(
            select(Slot.slot, Slot.place, System.name)
            .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
            .join(System, col(System.id) == col(Stimulus.system_id))
            .where(Slot.trial_id == trial)
        ).all()
    beside = [name for _, place, name in rows if place == "reference"]
    return {slot: name for slot, place, name in rows if place == "candidate"}, beside[0] if beside else None


def send(
    world: World,
    sitting: Sitting,
    shown: dict[str, Any],
    scores: dict[int, int],
    choice: str | None,
    heard_ms: dict[int, float] | None = None,
) -> None:
    trial, screen = shown["trial"], shown["screen"]
    asked = "match" if screen["kind"] == "abx" else "preference"
    answer = AnswerCreate(
        trial=trial["trial"],
        scores=[ScoreCreate(question=q["id"], slot=s, value=v) for q in screen["questions"] for s, v in scores.items()],
        choices=[ChoiceCreate(question=asked, outcome=choice)] if choice else [],  # type: ignore[arg-type]
        plays=[
            PlayCreate(slot=s["slot"], plays=1, heard_ms=(heard_ms or {}).get(s["slot"], 700.0)) for s in trial["slots"]
        ],
        response_ms=900.0,
    )
    world.listening.answer(sitting.rater_id, answer).result(30)


def results_of(world: World, name: str) -> dict[str, Any]:
    with world.store.read() as session:
        found = results(session, find(session, name))
    json.dumps(found, allow_nan=False)
    return found


def rows_of(world: World, name: str) -> list[dict[str, Any]]:
    with world.store.read() as session:
        return list(export_rows(session, find(session, name)))


def begin(world: World, who: str, name: str) -> Sitting:
    sitting = world.join(who, name)
    sitting.to_trials()
    return sitting


def screens(sitting: Sitting) -> Any:
    while (shown := sitting.next())["stage"] == "trials":
        yield shown


def test_a_comparison_is_turned_to_the_pair_it_was_of(world: World, tmp_path: Path) -> None:
    """Raters hear one order of two, say what they hear, and the table says it of the pair."""
    campaign(world, tmp_path, "ccr", pairs="baseline", baseline="reference", raters_per_stimulus=2)
    worth = {"osprey": -2, "reference": 0, "teal": 1}
    firsts: Counter[str] = Counter()
    for who in range(4):
        sitting = begin(world, f"rater {who}", "ccr")
        for shown in screens(sitting):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside is None
            assert "reference" in by_slot.values()
            firsts[by_slot[0]] += 1
            send(world, sitting, shown, {1: worth[by_slot[1]] - worth[by_slot[0]]}, None)
    found = results_of(world, "ccr")
    table = found["tables"]["comparisons"]["quality"]
    assert [(p["a"], p["b"], p["cmos"]["two_way"]["mean"]) for p in table["pairs"]] == [
        ("osprey", "reference", -2.0),
        ("teal", "reference", 1.0),
    ]
    assert [(p["better"], p["same"], p["worse"]) for p in table["pairs"]] == [(0, 0, 8), (8, 0, 0)]
    assert firsts == {"osprey": 4, "teal": 4, "reference": 8}
    assert table["order"]["mean"] == 0.0
    rows = rows_of(world, "ccr")
    assert len(rows) == 16
    for row in rows:
        assert row["system"] == row["system_b"]
        assert row["score"] == worth[row["system_b"]] - worth[row["system_a"]]
        assert (row["slot"], row["low"], row["high"], row["plays"]) == (1, -3, 3, 2)
    for text in (html(found), latex(found), markdown(found)):
        assert "Comparison MOS" in text
        assert "0.0%" in text.replace("\\", "")


def test_mushra_has_anchors_a_hidden_reference_and_a_post_screening(world: World, tmp_path: Path) -> None:
    config = campaign(world, tmp_path, "mushra", raters_per_stimulus=5)
    worth = {"reference": 100, "osprey": 70, "teal": 60, "anchor 7 kHz": 40, "anchor 3.5 kHz": 20}
    for who in range(5):
        sitting = begin(world, f"rater {who}", "mushra")
        for n, shown in enumerate(screens(sitting)):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside == "reference"
            assert sorted(by_slot.values()) == sorted(worth)
            deaf = who == 0 and n == 0  # 1 of 4 is above 15%
            told = {s: 10 if deaf and name == "reference" else worth[name] for s, name in by_slot.items()}
            send(world, sitting, shown, told, None)
    found = results_of(world, "mushra")
    screen, after = found["tables"]["post_screen"], found["tables"]["questions"]["quality"]["systems"]["two_way"]
    assert (screen["reference"], screen["raters"], screen["dropped"]) == ("reference", 5, 1)
    assert {name: (i["mean"], i["n"]) for name, i in after.items()} == {n: (float(w), 16) for n, w in worth.items()}
    assert screen["everybody"]["reference"]["mean"] == (19 * 100 + 10) / 20
    assert {s["name"]: s["role"] for s in found["systems"]} == {
        "osprey": "test",
        "reference": "reference",
        "teal": "test",
        "anchor 3.5 kHz": "anchor",
        "anchor 7 kHz": "anchor",
    }
    for text in (html(found), markdown(found)):
        assert "1 of 5 raters" in text
        assert "reference (hidden)" in text
        assert "95.5" in text
    assert "reference (hidden)" in latex(found)
    assert {r["reference"] for r in rows_of(world, "mushra")} == {"reference"}
    assert config.questions[0].high == 100


def test_a_degradation_is_that_of_a_sound_beside_its_reference(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "dcr", raters_per_stimulus=2, trials_per_sitting=6)
    worth = {"reference": 5, "osprey": 3, "teal": 2}
    for who in range(4):
        sitting = begin(world, f"rater {who}", "dcr")
        for shown in screens(sitting):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert (list(by_slot), beside) == ([0], "reference")
            assert [s["place"] for s in shown["trial"]["slots"]] == ["candidate", "reference"]
            send(world, sitting, shown, {0: worth[by_slot[0]]}, None)
    found = results_of(world, "dcr")
    means = found["tables"]["questions"]["degradation"]["systems"]["two_way"]
    assert {name: (i["mean"], i["n"]) for name, i in means.items()} == {n: (float(w), 8) for n, w in worth.items()}
    for text in (html(found), latex(found), markdown(found)):
        assert "Degradation mean opinion score" in text


def test_x_is_one_of_the_two_and_the_table_says_who_found_it(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "abx", pairs="baseline", baseline="reference", raters_per_stimulus=1)
    seen: Counter[tuple[str, bool]] = Counter()
    rng = Random(2)
    right = 0
    for who in range(4):
        sitting = begin(world, f"rater {who}", "abx")
        for shown in screens(sitting):
            by_slot, x = systems_of(world, shown["trial"]["trial"])
            [other] = set(by_slot.values()) - {"reference"}
            seen[other, x == "reference"] += 1
            # osprey is told from the reference every time, teal by tossing a coin
            truth = "a" if by_slot[0] == x else "b"
            said = truth if other == "osprey" else rng.choice("ab")
            right += said == truth and other == "teal"
            send(world, sitting, shown, {}, said)
    assert seen == {("osprey", True): 4, ("osprey", False): 4, ("teal", True): 4, ("teal", False): 4}
    found = results_of(world, "abx")
    table = found["tables"]["identity"]
    assert [(p["a"], p["b"], p["right"], p["n"]) for p in table["pairs"]] == [
        ("osprey", "reference", 8, 8),
        ("reference", "teal", right, 8),
    ]
    assert table["pairs"][0]["p"] == pytest.approx(1 / 256)
    assert (table["all"]["right"], table["all"]["n"]) == (8 + right, 16)
    for row in rows_of(world, "abx"):
        assert row["question"] == "match"
        assert row["reference"] in (row["system_a"], row["system_b"])
    for text in (html(found), latex(found), markdown(found)):
        assert "ABX: share of X found" in text


@pytest.mark.parametrize("name", ["mushra", "abx"])
@LITE
def test_nothing_but_the_sound_tells_which_two_are_the_same(world: World, tmp_path: Path, name: str) -> None:
    """Neither the names on the screen nor a clip's length nor its bytes."""
    campaign(world, tmp_path, name)
    sitting = begin(world, "curious", name)
    first: list[list[int]] = []
    for shown in screens(sitting):
        text = json.dumps(shown)
        assert not [word for word in (*NAMES[::2], "anchor", "kHz", "item") if word in text]
        assert shown["screen"]["kind"] == name
        trial, slots = shown["trial"]["trial"], shown["trial"]["slots"]
        by_slot, beside = systems_of(world, trial)
        fetched: dict[int, bytes] = {}
        for slot in slots:
            key = slot["url"].rsplit("/", 1)[1]
            got = world.listening.clip(sitting.rater_id, trial, slot["slot"], key)
            assert isinstance(got, bytes)
            assert got == world.listening.clip(sitting.rater_id, trial, slot["slot"], key)
            fetched[slot["slot"]] = got
        assert len({len(f) for f in fetched.values()}) == 1
        assert len(set(fetched.values())) == len(fetched)
        assert [s["slot"] for s in slots if s["place"] == "reference"] == [len(slots) - 1]
        sound = {s: samples(tmp_path, f) for s, f in fetched.items()}
        twin = next(s for s, system in by_slot.items() if system == beside)
        apart = [int(np.abs(sound[s] - sound[len(slots) - 1]).max()) for s in by_slot]
        assert apart[twin] == 1  # it is the same sound, and the others are not
        assert sorted(apart)[1] > 100
        first.append([twin])
        marks = (dict.fromkeys(by_slot, 50), None) if name == "mushra" else ({}, "a")
        longest_ms = len(sound[twin]) / RATE_HZ * 1000.0
        for slot in fetched:  # nor what is refused: each has to be heard as long as the longest
            with pytest.raises(BadAnswer, match=f"sound {slot + 1} was"):
                send(world, sitting, shown, *marks, {slot: longest_ms - 251.0})
        send(world, sitting, shown, *marks)
    assert len({str(f) for f in first}) > 1


@LITE
def test_anchors_have_nothing_above_their_cut_off(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra")
    with world.store.read() as session:
        rows = session.exec(
            select(System.name, System.voice, Stimulus.clip_sha).join(
                Stimulus, col(Stimulus.system_id) == col(System.id)
            )
        ).all()
    assert Counter(name for name, *_ in rows) == dict.fromkeys((*NAMES, "anchor 3.5 kHz", "anchor 7 kHz"), ITEMS)
    for name, voice, sha in rows:
        pcm, rate_hz = world.listening.clips.read(sha)
        power = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)))) ** 2
        hz = np.fft.rfftfreq(len(pcm), 1 / rate_hz)
        cut = json.loads(voice).get("low_pass_hz", 12_000)
        above, below = power[hz > cut * 9 / 7].sum(), power[hz < cut].sum()
        assert (name.startswith("anchor")) == (cut < 12_000)
        if cut < 12_000:
            assert above / below < 1e-4
    assert json.loads(next(v for n, v, _ in rows if n == "anchor 7 kHz")) == {"low_pass_hz": 7000, "of": "reference"}


@LITE
def test_where_the_post_screening_leaves_nobody_it_is_said(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra")
    sitting = begin(world, "deaf", "mushra")
    for shown in screens(sitting):
        send(world, sitting, shown, dict.fromkeys(systems_of(world, shown["trial"]["trial"])[0], 50), None)
    found = results_of(world, "mushra")
    assert found["tables"]["post_screen"]["dropped"] == 1
    assert "The post-screening left nobody." in html(found)
    assert "50.0" in markdown(found)


@LITE
def test_anchors_that_came_along_are_the_only_ones(world: World, tmp_path: Path) -> None:
    folder = folder_of_sounds(tmp_path / "sounds")
    (folder / "teal").rename(folder / "anchor own")
    config = replace(template("mushra"), gates=Gates(level=False))
    build(world.listening, "mushra", config, read_manifest(folder), seed=5)
    assert {s.name for s in world.all(System)} == {"osprey", "reference", "anchor own"}


def samples(folder: Path, data: bytes) -> np.ndarray:
    path = folder / "fetched.wav"
    path.write_bytes(data)
    return read_wav(path)[0].astype(np.int64)
