"""Gate verdicts: a gate that did not run excludes no rater; the panel's payment file."""

import csv
import io
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from mos.rated import CHECKED, MOS, PAIRS, SYSTEMS, campaign, given, rate, write_sounds
from mos.world import SQLITE_ONLY, World

from studio.mos.analysis.panel_file import panel_csv
from studio.mos.analysis.quality import RaterVerdicts, gate_counts, rater_verdicts, side_verdict, store_decisions
from studio.mos.campaign.config import Gates
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables import ChoiceCreate, Rater, Slot, Stimulus, System


def judged(world: World) -> list[RaterVerdicts]:
    return world.read(rater_verdicts)


@pytest.mark.parametrize(("score", "trap", "gold"), [(3, "ok", "ok"), (4, "fail", "ok"), (5, "fail", "fail")])
@SQLITE_ONLY
def test_trap_needs_the_exact_score_and_gold_allows_one_step(
    world: World, tmp_path: Path, score: int, trap: str, gold: str
) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    rate(world, "one", check=score)
    [found] = judged(world)
    assert (found.verdicts["traps"], found.verdicts["golds"]) == (trap, gold)
    assert found.accept == trap  # payment depends on the attention check only
    assert found.use == ("ok" if (trap, gold) == ("ok", "ok") else "fail")


def test_unjudged_gates_exclude_nobody(world: World, tmp_path: Path) -> None:
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


def test_constant_ratings_are_excluded_but_paid(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(MOS, gates=Gates(level=False, min_variance=0.1)))
    flat = world.begin("flat")
    flat.finish(value=4)
    rate(world, "busy", screens=3)
    found, busy = judged(world)
    assert (found.verdicts["variance"], found.accept, found.use) == ("fail", "ok", "fail")
    assert busy.verdicts["variance"] == "unknown"  # only once all ratings are in


@pytest.mark.parametrize(("waits_s", "verdict"), [(0.0, "fail"), (0.5, "ok")])
def test_answers_faster_than_the_sounds_are_excluded(
    world: World, tmp_path: Path, waits_s: float, verdict: str
) -> None:
    campaign(world, tmp_path, replace(MOS, gates=Gates(level=False, pace=True)))
    rater = world.begin("quick")
    for _ in range(2):
        shown = rater.next()
        time.sleep(waits_s)
        rater.answer(shown)  # although it reports half a second of playback
    [found] = judged(world)
    assert (found.verdicts["pace"], found.use) == (verdict, verdict)


@SQLITE_ONLY
@pytest.mark.parametrize(
    ("required", "wrong", "verdict", "use"),
    [(True, 0, "ok", "ok"), (True, 6, "fail", "fail"), (False, 0, "ok", "unknown"), (False, 6, "fail", "unknown")],
)
def test_headphone_check_is_always_reported_and_excludes_only_if_required(
    world: World, tmp_path: Path, required: bool, wrong: int, verdict: str, use: str
) -> None:
    """The result of a check that every rater takes has to be in the report."""
    gate = Gates(level=False, headphones="woods", headphones_required=required)
    campaign(world, tmp_path, replace(MOS, gates=gate))
    rater_session = world.begin("one")
    rater_session.send("headphones", answers=rater_session.headphones("woods", wrong))
    with world.store.read() as session:
        found = find_campaign(session, "first")
        assert gate_counts(rater_verdicts(session, found))["all"]["headphones"] == {verdict: 1}
    [one] = judged(world)
    assert (one.verdicts["headphones"], one.use) == (verdict, use)


@SQLITE_ONLY
def test_check_that_could_not_be_played_is_unknown(world: World, tmp_path: Path) -> None:
    gate = Gates(level=False, headphones="woods", headphones_required=True)
    campaign(world, tmp_path, replace(MOS, gates=gate))
    rater_session = world.begin("one")
    assert rater_session.send("headphones", error="no sound device")["stage"] == "trials"
    assert judged(world)[0].verdicts["headphones"] == "unknown"


@SQLITE_ONLY
def test_gold_pair_is_checked_by_system_name(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(PAIRS, gates=Gates(level=False, golds=1)), checks=("gold",))
    named = "UPDATE item SET expected = 'heron' WHERE role = 'gold'"
    world.store.write_now(lambda session: session.connection().exec_driver_sql(named).rowcount)
    right: dict[str, bool] = {}
    for who in map(str, range(6)):
        rater_session = world.begin(who)
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


