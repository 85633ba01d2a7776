"""Exports of the studio read back: the tables of the campaign, digit for digit, from both databases."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import CHECKED, PAGE, PAIRS, rate
from mos.rated import campaign as rated_campaign
from mos.recommended import campaign, results_of, screens, send, systems_of
from mos.world import AB, NATURAL, RaterSession, World, items_of

from studio.mos.campaign.config import Arena
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.import_export.answer_files import FileOptions, file_results, read_answers
from studio.mos.import_export.export import write_export
from studio.mos.report.page import html
from studio.mos.report.tables import latex, markdown
from studio.mos.sessions.takes import FinishedTake, Keystroke, Typing
from studio.mos.store.tables import AnswerCreate, ChoiceCreate, PlayCreate, ScoreCreate

LIVE = replace(AB, kind="live", questions=[NATURAL], trials_per_sitting=4)
ARENA = replace(AB, kind="arena", choices=["a", "b", "tie", "both_bad"], arena=Arena(per_day=100, per_pair=100))
NAMES = ("zebrafinch", "nightjar", "teal")
VOICES = tuple(SystemSpec(name, voice={"voice": "tone", "speaker": name}) for name in NAMES)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def check_round_trip(world: World, name: str, folder: Path) -> None:
    """CSV and JSON exports give the tables of the campaign, digit for digit; so do the report's tables."""
    found = results_of(world, name)
    for suffix in (".csv", ".json"):
        path = folder / f"export{suffix}"
        world.read(write_export, name, path)
        again = file_results(read_answers(path))
        for part in ("tables", "second_opinion"):
            assert as_json(again[part]) == as_json(found[part]), (suffix, part)
        assert (again["kind"], again["seed"], again["name"]) == (found["kind"], found["seed"], name)
        assert {q["id"] for q in again["questions"]} == {q["id"] for q in found["questions"]}
        assert again["answers"] == sum(1 for _ in read_answers(path).answers)
        for form in (html, latex, markdown):
            assert len(form(again)) > 500


@pytest.mark.parametrize(
    ("config", "checks"),
    [
        (replace(CHECKED, repeats=1, gates=replace(CHECKED.gates, golds=0)), ("trap",)),
        (PAIRS, ()),
        (PAGE, ()),
    ],
)
def test_exports_read_back_give_the_same_tables(world: World, tmp_path: Path, config: Any, checks: Any) -> None:
    rated_campaign(world, tmp_path, config, checks=checks)
    for who, check in (
        ("one", 3),
        ("two", 3),
        ("three", 3),
        ("four", 1),
    ):  # the last one fails the trap, if there is one
        rate(world, who, comment='=a;"b"', check=check)
    check_round_trip(world, "first", tmp_path)


@pytest.mark.parametrize("name", ["ccr", "dcr", "p835", "abx", "mushra"])
def test_exports_of_recommended_tests_read_back_give_the_same_tables(world: World, tmp_path: Path, name: str) -> None:
    campaign(world, tmp_path, name, raters_per_stimulus=8)
    for who in range(4):
        rater_session, rng = world.begin(f"rater {who}", name), Random(who)
        for shown in screens(rater_session):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            rated = list(by_slot) if name != "ccr" else [1]
            question = (shown["screen"]["questions"] or [{"low": 0, "high": 0}])[0]
            tally = {slot: rng.randint(question["low"], question["high"]) for slot in rated}
            if name == "mushra":  # the first rater misses every hidden reference
                tally = {s: 100 if by_slot[s] == "reference" and who else value // 2 for s, value in tally.items()}
            choice, heard = rng.choice("ab") if name == "abx" else None, dict.fromkeys(range(8), 3000.0)
            send(world, rater_session, shown, {} if choice else tally, choice, heard)
    check_round_trip(world, name, tmp_path)
    if name == "mushra":
        rows = list(csv.DictReader((tmp_path / "export.csv").open(encoding="utf-8")))
        [excluded] = results_of(world, name)["tables"]["post_screen"]["excluded"]
        assert {r["rater"]: r["post_screen"] for r in rows if r["post_screen"]} == {excluded["rater"]: "reference"}
        assert excluded["low_share"] == 1.0 and excluded["rater"] in markdown(results_of(world, name))


def typed_and_judged(rater: RaterSession, shown: dict[str, Any], rng: Random, texts: list[str]) -> None:
    """Both takes of a live screen with latencies of many digits, and an answer."""
    trial, listening = shown["trial"]["trial"], rater.world.listening
    typing = Typing([Keystroke(0.0, 0, 0, rng.choice(texts))], 400.0)
    for slot in (0, 1):
        latency_ms = None if rng.random() < 0.1 else rng.uniform(80, 700)
        made = FinishedTake(trial, slot, typing, 24_000, 24_000, latency_ms, late_ms=rng.uniform(0, 9))
        listening.store_take(rater.rater_id, made, f"{trial}{slot}".encode()).result(30)
    questions = [q["id"] for q in shown["screen"]["questions"]]
    answer = AnswerCreate(
        trial=trial,
        scores=[ScoreCreate(question=q, slot=s, value=rng.randint(1, 5)) for q in questions for s in (0, 1)],
        choices=[ChoiceCreate(question="preference", outcome=rng.choice(("a", "b", "tie")))],
        plays=[PlayCreate(slot=slot, plays=1, heard_ms=1000.0) for slot in (0, 1)],
    )
    listening.answer(rater.rater_id, answer).result(30)


@pytest.mark.parametrize("config", [LIVE, ARENA], ids=lambda config: config.kind)
def test_exports_of_live_tests_read_back_give_the_same_tables(world: World, tmp_path: Path, config: Any) -> None:
    world.campaign(config, "typed", VOICES, items_of(4))
    for who in range(4):
        rater, rng = world.begin(f"rater {who}", "typed"), Random(who)
        texts = ["Hello there", "hello  THERE ", "Rain again", f"Only {who}"]
        for shown, _ in zip(screens(rater), range(6), strict=False):
            typed_and_judged(rater, shown, rng, texts)
    check_round_trip(world, "typed", tmp_path)
    assert results_of(world, "typed")["tables"]["latency"]["n"] > 0


def test_an_export_that_was_sorted_or_saved_by_a_data_frame_gives_the_same_tables(world: World, tmp_path: Path) -> None:
    rated_campaign(world, tmp_path, PAGE)
    for name in ("one", "two", "three"):
        rate(world, name)
    world.read(write_export, "first", tmp_path / "a.csv")
    want = markdown(file_results(read_answers(tmp_path / "a.csv"))).splitlines()[1:]
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    rows.sort(key=lambda row: row["system"])  # rows of a trial apart
    numbers = ("slot", "score", "low", "high", "seed", "position", "attempt")
    as_floats = [{k: float(v) if k in numbers else v or float("nan") for k, v in row.items()} for row in rows]
    (tmp_path / "b.json").write_text(json.dumps(as_floats), encoding="utf-8")
    assert markdown(file_results(read_answers(tmp_path / "b.json"))).splitlines()[1:] == want
    system = read_answers(tmp_path / "a.csv").systems[0]  # a baseline is the reader's choice, of an export, too
    assert read_answers(tmp_path / "a.csv", FileOptions(baseline=system)).config.baseline == system
