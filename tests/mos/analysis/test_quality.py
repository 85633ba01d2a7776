"""Verdicts: a gate that did not run excludes nobody; and the panel's file."""

import csv
import io
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import CHECKED, MOS, PAIRS, campaign, given, rate
from mos.world import World

from studio.mos.analysis.quality import RaterVerdicts, gate_counts, panel_csv, rater_verdicts, store_decisions
from studio.mos.campaign.config import Gates
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.store.tables import ChoiceCreate, Rater, Slot, Stimulus, System

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def judged(world: World) -> list[RaterVerdicts]:
    with world.store.read() as session:
        return rater_verdicts(session, find_campaign(session, "first"))


@pytest.mark.parametrize(("score", "trap", "gold"), [(3, "ok", "ok"), (4, "fail", "ok"), (5, "fail", "fail")])
@LITE
def test_a_trap_is_met_to_the_point_and_a_gold_within_one(
    world: World, tmp_path: Path, score: int, trap: str, gold: str
) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    rate(world, "one", check=score)
    [found] = judged(world)
    assert (found.verdicts["traps"], found.verdicts["golds"]) == (trap, gold)
    assert found.accept == trap  # pay by the attention check alone
    assert found.use == ("ok" if (trap, gold) == ("ok", "ok") else "fail")


def test_what_was_not_judged_excludes_nobody(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "done")
    rate(world, "busy", screens=1)
    done, busy = judged(world)
    assert set(done.verdicts.values()) == {"unknown"}
    assert (done.accept, done.use) == ("ok", "unknown")
    assert (busy.accept, busy.use) == ("unknown", "unknown")
    settled = world.store.write_now(lambda session: store_decisions(session, find_campaign(session, "first")))
    assert [j.use for j in settled] == ["unknown", "unknown"]
    assert sorted((r.id, r.accept, r.use) for r in world.all(Rater)) == [
        (1, "ok", "unknown"),
        (2, "unknown", "unknown"),
    ]


def test_ratings_that_never_vary_are_not_used_and_yet_paid(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(MOS, gates=Gates(level=False, min_variance=0.1)))
    flat = world.join("flat")
    flat.to_trials()
    flat.finish(value=4)
    rate(world, "busy", screens=3)
    found, busy = judged(world)
    assert (found.verdicts["variance"], found.accept, found.use) == ("fail", "ok", "fail")
    assert busy.verdicts["variance"] == "unknown"  # not before all their ratings are there


@pytest.mark.parametrize(("waits_s", "verdict"), [(0.0, "fail"), (0.5, "ok")])
def test_who_answers_sooner_than_the_sounds_last_is_not_analysed(
    world: World, tmp_path: Path, waits_s: float, verdict: str
) -> None:
    campaign(world, tmp_path, replace(MOS, gates=Gates(level=False, pace=True)))
    rater = world.join("quick")
    rater.to_trials()
    for _ in range(2):
        shown = rater.next()
        time.sleep(waits_s)
        rater.answer(shown)  # and says that half a second of sound was heard
    [found] = judged(world)
    assert (found.verdicts["pace"], found.use) == (verdict, verdict)


@LITE
@pytest.mark.parametrize(
    ("required", "wrong", "verdict", "use"),
    [(True, 0, "ok", "ok"), (True, 6, "fail", "fail"), (False, 0, "ok", "unknown"), (False, 6, "fail", "unknown")],
)
def test_headphones_are_always_reported_and_exclude_only_if_required(
    world: World, tmp_path: Path, required: bool, wrong: int, verdict: str, use: str
) -> None:
    """Six tones that everybody has to sit through are worth nothing when what came of them is thrown away."""
    gate = Gates(level=False, headphones="woods", headphones_required=required)
    campaign(world, tmp_path, replace(MOS, gates=gate))
    rater_session = world.join("one")
    rater_session.to_trials()
    rater_session.send("headphones", answers=rater_session.headphones("woods", wrong))
    with world.store.read() as session:
        found = find_campaign(session, "first")
        assert gate_counts(rater_verdicts(session, found))["all"]["headphones"] == {verdict: 1}
    [one] = judged(world)
    assert (one.verdicts["headphones"], one.use) == (verdict, use)


@LITE
def test_a_check_that_could_not_be_played_is_unknown(world: World, tmp_path: Path) -> None:
    gate = Gates(level=False, headphones="woods", headphones_required=True)
    campaign(world, tmp_path, replace(MOS, gates=gate))
    rater_session = world.join("one")
    rater_session.to_trials()
    assert rater_session.send("headphones", error="no sound device")["stage"] == "trials"
    assert judged(world)[0].verdicts["headphones"] == "unknown"


@LITE
def test_a_gold_pair_is_right_by_the_systems_name(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(PAIRS, gates=Gates(level=False, golds=1)), checks=("gold",))
    named = "UPDATE item SET expected = 'heron' WHERE role = 'gold'"
    world.store.write_now(lambda session: session.connection().exec_driver_sql(named).rowcount)
    right: dict[str, bool] = {}
    for who in map(str, range(6)):
        rater_session = world.join(who)
        rater_session.to_trials()
        while (shown := rater_session.next())["stage"] == "trials":
            answer = given(shown, Random(who))
            if "gold" in shown["trial"]["text"]:
                with world.store.read() as session:
                    slots = [session.get(Slot, (answer.trial, k)) for k in (0, 1)]
                    names = [session.get(System, session.get(Stimulus, s.stimulus_id).system_id).name for s in slots]
                answer.choices = [ChoiceCreate(question="preference", outcome="a")]
                right[rater_session.row().pseudonym] = names[0] == "heron"
            world.listening.answer(rater_session.rater_id, answer).result(30)
    found = {j.pseudonym: j.verdicts["golds"] for j in judged(world)}
    assert found == {name: "ok" if good else "fail" for name, good in right.items()}
    assert set(right.values()) == {True, False}


def test_gates_are_counted_in_all_and_by_day(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    rate(world, "good")
    rate(world, "bad", check=5)
    back = "UPDATE rater SET joined_at = joined_at - 86400 WHERE id = (SELECT min(id) FROM rater)"
    world.store.write_now(lambda session: session.connection().exec_driver_sql(back).rowcount)
    with world.store.read() as session:
        found = gate_counts(rater_verdicts(session, find_campaign(session, "first")))
    assert found["all"]["traps"] == {"ok": 1, "fail": 1}
    days = list(found["by_day"].values())
    assert [d["traps"] for d in days] == [{"ok": 1}, {"fail": 1}]
    assert [d["use"] for d in days] == [{"ok": 1}, {"fail": 1}]


def panel(world: World) -> list[dict[str, Any]]:
    with world.store.read() as session:
        return list(csv.DictReader(io.StringIO(panel_csv(session, find_campaign(session, "first")))))


@LITE
def test_the_panels_file_accepts_and_rejects_and_waits(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(CHECKED, gates=replace(CHECKED.gates, golds=0)), checks=("trap",))
    rate(world, "good")
    rate(world, "=bad()", check=5)
    rate(world, "busy", screens=1)
    rows = panel(world)
    assert [(r["PROLIFIC_PID"], r["decision"]) for r in rows] == [("good", "accept"), ("'=bad()", "reject")]
    assert [bool(r["reason"]) for r in rows] == [False, True]