def test_gates_are_counted_in_total_and_by_day(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    rate(world, "good")
    rate(world, "bad", check=5)
    back = "UPDATE rater SET joined_at = joined_at - 86400 WHERE id = (SELECT min(id) FROM rater)"
    world.store.write_now(lambda session: session.connection().exec_driver_sql(back).rowcount)
    found = gate_counts(world.read(rater_verdicts))
    assert found["all"]["traps"] == {"ok": 1, "fail": 1}
    days = list(found["by_day"].values())
    assert [d["traps"] for d in days] == [{"ok": 1}, {"fail": 1}]
    assert [d["use"] for d in days] == [{"ok": 1}, {"fail": 1}]


def test_days_are_those_of_the_viewers_time_zone(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    rate(world, "one")
    evening_s = datetime(2026, 11, 28, 23, 30, tzinfo=UTC).timestamp()
    change = f"UPDATE rater SET joined_at = {evening_s}"
    world.store.write_now(lambda session: session.connection().exec_driver_sql(change).rowcount)
    verdicts = world.read(rater_verdicts)
    assert [*gate_counts(verdicts)["by_day"]] == ["2026-11-28"]
    assert [*gate_counts(verdicts, ZoneInfo("Europe/Berlin"))["by_day"]] == ["2026-11-29"]


def panel(world: World) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(world.read(panel_csv))))


@SQLITE_ONLY
def test_panel_file_accepts_rejects_and_defers(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(CHECKED, gates=replace(CHECKED.gates, golds=0)), checks=("trap",))
    rate(world, "good")
    rate(world, "=bad()", check=5)
    rate(world, "busy", screens=1)
    rows = panel(world)
    assert [(r["PROLIFIC_PID"], r["decision"]) for r in rows] == [("good", "accept"), ("'=bad()", "reject")]
    assert [bool(r["reason"]) for r in rows] == [False, True]


@SQLITE_ONLY
def test_panel_file_reviews_one_missed_trap_of_two(world: World, tmp_path: Path) -> None:
    """Panels reject for two failed checks in studies over five minutes; ids of any panel are in the file."""
    folder = write_sounds(tmp_path / "sounds", checks=("trap",))
    for system in SYSTEMS:
        shutil.copy(folder / "trap" / system / "trap1=3.wav", folder / "trap" / system / "trap2=3.wav")
    texts = (folder / "texts.txt").read_text(encoding="utf-8")
    (folder / "texts.txt").write_text(f"{texts}\ntrap2|The sentence of trap2.", encoding="utf-8")
    config = replace(CHECKED, gates=Gates(level=False, traps=2))
    build_campaign(world.listening, "first", config, read_manifest(folder), seed=11)
    world.set_state("open")
    for who, misses in (("none", 0), ("one", 1), ("both", 2)):
        rater = world.sit(who, {"participant": who, "study": "s1"})
        rater.to_trials()
        left = misses
        while (shown := rater.next())["stage"] == "trials":
            is_missed = "trap" in shown["trial"]["text"] and left > 0
            left -= is_missed
            world.listening.answer(rater.rater_id, given(shown, Random(who), check=5 if is_missed else 3)).result(30)
    rows = panel(world)
    assert [(r["participant"], r["study"], r["decision"]) for r in rows] == [
        ("none", "s1", "accept"),
        ("one", "s1", "review"),
        ("both", "s1", "reject"),
    ]
    assert rows[1]["reason"].startswith("1 of 2 attention checks")
    assert [(j.accept, j.use) for j in judged(world)] == [("ok", "ok"), ("unknown", "fail"), ("fail", "fail")]


@SQLITE_ONLY
@pytest.mark.parametrize(
    ("sides", "verdict"), [("a" * 9, "fail"), ("b" * 9, "fail"), ("aababbaba", "ok"), ("t" * 9, "unknown")]
)
def test_raters_who_always_press_one_side_are_excluded(world: World, tmp_path: Path, sides: str, verdict: str) -> None:
    campaign(world, tmp_path, replace(PAIRS, gates=Gates(level=False)))
    rater, said = world.begin("one"), iter(sides)
    while (shown := rater.next())["stage"] == "trials":
        rater.answer(shown, {"t": "tie"}.get(side := next(said), side))
    [one] = judged(world)
    assert one.verdicts["sides"] == verdict and (one.use == "fail") == (verdict == "fail")
    assert (one.accept, next(said, None)) == ("ok", None)


def test_side_bias_is_an_exact_two_sided_test() -> None:
    """scipy.stats.binomtest(k, n).pvalue: .0078 of 8 in 8, .0215 of 9 in 10, .0026 of 17 in 20, .0118 of 16 in 20."""
    for more, n, verdict in ((7, 7, "unknown"), (8, 8, "fail"), (9, 10, "ok"), (17, 20, "fail"), (16, 20, "ok")):
        firsts = [True] * more + [False] * (n - more)
        assert side_verdict(firsts, 0.01) == side_verdict([not f for f in firsts], 0.01) == verdict
    assert side_verdict([True] * 20, 0.0) == "unknown"
