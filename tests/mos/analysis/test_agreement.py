"""Consensus gate and repeated trials: reported for every rater, exclude only if required."""

from dataclasses import replace

import pytest
from mos.recommended import systems_of
from mos.world import AB, ACR, World

from studio.core.errors import BadOption
from studio.mos.analysis.quality import RaterVerdicts, gate_counts, rater_verdicts
from studio.mos.analysis.results import results
from studio.mos.analysis.stopping_rule import take_due_look
from studio.mos.campaign.config import Gates, StopRule, from_json
from studio.mos.import_export.export_answers import export_rows
from studio.mos.import_export.export_raters import rater_rows
from studio.mos.report.formats import html, latex, markdown
from studio.mos.report.tables import detail_tables
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.agreement import RepeatedAnswer, consistency

TOLD = Gates(level=False, min_consensus=0.5, consensus_answers=8)
APPLIED = replace(TOLD, consensus_required=True)
SMALL = replace(ACR, raters_per_stimulus=4, trials_per_sitting=8)
LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def crowd(world: World, turned: int = 1, of: int = 4, screens: int = 99) -> list[str]:
    """Raters whose scores follow the script (1 to 4), and some whose scores go the other way round; pseudonyms."""
    names: list[str] = []
    for k in range(of):
        rater_session = world.join(f"rater{k}")
        rater_session.to_trials()
        for _ in range(screens):
            if (shown := rater_session.next())["stage"] != "trials":
                break
            value = 1 + int(shown["trial"]["text"].split()[-1].rstrip("."))
            rater_session.answer(shown, value if k >= turned else 5 - value)
        names.append(rater_session.row().pseudonym)
    return names


def judged(world: World) -> dict[str, RaterVerdicts]:
    with world.store.read() as session:
        return {j.pseudonym: j for j in rater_verdicts(session, find_campaign(session, "first"))}


@pytest.mark.parametrize(("gate", "use"), [(TOLD, "unknown"), (APPLIED, "fail")])
def test_it_is_reported_for_every_rater_and_excludes_only_if_required(world: World, gate: Gates, use: str) -> None:
    world.campaign(replace(SMALL, gates=gate))
    wild, *rest = crowd(world)
    found = judged(world)
    assert found[wild].consensus is not None and found[wild].consensus.r == pytest.approx(-1.0)
    assert (found[wild].verdicts["consensus"], found[wild].use, found[wild].accept) == ("fail", use, "ok")
    assert {found[name].verdicts["consensus"] for name in rest} == {"ok"}
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        whole = results(session, campaign)
        answers, raters = list(export_rows(session, campaign)), list(rater_rows(session, campaign))
        assert gate_counts(list(found.values()))["all"]["consensus"] == {"ok": 3, "fail": 1}
    assert whole["left_out"] == (use == "fail")
    assert {r["consensus_n"] for r in answers} == {8} and {r["consensus_n"] for r in raters} == {8}
    told = {r["rater"]: (r["gate_consensus"], round(r["consensus_r"], 9)) for r in raters}
    assert told[wild] == ("fail", -1.0)
    rows = {row[0]: row for t in detail_tables(whole) if t.caption.startswith("Agreement of each") for row in t.rows}
    assert rows[wild][1] == "\N{MINUS SIGN}1.000" and rows[wild][4] == "fail"


def test_the_report_has_the_estimates_with_and_without(world: World) -> None:
    """Scores 1 to 4 of both systems: mean 2.5; whoever turned them round said 1 to 4, too, so only the width moves."""
    world.campaign(replace(SMALL, gates=APPLIED))
    crowd(world)
    with world.store.read() as session:
        found = results(session, find_campaign(session, "first"))
    assert (found["consensus"]["failed"], found["consensus"]["required"]) == (1, True)
    for row in found["consensus"]["estimates"]:
        assert row["kept"]["mean"] == row["everybody"]["mean"] == 2.5
        assert (row["everybody"]["n"], row["kept"]["n"]) == (16, 12)
        system = row["name"].split(",")[0]
        assert row["kept"] == found["tables"]["questions"]["naturalness"]["systems"]["two_way"][system]
    for text in (html(found), markdown(found), latex(found)):
        assert "post-hoc exclusion" in text and "The other tables are without them" in text


@LITE
def test_without_a_minimum_there_is_no_verdict_and_yet_a_number(world: World) -> None:
    world.campaign(replace(SMALL, gates=Gates(level=False)))
    wild, *_ = crowd(world)
    one = judged(world)[wild]
    assert one.verdicts["consensus"] == "unknown" and one.consensus is not None and one.consensus.n == 8
    with world.store.read() as session:
        assert "post-hoc" not in html(results(session, find_campaign(session, "first")))


@LITE
def test_too_few_answers_and_unfinished_sessions_are_unknown(world: World) -> None:
    world.campaign(replace(SMALL, gates=replace(APPLIED, consensus_answers=9)))
    crowd(world)
    assert {j.verdicts["consensus"] for j in judged(world).values()} == {"unknown"}


@LITE
def test_still_at_it_is_unknown(world: World) -> None:
    world.campaign(replace(SMALL, gates=replace(APPLIED, consensus_answers=3)))
    crowd(world, screens=6)
    assert {j.verdicts["consensus"] for j in judged(world).values()} == {"unknown"}


@LITE
def test_by_system_the_mean_is_over_scripts(world: World) -> None:
    """Every system has the same scores for its scripts, so its mean tells scripts not apart: nothing to go with."""
    world.campaign(replace(SMALL, gates=replace(APPLIED, consensus_by="system")))
    crowd(world, turned=0)
    assert {j.consensus.r for j in judged(world).values() if j.consensus} == {None}


@LITE
def test_choices_go_with_choices_whichever_side_they_were_on(world: World) -> None:
    """One votes for the first system by name always, like two others; one against."""
    gate = replace(APPLIED, consensus_answers=4)
    world.campaign(replace(AB, raters_per_stimulus=4, gates=gate))
    names: list[str] = []
    for k in range(4):
        rater_session = world.join(f"rater{k}")
        rater_session.to_trials()
        while (shown := rater_session.next())["stage"] == "trials":
            first = systems_of(world, shown["trial"]["trial"])[0][0] == "nightjar"
            rater_session.answer(shown, "a" if first == (k > 0) else "b")
        names.append(rater_session.row().pseudonym)
    found = judged(world)
    assert [round(found[n].consensus.r or 0, 9) for n in names] == [-1.0, 1.0, 1.0, 1.0]
    assert [found[n].use for n in names] == ["fail", "ok", "ok", "ok"]


@LITE
def test_the_stopping_rule_does_not_choose_its_raters_by_their_answers(world: World) -> None:
    rule = StopRule(half_width=5.0, looks=[4])
    world.campaign(replace(SMALL, gates=APPLIED, stop=rule))
    crowd(world)
    with world.store.read() as session:
        look = take_due_look(session, find_campaign(session, "first"))
    assert look is not None and look.raters == 4  # three would be left


@pytest.mark.parametrize(
    "wrong", [{"min_consensus": 1.5}, {"consensus_required": True}, {"min_consensus": 0.5, "consensus_answers": 2}]
)
def test_what_cannot_be_asked_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadOption, match="consensus"):
        from_json({"kind": "acr", "gates": wrong})


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
