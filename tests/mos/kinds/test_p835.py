"""P.835 from a folder of sounds to its tables: three scales of one sound, asked in an order that is balanced."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from mos.kinds.test_kinds import P835, stock
from mos.recommended import begin, campaign, results_of, screens
from mos.world import RATE_HZ, World

from studio.core.errors import BadFile
from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import Gates
from studio.mos.campaign.design import AssignmentCounts, UnitTable, assign_units, choose_question_order
from studio.mos.campaign.manifest import ItemSpec
from studio.mos.import_export.export_answers import export_rows
from studio.mos.kinds.base import BadAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.report.formats import html, latex, markdown
from studio.mos.report.tables import detail_tables
from studio.mos.sessions.assignment import count_assignments
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables.answers import AnswerCreate, PlayCreate, ScoreCreate
from studio.mos.store.tables.trials import Trial

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
SIG, BAK = "SIG BAK OVRL", "BAK SIG OVRL"


def three(shown: dict, sig: int, bak: int, ovrl: int, heard_ms: float = 2000.0) -> AnswerCreate:
    values = zip(("SIG", "BAK", "OVRL"), (sig, bak, ovrl), strict=True)
    return AnswerCreate(
        trial=shown["trial"]["trial"],
        scores=[ScoreCreate(question=q, slot=0, value=v) for q, v in values],
        plays=[PlayCreate(slot=0, plays=3, heard_ms=heard_ms)],
    )


def test_three_scales_with_intervals_and_the_order_beside(world: World, tmp_path: Path) -> None:
    """Whoever judges the background first puts the signal one lower; both orders are as often on every sound."""
    campaign(world, tmp_path, "p835", raters_per_stimulus=4, trials_per_sitting=12)
    for who in range(4):
        rater_session = begin(world, f"rater {who}", "p835")
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
        assert {a.asked for a in load_answers(session, row.id or 0)} == {tuple(SIG.split()), tuple(BAK.split())}
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
def test_each_order_has_as_many_raters_of_every_sound(seed: int) -> None:
    """Raters who do not hear everything, and keep to one order each: nearly as often on every sound."""
    deck, load, rng = UnitTable(kind_of("p835").assign(stock(6, 3), P835)), AssignmentCounts(), Random(seed)
    orders = kind_of("p835").question_orders(P835)
    while dealt := assign_units(deck, load, 8, 6, rng):
        choose_question_order(orders, dealt, load, rng)
    apart = [load.question_orders[key, SIG] - load.question_orders[key, BAK] for key in deck.keys]
    assert all(load.question_orders[key, SIG] + load.question_orders[key, BAK] == 8 for key in deck.keys)
    assert float(np.abs(apart).mean()) < 1.5  # by lot it would be 2.2
    assert abs(sum(apart)) <= 12  # two raters of 24


@LITE
def test_the_sound_is_heard_for_every_scale(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "p835", trials_per_sitting=2)
    rater_session = begin(world, "hasty", "p835")
    shown = rater_session.next()
    with pytest.raises(BadAnswer, match="3 times"):
        world.listening.answer(rater_session.rater_id, three(shown, 3, 3, 3, heard_ms=1400.0)).result(30)
    assert world.listening.answer(rater_session.rater_id, three(shown, 3, 3, 3)).result(30).counted


@LITE
def test_a_gold_has_a_score_of_its_own_on_each_scale(world: World) -> None:
    """Within one of each; of a scale that is not named anything is right."""
    config = replace(P835, gates=Gates(level=False, golds=1), trials_per_sitting=1, raters_per_stimulus=9)
    gold = ItemSpec("gold", "The gold sentence.", "gold", "SIG=5;BAK=1")
    world.campaign(config, items=[ItemSpec("item", "The sentence.", "test"), gold])
    for who, marks in (("right", (4, 2, 5)), ("wrong", (5, 3, 3))):
        rater_session = world.join(who)
        rater_session.to_trials()
        while (shown := rater_session.next())["stage"] == "trials":
            world.listening.answer(rater_session.rater_id, three(shown, *marks)).result(30)
    with world.store.read() as session:
        assert [j.verdicts["golds"] for j in rater_verdicts(session, find_campaign(session, "first"))] == ["ok", "fail"]


def test_a_manifest_takes_scores_by_scale(tmp_path: Path) -> None:
    import soundfile as sf

    for name in ("a", "g"):
        sf.write(tmp_path / f"{name}.wav", np.sin(np.arange(RATE_HZ)), RATE_HZ)
    lines = ["system,item,file,text,role,expected", "x,a,a.wav,A.,test,", "x,g,g.wav,G.,gold,SIG=5;BAK=1"]
    (tmp_path / "m.csv").write_text("\n".join(lines), encoding="utf-8")
    assert read_manifest(tmp_path / "m.csv").items[1].expected == "SIG=5;BAK=1"
    (tmp_path / "m.csv").write_text("\n".join(lines).replace("BAK=1", "BAK=loud"), encoding="utf-8")
    with pytest.raises(BadFile, match="expected answer"):
        read_manifest(tmp_path / "m.csv")
