"""Consensus gate: reported for every rater, excludes only if required, and both results are printed."""

from dataclasses import replace

import pytest
from mos.recommended import systems_of
from mos.world import AB, ACR, World

from studio.core.errors import BadOption
from studio.mos.analysis.interim_looks import take_due_look
from studio.mos.analysis.quality import RaterVerdicts, gate_counts, rater_verdicts
from studio.mos.analysis.results import results
from studio.mos.campaign.config import Gates, StopRule
from studio.mos.import_export.export_answers import export_rows
from studio.mos.import_export.export_raters import rater_rows
from studio.mos.report.formats import html, latex, markdown
from studio.mos.report.tables import detail_tables
from studio.mos.sessions.campaigns import find_campaign

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
        Gates(**wrong)  # type: ignore[arg-type]
