"""Repeated trials: self-consistency in verdicts, results, report and export."""

from dataclasses import replace

import pytest
from mos.world import AB, ACR, World

from studio.mos.analysis.quality import rater_verdicts
from studio.mos.analysis.results import results
from studio.mos.import_export.export_answers import export_rows
from studio.mos.report.formats import html
from studio.mos.report.tables import detail_tables
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.agreement import RepeatedAnswer, consistency

GATES = replace(ACR.gates, max_repeat_distance=0.25)


def scored(*pairs: tuple[int, int]) -> list[RepeatedAnswer]:
    return [RepeatedAnswer("r", "q", first, again, 4) for first, again in pairs]


def test_worked_values() -> None:
    """r = 6 / sqrt(8 * 78 / 9)."""
    found = consistency(scored((1, 2), (5, 5), (3, 1)))
    assert found is not None
    assert (found.n, found.exact, found.steps, found.apart) == pytest.approx((3, 1 / 3, 1.0, 0.25))
    assert found.r == pytest.approx(0.720577, abs=1e-6)
    choices = consistency([RepeatedAnswer("r", "preference", "a", "a"), RepeatedAnswer("r", "preference", "a", "tie")])
    assert choices is not None and (choices.exact, choices.apart, choices.steps, choices.r) == (0.5, 0.5, None, None)
    assert consistency([]) is None


def test_what_has_no_correlation() -> None:
    for pairs in (scored((1, 1), (2, 2)), scored((3, 1), (3, 2), (3, 3))):
        found = consistency(pairs)
        assert found is not None and found.r is None
    mixed = consistency([*scored((1, 3)), RepeatedAnswer("r", "p", 10, 60, 100)])
    assert mixed is not None and (mixed.apart, mixed.steps) == (0.5, None)


def sit(world: World, who: str, steady: bool) -> str:
    """A rater who gives every script a score of its own, the same each time or the farthest from it; the pseudonym."""
    rater_session = world.join(who)
    rater_session.to_trials()
    said: dict[str, int] = {}
    while (shown := rater_session.next())["stage"] == "trials":
        text = shown["trial"]["text"]
        value = said.setdefault(text, 1 + 4 * (len(said) % 2)) if steady or text not in said else 6 - said[text]
        rater_session.answer(shown, value)
    rater_session.send("comments", comment="")
    return rater_session.row().pseudonym


def test_inconsistent_answers_fail_the_gate(world: World) -> None:
    world.campaign(replace(ACR, repeats=2, gates=GATES))
    steady, wild = sit(world, "steady", True), sit(world, "wild", False)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        verdicts = {j.pseudonym: (j.verdicts["repeats"], j.use) for j in rater_verdicts(session, campaign)}
        found, everyone = results(session, campaign), results(session, campaign, everyone=True)
        rows = list(export_rows(session, campaign))
    assert verdicts == {steady: ("ok", "ok"), wild: ("fail", "fail")}
    each = {row["rater"]: row for row in found["consistency"]["raters"]}
    assert (each[steady]["n"], each[steady]["exact"], each[steady]["apart"]) == (2, 1.0, 0.0)
    assert (each[wild]["n"], each[wild]["exact"], each[wild]["steps"]) == (2, 0.0, 4.0)
    assert found["consistency"]["questions"]["naturalness"]["n"] == 2  # of those who are analysed
    assert everyone["consistency"]["questions"]["naturalness"]["n"] == 4
    assert {(r["rater"], r["repeats_exact"], r["repeats_apart"]) for r in rows} == {
        (steady, 1.0, 0.0),
        (wild, 0.0, 1.0),
    }
    tables = {t.caption: t.rows for t in detail_tables(found)}
    assert tables["Self-consistency of raters"][0][:2] == ["naturalness", "100.0%"]
    assert "Self-consistency of each rater" in html(found) and wild in html(found)
    assert found["answers"] == 8 and found["aside"] == 4


def test_choices_are_compared_too(world: World) -> None:
    """The order of the sounds is that of the first time, so a is a."""
    world.campaign(replace(AB, repeats=2))
    rater_session = world.join("one")
    rater_session.to_trials()
    screens = 0
    while (shown := rater_session.next())["stage"] == "trials":
        rater_session.answer(shown, "a" if screens < 4 else "tie")
        screens += 1
    with world.store.read() as session:
        found = results(session, find_campaign(session, "first"))
    assert found["consistency"]["questions"]["preference"]["exact"] == 0.0
    assert found["gates"]["all"]["repeats"] == {"unknown": 1}


def test_without_repeats_nobody_is_judged(world: World) -> None:
    world.campaign(replace(ACR, gates=GATES))
    sit(world, "one", True)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        assert [j.verdicts["repeats"] for j in rater_verdicts(session, campaign)] == ["unknown"]
        assert results(session, campaign)["consistency"] == {"questions": {}, "raters": []}
