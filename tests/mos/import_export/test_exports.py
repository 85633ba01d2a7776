"""Exports hold every rating as given and nothing that identifies a rater; deletion leaves nothing."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import CHECKED, MOS, NASTY, PAIRS, campaign, given, rate
from mos.world import AB, ACR, SQLITE_ONLY, World, items_of
from needs import needs
from sqlmodel import SQLModel
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.measure.tables import plain_text
from studio.mos.analysis.results import overview, results
from studio.mos.campaign.config import Gates
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.import_export.answer_files import read_votes
from studio.mos.import_export.export import DICTIONARY, export_rows, write_export
from studio.mos.import_export.rater_export import write_raters
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.erasure import delete_rater
from studio.mos.stats.elo import elo_report
from studio.mos.store.access import Forbidden
from studio.mos.store.tables import Answer, Choice, Play, Rater, Removal, Score, Slot, Stimulus, System, Trial

try:
    import pyarrow
except ImportError:
    pyarrow = None


def rows_of(world: World, name: str = "first") -> list[dict[str, Any]]:
    with world.store.read() as session:
        return list(export_rows(session, find_campaign(session, name)))


def write(world: World, path: Path, name: str = "first") -> int:
    return world.read(write_export, name, path)


def read_csv(text: str) -> list[dict[str, str]]:
    return [{k: plain_text(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(text, newline=""))]


def test_every_score_is_a_row(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(CHECKED, gates=replace(CHECKED.gates, golds=0)), checks=("trap",))
    rate(world, "PID-one", comment="fine")
    rate(world, "PID-two", screens=2)
    rows = rows_of(world)
    answers, scores = world.all(Answer), world.all(Score)
    assert len(rows) == len(scores) == 2 * len(answers)
    assert {r["role"] for r in rows} == {"test", "trap"}
    kept = {(s.question, s.slot, s.value, a.trial_id) for a in answers for s in scores if s.answer_id == a.id}
    assert {(r["question"], r["slot"], r["score"], r["trial"]) for r in rows} == kept
    assert all(list(r) == [c.name for c in DICTIONARY] for r in rows)
    assert {(r["plays"], r["heard_ms"], r["low"], r["high"], r["outcome"]) for r in rows} == {(1, 500.0, 1, 5, None)}
    assert len({r["rater"] for r in rows}) == 2


def test_choice_names_its_systems_in_screen_order(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAIRS)
    rater_session = world.begin("one")
    rng, sent = Random(1), {}
    while (shown := rater_session.next())["stage"] == "trials":
        answer = given(shown, rng)
        sent[answer.trial] = answer.choices[0].outcome
        world.listening.answer(rater_session.rater_id, answer).result(30)
    rows = rows_of(world)
    assert {r["trial"]: r["outcome"] for r in rows} == sent
    with world.store.read() as session:
        for row in rows:
            slots = {s.slot: s.stimulus_id for s in session.exec(Slot.__table__.select()) if s.trial_id == row["trial"]}
            named = [session.get(System, session.get(Stimulus, slots[k]).system_id).name for k in (0, 1)]
            assert [row["system_a"], row["system_b"]] == named
    assert {(r["plays"], r["heard_ms"]) for r in rows} == {(3, 1001.0)}  # of both sounds


@SQLITE_ONLY
def test_second_attempt_is_exported_as_not_counted(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rater_session = world.join("one")
    shown = rater_session.to_trials()
    for seed in (1, 2):
        world.listening.answer(rater_session.rater_id, given(shown, Random(seed), comment=str(seed))).result(30)
    assert [(r["attempt"], r["counted"], r["comment"]) for r in rows_of(world)] == [(1, True, "1")] * 2 + [
        (2, False, "2")
    ] * 2


@SQLITE_ONLY
def test_previews_are_not_exported(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rater_session = world.join("looker", role="preview")
    shown = rater_session.to_trials()
    world.listening.answer(rater_session.rater_id, given(shown, Random(0))).result(30)
    assert rows_of(world) == []


@SQLITE_ONLY
def test_csv_round_trips_and_runs_no_formula(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "PID-one", comment=NASTY)
    rows = rows_of(world)
    assert write(world, tmp_path / "answers.csv") == len(rows)
    text = (tmp_path / "answers.csv").read_bytes().decode("utf-8")
    shown = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert read_csv(text) == shown
    assert rows[0]["comment"] == NASTY
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in row)


@SQLITE_ONLY
def test_json_includes_its_dictionary(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "PID-one", comment=NASTY)
    write(world, tmp_path / "answers.json")
    whole = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert whole["rows"] == rows_of(world)
    assert [c["name"] for c in whole["dictionary"]] == list(whole["rows"][0])
    assert all(c["meaning"] for c in whole["dictionary"])
    assert [s["name"] for s in whole["systems"]] == ["heron", "osprey", "teal"]
    assert whole["comments"] == [{"rater": whole["rows"][0]["rater"], "comment": f"{NASTY} at the end"}]
    assert "completion" not in whole["campaign"]["config"]
    assert "1280x720" not in json.dumps(whole)  # device columns


@SQLITE_ONLY
def test_export_identifies_no_rater(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rater_session = rate(world, "PID-secret", screens=3)
    for kind in ("csv", "json"):
        write(world, tmp_path / f"answers.{kind}")
        text = (tmp_path / f"answers.{kind}").read_text(encoding="utf-8")
        for secret in ("PID-secret", rater_session.row().identity, "1280x720"):
            assert secret not in text


@SQLITE_ONLY
def test_parquet_round_trips(world: World, tmp_path: Path) -> None:
    needs(pyarrow, "the package pyarrow")
    import pyarrow.parquet as pq

    campaign(world, tmp_path, PAIRS)
    rate(world, "one", comment=NASTY)
    write(world, tmp_path / "answers.parquet")
    table = pq.read_table(tmp_path / "answers.parquet")
    assert table.to_pylist() == rows_of(world)
    assert table.schema.field("heard_ms").metadata[b"meaning"]


@SQLITE_ONLY
def test_parquet_without_its_package_is_refused(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign(world, tmp_path, MOS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NeedsPackage, match="pyarrow"):
        write(world, tmp_path / "answers.parquet")


@SQLITE_ONLY
def test_other_formats_are_refused(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    with pytest.raises(BadOption, match=r"\.csv, \.json or \.parquet"):
        write(world, tmp_path / "answers.xls")
    with pytest.raises(BadFile, match="cannot be written"):
        write(world, tmp_path / "nowhere" / "answers.csv")


def test_erased_rater_leaves_no_trace(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAIRS)
    rate(world, "PID-stays")
    stays = rows_of(world)
    rater_session = rate(world, "PID-goes", comment="a telling comment")
    gone = rater_session.row()
    trials = {t.id for t in world.all(Trial) if t.rater_id == gone.id}
    before = overview_of(world)["answers"]
    removed, _ = world.store.write_now(
        lambda session: delete_rater(session, find_campaign(session, "first"), gone.pseudonym)
    )
    assert removed == len(trials) == 9
    assert [(r.pseudonym, r.answers) for r in world.all(Removal)] == [(gone.pseudonym, 9)]
    left = json.dumps([row.model_dump() for table in every_table() if table is not Removal for row in world.all(table)])
    for trace in ("PID-goes", gone.identity, gone.pseudonym, "a telling comment", *trials):
        assert trace not in left
    answers = {a.id for a in world.all(Answer)}
    assert all(mark.answer_id in answers for table in (Score, Choice, Play) for mark in world.all(table))
    assert all(trial.rater_id != gone.id for trial in world.all(Trial))
    assert rows_of(world) == stays
    now = overview_of(world)
    assert (now["answers"], now["raters"]) == (before - 9, 1)
    assert now["forgotten"] == {"raters": 1, "answers": 9}
    with pytest.raises(Forbidden, match="not known"):
        rater_session.next()
    assert world.read(results)["tables"]["choices"]["n"] == 9


def test_screens_of_an_erased_rater_reopen(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(PAIRS, raters_per_stimulus=1))
    gone = rate(world, "goes").row()
    assert world.join("waits").to_trials()["stage"] == "full"
    world.store.write_now(lambda session: delete_rater(session, find_campaign(session, "first"), gone.pseudonym))
    assert world.join("comes").to_trials()["stage"] == "trials"


@SQLITE_ONLY
def test_erasing_a_preview_counts_nothing(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    looker = world.join("looker", role="preview").agree().row()
    world.store.write_now(lambda session: delete_rater(session, find_campaign(session, "first"), looker.pseudonym))
    assert world.all(Removal) == world.all(Rater) == []


@SQLITE_ONLY
def test_unknown_pseudonym_is_refused(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    campaign(world, tmp_path / "b", MOS, "second")
    other = rate(world, "one", "second", screens=1).row().pseudonym
    for pseudonym in ("nobody", other):
        with pytest.raises(BadOption, match="'first' has no rater"):
            world.store.write_now(
                lambda session, p=pseudonym: delete_rater(session, find_campaign(session, "first"), p)
            )
    assert len(world.all(Rater)) == 1


def overview_of(world: World) -> dict[str, Any]:
    return world.read(overview)


def every_table() -> list[Any]:
    return [t for t in SQLModel.__subclasses__() if hasattr(t, "__table__")]


SCREENING = [ScreeningQuestion("native", "Is English your first language?", ["yes", "no"], ["yes"])]
CONFIG = replace(ACR, gates=Gates(level=False, headphones="woods", screening=SCREENING, min_variance=0.1))


def test_lab_export_has_screening_device_comments_and_gates(world: World, tmp_path: Path) -> None:
    world.campaign(CONFIG)
    good, foreign = world.join("PID-good").agree(), world.join("PID-foreign").agree()
    world.join("PID-visitor")
    world.join("PID-looker", role="preview").agree()
    foreign.send("screening", answers={"native": "no"})
    good.send("screening", answers={"native": "yes"})
    good.send("instructions")
    good.send("headphones", answers=good.headphones("woods", wrong=6))
    for _ in good.trials():
        pass
    good.send("comments", comment=NASTY)
    names = [good.row().pseudonym, foreign.row().pseudonym]

    def write(ending: str) -> Path:
        assert world.read(write_raters, "first", tmp_path / f"raters.{ending}") == 2
        return tmp_path / f"raters.{ending}"

    whole = json.loads(write("json").read_text(encoding="utf-8"))
    one, other = whole["rows"]
    assert [c["name"] for c in whole["dictionary"]] == list(one) == list(other)
    assert [one["rater"], other["rater"]] == names
    expected = {"screening_native": "yes", "device_screen": "1280x720", "comment": NASTY, "stage": "done", "answers": 4}
    gates = {"gate_headphones": "fail", "gate_variance": "fail", "gate_traps": "unknown", "headphone_tries": 1}
    for name, value in (expected | gates | {"accept": "ok", "use": "fail", "consent_version": 3}).items():
        assert one[name] == value, name
    assert one["finished_at"] >= one["joined_at"]
    assert (other["screening_native"], other["stage"], other["finished_at"]) == ("no", "screened_out", None)
    text = write("csv").read_text(encoding="utf-8")
    with (tmp_path / "raters.csv").open(newline="", encoding="utf-8") as file:
        assert [plain_text(row["comment"]) for row in csv.DictReader(file)] == [NASTY, ""]
    assert "PID-" not in text + json.dumps(whole)
    with world.store.read() as session, pytest.raises(BadOption, match="no kind that is known"):
        write_raters(session, find_campaign(session, "first"), tmp_path / "raters.txt")


def complete_rater(world: World, who: str, outcomes: Iterator[str]) -> None:
    rater_session = world.begin(who)
    while (shown := rater_session.next())["stage"] == "trials":
        rater_session.answer(shown, next(outcomes))
    rater_session.send("comments", comment="none")


@SQLITE_ONLY
def test_elo_of_an_export_counts_what_the_analysis_counts(world: World, tmp_path: Path) -> None:
    """Repeats, practice and a gated-out rater once counted as votes: 96 instead of the report's 42."""
    gates = replace(AB.gates, training=1, max_repeat_distance=0.25)
    config = replace(AB, repeats=2, gates=gates, raters_per_stimulus=9)
    world.campaign(config, items=[*items_of(4), *items_of(1, "training")])
    for who, outcomes in (("steady", "a"), ("another", "a"), ("third", "b")):
        complete_rater(world, who, cycle(outcomes))
    complete_rater(
        world, "fickle", chain("aaaaa", cycle("b"))
    )  # practice and four screens, then repeats of two of them
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        found = results(session, campaign)
        write_export(session, campaign, tmp_path / "votes.csv")
    table = found["tables"]["choices"]
    votes, left_out = read_votes(tmp_path / "votes.csv")
    assert found["left_out"] == 1 and table["n"] == len(votes) == 12
    assert left_out == {"answers to practice": 4, "answers to repeats": 8, "answers of raters that a gate excludes": 4}
    assert elo_report(votes)["systems"] == table["elo"]["gamma"]["systems"]
    assert elo_report(votes)["items"] == 4
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "votes.csv")])
    assert said.exit_code == 0, said.output
    assert "12 votes, 3 raters, 4 scripts, interval: by rater and script" in said.output
    assert "8 rows left out: answers to repeats" in said.output and "differences" in said.output


def test_undefeated_system_has_a_bound_and_no_difference_from_the_prior(tmp_path: Path) -> None:
    """It was printed as ``x - y 597 above -291`` where the report has a dash."""
    rows = [f"x,y,a,r{r},i{i}" for r in range(6) for i in range(2)]
    (tmp_path / "v.csv").write_text("\n".join(["a,b,outcome,rater,item", *rows]), encoding="utf-8")
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "v.csv")])
    [line] = [line for line in said.output.splitlines() if line.startswith("x - y")]
    assert line.split()[3:] == ["\N{EN DASH}", "above", "\N{MINUS SIGN}291", "0.500"]
