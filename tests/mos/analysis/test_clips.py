"""Predicted MOS is stored per clip address, shown beside the ratings, never part of them; details of one stimulus."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakepredictor import FakePredictor, by_pitch
from mos.rated import CHECKED, MOS, PAIRS, a_world, campaign, given, rate
from mos.world import AB, ACR, World, items_of
from sqlalchemy.exc import DBAPIError

from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.clips import predict_clips, rated_sound, systems_by_script, unpredicted
from studio.mos.analysis.results import ResultsCache, results
from studio.mos.campaign.config import Question
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.report.models import predicted_tables
from studio.mos.report.page import html
from studio.mos.report.tables import latex, markdown
from studio.mos.store.tables import Prediction, Stimulus
from studio.predict.distillmos import PredictorFailed

pytestmark = pytest.mark.slow


def ask(world: World, predictor: FakePredictor, name: str = "first") -> int:
    """Run `studio campaign predict`; return how many clips were predicted."""
    with world.store.read() as session:
        wanted = unpredicted(session, name, predictor.about["sha256"])
    done: list[int] = []
    predict_clips(world.store, world.listening.clips, wanted, predictor, lambda: done.append(1))
    return len(done)


def found(world: World, name: str = "first", everyone: bool = True) -> dict:
    return world.read(results, name, everyone=everyone)


def test_each_clip_is_predicted_once_and_an_interrupted_run_resumes(world: World) -> None:
    world.campaign(items=[*items_of(3), *items_of(1, "training")])
    assert found(world)["predicted"] is None
    broken = FakePredictor(by_pitch, lasts=3)
    with pytest.raises(PredictorFailed):
        ask(world, broken)
    assert len(world.all(Prediction)) == 3
    assert found(world)["predicted"] is None, "means over some of the scripts would bias a system"
    assert ask(world, FakePredictor(by_pitch)) == 5
    assert ask(world, FakePredictor(by_pitch)) == 0
    whole = found(world)["predicted"]
    assert len(world.all(Prediction)) == 8
    assert {name: one["n"] for name, one in whole["systems"].items()} == {"zebrafinch": 3, "nightjar": 3}


def test_predicted_means_cover_the_rated_scripts(world: World) -> None:
    world.campaign(items=[*items_of(3), *items_of(2, "training")])
    predictor = FakePredictor(by_pitch)
    ask(world, predictor)
    for system in ("zebrafinch", "nightjar"):
        each = [
            by_pitch(*world.listening.clips.read(world.clip(f"test{k}", system).sha)) for k in range(3)
        ]  # equal tones have equal addresses
        one = found(world)["predicted"]["systems"][system]
        assert one["mean"] == pytest.approx(sum(each) / 3)
        assert min(each) <= one["low"] <= one["mean"] <= one["high"] <= max(each)


def test_one_script_has_no_interval(world: World) -> None:
    world.campaign(items=items_of(1))
    ask(world, FakePredictor(by_pitch))
    one = found(world)["predicted"]["systems"]["nightjar"]
    assert one["low"] is None and one["high"] is None
    assert predicted_tables(found(world))[0].rows[0][2] == "\N{EN DASH}"


def test_clip_shared_by_two_campaigns_is_predicted_once(world: World) -> None:
    world.campaign()
    world.campaign(name="second")
    assert ask(world, FakePredictor(by_pitch)) == 8
    assert ask(world, FakePredictor(by_pitch), "second") == 0
    assert found(world, "second")["predicted"] == found(world)["predicted"]


def test_other_weights_predict_again_and_the_latest_are_shown(world: World) -> None:
    world.campaign()
    ask(world, FakePredictor(by_pitch))
    before = found(world)["predicted"]
    assert ask(world, FakePredictor(weights="1" * 64)) == 8
    after = found(world)["predicted"]
    assert (before["weights"], after["weights"]) == ("0" * 64, "1" * 64)
    assert after["systems"]["nightjar"]["mean"] == pytest.approx(1.5)
    assert ask(world, FakePredictor(by_pitch)) == 0, "earlier predictions are kept"


def test_weights_without_a_prediction_for_every_sound_are_not_shown(world: World) -> None:
    world.campaign()
    ask(world, FakePredictor(by_pitch))
    with pytest.raises(PredictorFailed):
        ask(world, FakePredictor(weights="1" * 64, lasts=7))
    assert found(world)["predicted"]["weights"] == "0" * 64


def test_score_off_the_scale_is_refused(world: World) -> None:
    world.campaign()
    with pytest.raises(DBAPIError):
        ask(world, FakePredictor(lambda *_: 5.5))
    with pytest.raises(DBAPIError):
        ask(world, FakePredictor(lambda *_: float("nan")))
    assert world.all(Prediction) == []


def test_bad_arguments_are_named(world: World) -> None:
    world.campaign()
    world.campaign(replace(AB, kind="live"), "typed", [SystemSpec(s, voice={"speaker": s}) for s in ("slt", "rms")])
    with world.store.read() as session, pytest.raises(BadOption, match="is a live test"):
        unpredicted(session, "typed", "0" * 64)
    with world.store.read() as session, pytest.raises(BadOption, match="no campaign"):
        unpredicted(session, "nowhere", "0" * 64)
    with world.store.read() as session:
        wanted = unpredicted(session, "first", "0" * 64)
    world.listening.clips.path(wanted[1]).unlink()
    with pytest.raises(BadFile, match="there is no file"):
        ask(world, FakePredictor(by_pitch))
    assert len(world.all(Prediction)) == 1


def test_page_shows_new_predictions(world: World) -> None:
    world.campaign()
    snapshots = ResultsCache(world.store)
    stamp, shown = snapshots.get("first")
    assert shown["predicted"] is None and snapshots.get("first")[0] == stamp
    ask(world, FakePredictor(by_pitch))
    assert snapshots.get("first")[0] != stamp
    assert snapshots.get("first")[1]["predicted"]["predictor"] == "Fake"


@pytest.fixture
def rated(tmp_path: Path) -> World:
    world = a_world(tmp_path)
    campaign(world, tmp_path / "a", CHECKED, "mos", ("trap", "gold"))
    for k in range(4):
        rate(world, f"PID-{k}", "mos")
    yield world
    world.listening.close()


def test_predictions_are_shown_beside_ratings_and_change_none(rated: World) -> None:
    before = found(rated, "mos")
    ask(rated, FakePredictor(by_pitch), "mos")
    after = found(rated, "mos")
    assert {**after, "predicted": None} == before
    (table,) = predicted_tables(after)
    assert table.caption == "Predicted by Fake, not by people"
    assert [row[0] for row in table.rows] == [s["name"] for s in after["systems"]], "in the order of the systems"
    scores = [float(row[1]) for row in table.rows]
    assert scores == sorted(scores) and scores[0] < scores[-1], "the last has the highest prediction"
    assert table.columns[4:] == ["people: naturalness", "people: coherence"]
    mean = after["tables"]["questions"]["naturalness"]["systems"]["two_way"]["heron"]["mean"]
    assert table.rows[0][4].startswith(f"{mean:.2f}")


def test_every_report_format_separates_predictions_from_ratings(rated: World) -> None:
    plain = found(rated, "mos")
    forms = (html, latex, markdown)
    assert all("redicted" not in form(plain) for form in forms)
    ask(rated, FakePredictor(by_pitch), "mos")
    for form in forms:
        report = form(found(rated, "mos"))
        assert "Predicted by Fake, not by people" in report
        assert "no system is ranked by them" in " ".join(report.split())
    assert "<h2>Predicted, not rated</h2>" in html(found(rated, "mos"))


def test_command_predicts_with_distillmos_and_resumes(tmp_path: Path) -> None:
    """DistillMOS runs in its own process and writes to the database of a data folder."""
    world = a_world(tmp_path)
    campaign(world, tmp_path / "a", replace(MOS, questions=list(ACR.questions)), "mos")
    clips = {row.clip_sha for row in world.all(Stimulus)}
    world.listening.close()

    def command(*more: str) -> subprocess.CompletedProcess[str]:
        given = ["campaign", "predict", "mos", "--data", str(tmp_path), *more]
        env = os.environ | {"COLUMNS": "200"}
        return subprocess.run([sys.executable, "-m", "studio", *given], capture_output=True, text=True, env=env)

    first = command()
    assert first.returncode == 0, first.stderr
    assert first.stdout == "mos: 9 sounds predicted by DistillMOS 0.9.1\n"
    assert command().stdout == "mos: DistillMOS 0.9.1 has judged every sound\n"
    world = a_world(tmp_path)
    said = world.all(Prediction)
    assert {one.clip_sha for one in said} == clips and all(1.0 <= one.mos <= 5.0 for one in said)
    world.listening.close()


CCR = replace(MOS, kind="ccr", questions=[Question("overall", "How does the second compare?", -3, 3)])


def stimulus_details(world: World, item: str = "item1", system: str = "osprey", name: str = "first") -> dict[str, Any]:
    with world.store.read() as session:
        return rated_sound(session, name, item, system)


def tables_of(world: World) -> dict[str, Any]:
    return world.read(results)["tables"]


def test_stimulus_means_equal_those_of_the_results(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    assert stimulus_details(world)["questions"] == [
        {"id": q.id, "prompt": q.prompt, "low": 1, "high": 5, "n": 0, "mean": None, "counts": {}} for q in MOS.questions
    ]
    for k in range(5):
        rate(world, f"r{k}", check=5 if k == 4 else 3)  # the last one fails the trap
    stimuli = tables_of(world)["questions"]["naturalness"]["stimuli"]
    found = stimulus_details(world)
    assert found["left_out"] == 1
    [wanted] = [one for one in stimuli if (one["item"], one["system"]) == ("item1", "osprey")]
    details = found["questions"][0]
    assert details["mean"] == {name: wanted[name] for name in ("mean", "low", "high", "n", "raters", "method")}
    assert sum(details["counts"].values()) == details["n"] > 0
    assert sum(int(value) * count for value, count in details["counts"].items()) / details["n"] == pytest.approx(
        wanted["mean"]
    )
    trap = stimulus_details(world, "trap1")
    assert trap["script"]["role"] == "trap"
    assert set(trap["questions"][0]["counts"]) <= {"3"}, "of raters who passed it"


def test_prediction_is_separate_from_ratings(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "r")
    before = stimulus_details(world)
    assert before["predicted"] == []
    predictor = FakePredictor(by_pitch)
    with world.store.read() as session:
        wanted = unpredicted(session, "first", predictor.about["sha256"])
    predict_clips(world.store, world.listening.clips, wanted, predictor, lambda: None)
    after = stimulus_details(world)
    assert [one["predictor"] for one in after["predicted"]] == ["Fake"]
    assert after == before | {"predicted": after["predicted"]}


def test_wins_are_independent_of_the_side(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAIRS)
    for k in range(6):
        rate(world, f"r{k}")
    osprey = {one["against"]: one for one in stimulus_details(world)["preferences"]}
    heron = {one["against"]: one for one in stimulus_details(world, system="heron")["preferences"]}
    mine, theirs = osprey["heron"], heron["osprey"]
    assert (mine["won"], mine["lost"], mine["n"]) == (theirs["lost"], theirs["won"], theirs["n"])
    assert mine["share"] == pytest.approx(1.0 - theirs["share"]) and mine["n"] > 0
    if mine["low"] is not None:
        assert mine["low"] == pytest.approx(1.0 - theirs["high"])


def test_comparisons_are_signed_for_the_shown_sound(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CCR)
    for k in range(6):
        rater_session = world.begin(f"r{k}", "first")
        while (shown := rater_session.next())["stage"] == "trials":
            answer = given(shown, Random(f"{k} {shown['trial']['trial']}"))
            world.listening.answer(
                rater_session.rater_id, answer.model_copy(update={"scores": answer.scores[1:]})
            ).result(30)
    mine = {one["against"]: one for one in stimulus_details(world)["comparisons"]}["heron"]
    theirs = {one["against"]: one for one in stimulus_details(world, system="heron")["comparisons"]}["osprey"]
    assert mine["n"] == theirs["n"] > 0
    assert mine["mean"] == pytest.approx(-theirs["mean"])
    assert (mine["better"], mine["same"], mine["worse"]) == (theirs["worse"], theirs["same"], theirs["better"])


def test_missing_stimuli_are_refused(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    assert world.read(systems_by_script)["item0"] == ["heron", "osprey", "teal"]
    for asked in ({"item": "item9"}, {"system": "wren"}, {"name": "second"}):
        with pytest.raises(BadOption):
            stimulus_details(world, **asked)
