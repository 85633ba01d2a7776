"""One stimulus of a campaign: its ratings are the campaign's own, its predictions are separate."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakepredictor import FakePredictor, by_pitch
from mos.rated import CHECKED, MOS, PAIRS, campaign, given, rate
from mos.world import World

from studio.core.errors import BadOption
from studio.mos.analysis.predicted import predict_clips, unpredicted
from studio.mos.analysis.rated_sound import rated_sound, systems_by_script
from studio.mos.analysis.results import results
from studio.mos.campaign.config import Question
from studio.mos.sessions.campaigns import find_campaign

CCR = replace(MOS, kind="ccr", questions=[Question("overall", "How does the second compare?", -3, 3)])


def look(world: World, item: str = "item1", system: str = "osprey", name: str = "first") -> dict[str, Any]:
    with world.store.read() as session:
        return rated_sound(session, name, item, system)


def tables_of(world: World) -> dict[str, Any]:
    with world.store.read() as session:
        return results(session, find_campaign(session, "first"))["tables"]


def test_means_are_those_of_the_results(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    assert look(world)["questions"] == [
        {"id": q.id, "prompt": q.prompt, "low": 1, "high": 5, "n": 0, "mean": None, "counts": {}} for q in MOS.questions
    ]
    for k in range(5):
        rate(world, f"r{k}", check=5 if k == 4 else 3)  # the last one fails the trap
    stimuli = tables_of(world)["questions"]["naturalness"]["stimuli"]
    found = look(world)
    assert found["left_out"] == 1
    [wanted] = [one for one in stimuli if (one["item"], one["system"]) == ("item1", "osprey")]
    told = found["questions"][0]
    assert told["mean"] == {name: wanted[name] for name in ("mean", "low", "high", "n", "raters", "method")}
    assert sum(told["counts"].values()) == told["n"] > 0
    assert sum(int(value) * count for value, count in told["counts"].items()) / told["n"] == pytest.approx(
        wanted["mean"]
    )
    trap = look(world, "trap1")
    assert trap["script"]["role"] == "trap"
    assert set(trap["questions"][0]["counts"]) <= {"3"}, "of who passed it"


def test_a_prediction_stands_apart(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "r")
    before = look(world)
    assert before["predicted"] == []
    predictor = FakePredictor(by_pitch)
    with world.store.read() as session:
        wanted = unpredicted(session, "first", predictor.about["sha256"])
    predict_clips(world.store, world.listening.clips, wanted, predictor, lambda: None)
    after = look(world)
    assert [one["predictor"] for one in after["predicted"]] == ["Fake"]
    assert after == before | {"predicted": after["predicted"]}


def test_who_won_does_not_depend_on_the_side(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAIRS)
    for k in range(6):
        rate(world, f"r{k}")
    osprey = {one["against"]: one for one in look(world)["preferences"]}
    heron = {one["against"]: one for one in look(world, system="heron")["preferences"]}
    mine, theirs = osprey["heron"], heron["osprey"]
    assert (mine["won"], mine["lost"], mine["n"]) == (theirs["lost"], theirs["won"], theirs["n"])
    assert mine["share"] == pytest.approx(1.0 - theirs["share"]) and mine["n"] > 0
    if mine["low"] is not None:
        assert mine["low"] == pytest.approx(1.0 - theirs["high"])


def test_comparisons_are_turned_to_the_sound_that_is_looked_at(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CCR)
    for k in range(6):
        rater_session = world.join(f"r{k}", "first")
        rater_session.to_trials()
        while (shown := rater_session.next())["stage"] == "trials":
            answer = given(shown, Random(f"{k} {shown['trial']['trial']}"))
            world.listening.answer(
                rater_session.rater_id, answer.model_copy(update={"scores": answer.scores[1:]})
            ).result(30)
    mine = {one["against"]: one for one in look(world)["comparisons"]}["heron"]
    theirs = {one["against"]: one for one in look(world, system="heron")["comparisons"]}["osprey"]
    assert mine["n"] == theirs["n"] > 0
    assert mine["mean"] == pytest.approx(-theirs["mean"])
    assert (mine["better"], mine["same"], mine["worse"]) == (theirs["worse"], theirs["same"], theirs["better"])


def test_missing_stimuli_are_refused(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    with world.store.read() as session:
        assert systems_by_script(session, find_campaign(session, "first"))["item0"] == ["heron", "osprey", "teal"]
    for asked in ({"item": "item9"}, {"system": "wren"}, {"name": "second"}):
        with pytest.raises(BadOption):
            look(world, **asked)
