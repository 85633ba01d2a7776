"""Kinds of the ITU recommendations, from a folder of sounds to their tables: CCR, DCR, ABX, MUSHRA and P.835."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from mos.kinds.test_kinds import P835, stock
from mos.recommended import (
    ITEMS,
    NAMES,
    campaign,
    folder_of_sounds,
    results_of,
    rows_of,
    screens,
    send,
    systems_of,
)
from mos.world import RATE_HZ, SQLITE_ONLY, World
from sqlmodel import col, select

from studio.core.errors import BadFile
from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import Gates, load_template
from studio.mos.campaign.design import AssignmentCounts, UnitTable, assign_units, choose_question_order
from studio.mos.campaign.manifest import ItemSpec
from studio.mos.import_export.export import export_rows
from studio.mos.kinds.base import BadAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.report.page import html
from studio.mos.report.tables import detail_tables, latex, markdown
from studio.mos.sessions.assignment import count_assignments
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables import AnswerCreate, PlayCreate, ScoreCreate, Stimulus, System, Trial


def test_comparison_is_signed_by_pair(world: World, tmp_path: Path) -> None:
    """Raters hear either order; the table reports the sign for the named pair."""
    campaign(world, tmp_path, "ccr", pairs="baseline", baseline="reference", raters_per_stimulus=2)
    worth = {"osprey": -2, "reference": 0, "teal": 1}
    firsts: Counter[str] = Counter()
    for who in range(4):
        rater_session = world.begin(f"rater {who}", "ccr")
        for shown in screens(rater_session):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside is None
            assert "reference" in by_slot.values()
            firsts[by_slot[0]] += 1
            send(world, rater_session, shown, {1: worth[by_slot[1]] - worth[by_slot[0]]}, None)
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


def test_degradation_is_scored_beside_the_reference(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "dcr", raters_per_stimulus=2, trials_per_sitting=6)
    worth = {"reference": 5, "osprey": 3, "teal": 2}
    for who in range(4):
        rater_session = world.begin(f"rater {who}", "dcr")
        for shown in screens(rater_session):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert (list(by_slot), beside) == ([0], "reference")
            assert [s["place"] for s in shown["trial"]["slots"]] == ["candidate", "reference"]
            send(world, rater_session, shown, {0: worth[by_slot[0]]}, None)
    found = results_of(world, "dcr")
    means = found["tables"]["questions"]["degradation"]["systems"]["two_way"]
    assert {name: (i["mean"], i["n"]) for name, i in means.items()} == {n: (float(w), 8) for n, w in worth.items()}
    for text in (html(found), latex(found), markdown(found)):
        assert "Degradation mean opinion score" in text


def test_abx_reports_how_often_x_was_identified(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "abx", pairs="baseline", baseline="reference", raters_per_stimulus=1)
    seen: Counter[tuple[str, bool]] = Counter()
    tally = {"a": 0, "b": 0}
    rng = Random(2)
    right = 0
    for who in range(4):
        rater_session = world.begin(f"rater {who}", "abx")
        for shown in screens(rater_session):
            by_slot, x = systems_of(world, shown["trial"]["trial"])
            [other] = set(by_slot.values()) - {"reference"}
            seen[other, x == "reference"] += 1
            # osprey is always identified, teal by chance
            truth = "a" if by_slot[0] == x else "b"
            said = truth if other == "osprey" else rng.choice("ab")
            tally[said] += 1
            right += said == truth and other == "teal"
            send(world, rater_session, shown, {}, said)
    assert seen == {("osprey", True): 4, ("osprey", False): 4, ("teal", True): 4, ("teal", False): 4}
    found = results_of(world, "abx")
    table = found["tables"]["identity"]
    assert [(p["a"], p["b"], p["right"], p["n"]) for p in table["pairs"]] == [
        ("osprey", "reference", 8, 8),
        ("reference", "teal", right, 8),
    ]
    assert table["said"] == tally and tally["a"] != tally["b"]
    assert table["pairs"][0]["p"] == pytest.approx(1 / 256)
    assert (table["all"]["right"], table["all"]["n"]) == (8 + right, 16)
    for row in rows_of(world, "abx"):
        assert row["question"] == "match"
        assert row["reference"] in (row["system_a"], row["system_b"])
    for text in (html(found), latex(found), markdown(found)):
        assert "ABX: share of correct answers" in text


def test_mushra_has_anchors_a_hidden_reference_and_post_screening(world: World, tmp_path: Path) -> None:
    config = campaign(world, tmp_path, "mushra", raters_per_stimulus=5)
    worth = {"reference": 100, "osprey": 70, "teal": 60, "anchor 7 kHz": 40, "anchor 3.5 kHz": 20}
    for who in range(5):
        rater_session = world.begin(f"rater {who}", "mushra")
        for n, shown in enumerate(screens(rater_session)):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside == "reference"
            assert sorted(by_slot.values()) == sorted(worth)
            wrong = {}  # 1 of 4 is above 15%
            if who == 0 and n == 0:
                wrong = {"reference": 10}
            if who == 1 and n == 1:
                wrong = {"anchor 7 kHz": 95}
            tally = {s: wrong.get(name, worth[name]) for s, name in by_slot.items()}
            send(world, rater_session, shown, tally, None)
    found = results_of(world, "mushra")
    screen, after = found["tables"]["post_screen"], found["tables"]["questions"]["quality"]["systems"]["two_way"]
    assert (screen["reference"], screen["mid_anchor"]) == ("reference", "anchor 7 kHz")
    assert [screen[k] for k in ("raters", "dropped", "by_reference", "by_anchor", "unharmed")] == [5, 2, 1, 1, []]
    assert {name: (i["mean"], i["n"]) for name, i in after.items()} == {n: (float(w), 12) for n, w in worth.items()}
    quartiles = found["tables"]["questions"]["quality"]["quartiles"]
    assert quartiles["teal"] == {"low": 60.0, "median": 60.0, "high": 60.0}
    assert screen["everybody"]["reference"]["mean"] == (19 * 100 + 10) / 20
    assert {s["name"]: s["role"] for s in found["systems"]} == {
        "osprey": "test",
        "reference": "reference",
        "teal": "test",
        "anchor 3.5 kHz": "anchor",
        "anchor 7 kHz": "anchor",
    }
    for text in (html(found), markdown(found)):
        assert "2 of 5 raters are excluded" in text and "60.0" in text
        assert "1 who scored the hidden reference below 90 and 1 who scored the mid anchor" in text
        assert "reference (hidden)" in text
        assert "95.5" in text
    assert "reference (hidden)" in latex(found)
    assert {r["reference"] for r in rows_of(world, "mushra")} == {"reference"}
    assert config.questions[0].high == 100


@SQLITE_ONLY
def test_anchors_are_low_passed_at_their_cutoff(world: World, tmp_path: Path) -> None:
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


@SQLITE_ONLY
def test_post_screening_that_excludes_all_raters_is_reported(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra")
    rater_session = world.begin("deaf", "mushra")
    for shown in screens(rater_session):
        send(world, rater_session, shown, dict.fromkeys(systems_of(world, shown["trial"]["trial"])[0], 50), None)
    found = results_of(world, "mushra")
    assert found["tables"]["post_screen"]["dropped"] == 1
    assert "The post-screening excluded all raters." in html(found)
    assert "50.0" in markdown(found)


@SQLITE_ONLY
def test_provided_anchors_replace_generated_ones(world: World, tmp_path: Path) -> None:
    folder = folder_of_sounds(tmp_path / "sounds")
    (folder / "teal").rename(folder / "anchor own")
    config = replace(load_template("mushra"), gates=Gates(level=False))
    build_campaign(world.listening, "mushra", config, read_manifest(folder), seed=5)
    assert {s.name for s in world.all(System)} == {"osprey", "reference", "anchor own"}


SIG, BAK = "SIG BAK OVRL", "BAK SIG OVRL"


def three(shown: dict, sig: int, bak: int, ovrl: int, heard_ms: float = 2000.0) -> AnswerCreate:
    values = zip(("SIG", "BAK", "OVRL"), (sig, bak, ovrl), strict=True)
    return AnswerCreate(
        trial=shown["trial"]["trial"],
        scores=[ScoreCreate(question=q, slot=0, value=v) for q, v in values],
        plays=[PlayCreate(slot=0, plays=3, heard_ms=heard_ms)],
    )


def test_p835_has_three_scales_with_intervals_and_the_order_of_questions(world: World, tmp_path: Path) -> None:
    """Raters who judge the background first score the signal one lower; both orders are balanced per sound."""
    campaign(world, tmp_path, "p835", raters_per_stimulus=4, trials_per_sitting=12)
    for who in range(4):
        rater_session = world.begin(f"rater {who}", "p835")
        for shown in screens(rater_session):
            asked = shown["trial"]["asked"]
            assert asked in (SIG.split(), BAK.split())
            answer = three(shown, 4 if asked[0] == "SIG" else 3, 2, 3)
            world.listening.answer(rater_session.rater_id, answer).result(30)
    found = results_of(world, "p835")
    assert list(found["tables"]["questions"]) == ["SIG", "BAK", "OVRL"]
    for name, mean in (("SIG", 3.5), ("BAK", 2.0), ("OVRL", 3.0)):
        of = found["tables"]["questions"][name]["systems"]["two_way"]
        assert {i["mean"] for i in of.values()} == {mean}
        assert all(i["low"] < mean < i["high"] for i in of.values())
    orders = found["tables"]["asking"]["SIG"]
    assert [(o["order"][0], o["mean"], o["n"]) for o in orders] == [("SIG", 4.0, 24), ("BAK", 3.0, 24)]
    with world.store.read() as session:
        row = find_campaign(session, "p835")
        load = count_assignments(session, row.id or 0)
        rows = list(export_rows(session, row))
        assert {a.question_order for a in load_answers(session, row.id or 0)} == {
            tuple(SIG.split()),
            tuple(BAK.split()),
        }
    assert {load.question_orders[unit, order] for unit in load.assigned for order in (SIG, BAK)} == {2}
    first = {r["question"] for r in rows if r["asked"] == 1}
    assert first == {"SIG", "BAK"} and {r["question"] for r in rows if r["asked"] == 3} == {"OVRL"}
    by_rater = {(t.rater_id, t.asked) for t in world.all(Trial)}
    assert Counter(order for _, order in by_rater) == {SIG: 2, BAK: 2}
    table = next(t for t in detail_tables(found) if t.caption == "Order of questions")
    assert [row[:2] for row in table.rows][:2] == [["SIG", "SIG, BAK, OVRL"], ["SIG", "BAK, SIG, OVRL"]]
    assert "Order of questions" in html(found)
    for text in (html(found), markdown(found), latex(found)):
        assert "OVRL" in text


@pytest.mark.parametrize("seed", range(10))
def test_question_orders_are_balanced_per_sound(seed: int) -> None:
    """Raters hear only some of the sounds and keep one order each; the balance holds approximately."""
    deck, load, rng = UnitTable(kind_of("p835").assign(stock(6, 3), P835)), AssignmentCounts(), Random(seed)
    orders = kind_of("p835").orders
    while assigned := assign_units(deck, load, 8, 6, rng):
        choose_question_order(orders, assigned, load, rng)
    apart = [load.question_orders[key, SIG] - load.question_orders[key, BAK] for key in deck.keys]
    assert all(load.question_orders[key, SIG] + load.question_orders[key, BAK] == 8 for key in deck.keys)
    assert float(np.abs(apart).mean()) < 1.5  # random assignment would give 2.2
    assert abs(sum(apart)) <= 12  # two raters of 24


@SQLITE_ONLY
def test_sound_is_played_for_every_scale(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "p835", trials_per_sitting=2)
    rater_session = world.begin("hasty", "p835")
    shown = rater_session.next()
    with pytest.raises(BadAnswer, match="3 times"):
        world.listening.answer(rater_session.rater_id, three(shown, 3, 3, 3, heard_ms=1400.0)).result(30)
    assert world.listening.answer(rater_session.rater_id, three(shown, 3, 3, 3)).result(30).counted


@SQLITE_ONLY
def test_gold_has_a_score_per_scale(world: World) -> None:
    """Within one step on each; a scale without a score accepts anything."""
    config = replace(P835, gates=Gates(level=False, golds=1), trials_per_sitting=1, raters_per_stimulus=9)
    gold = ItemSpec("gold", "The gold sentence.", "gold", "SIG=5;BAK=1")
    world.campaign(config, items=[ItemSpec("item", "The sentence.", "test"), gold])
    for who, marks in (("right", (4, 2, 5)), ("wrong", (5, 3, 3))):
        rater_session = world.begin(who)
        while (shown := rater_session.next())["stage"] == "trials":
            world.listening.answer(rater_session.rater_id, three(shown, *marks)).result(30)
    assert [j.verdicts["golds"] for j in world.read(rater_verdicts)] == ["ok", "fail"]


def test_manifest_takes_scores_by_scale(tmp_path: Path) -> None:
    import soundfile as sf

    for name in ("a", "g"):
        sf.write(tmp_path / f"{name}.wav", np.sin(np.arange(RATE_HZ)), RATE_HZ)
    lines = ["system,item,file,text,role,expected", "x,a,a.wav,A.,test,", "x,g,g.wav,G.,gold,SIG=5;BAK=1"]
    (tmp_path / "m.csv").write_text("\n".join(lines), encoding="utf-8")
    assert read_manifest(tmp_path / "m.csv").items[1].expected == "SIG=5;BAK=1"
    (tmp_path / "m.csv").write_text("\n".join(lines).replace("BAK=1", "BAK=loud"), encoding="utf-8")
    with pytest.raises(BadFile, match="expected answer"):
        read_manifest(tmp_path / "m.csv")
