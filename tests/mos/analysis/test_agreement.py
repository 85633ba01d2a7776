"""Consensus gate and repeated trials: reported for every rater, exclude only if required."""

from dataclasses import replace

import pytest
from mos.recommended import systems_of
from mos.world import AB, ACR, SQLITE_ONLY, World

from studio.core.errors import BadOption
from studio.mos.analysis.quality import RaterVerdicts, gate_counts, rater_verdicts
from studio.mos.analysis.results import results
from studio.mos.analysis.stopping_rule import take_due_look
from studio.mos.campaign.config import Gates, StopRule, from_json
from studio.mos.import_export.export import export_rows
from studio.mos.import_export.rater_export import rater_rows
from studio.mos.report.page import html
from studio.mos.report.tables import detail_tables, latex, markdown
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.agreement import RepeatedAnswer, consistency

REPORTED = Gates(level=False, min_consensus=0.5, consensus_answers=8)
APPLIED = replace(REPORTED, consensus_required=True)
SMALL = replace(ACR, raters_per_stimulus=4, trials_per_sitting=8)


def rate_script_order(world: World, turned: int = 1, of: int = 4, screens: int = 99) -> list[str]:
    """Raters whose scores follow the script (1 to 4), and `turned` ones whose scores run in reverse; pseudonyms."""
    names: list[str] = []
    for k in range(of):
        rater_session = world.begin(f"rater{k}")
        for _ in range(screens):
            if (shown := rater_session.next())["stage"] != "trials":
                break
            value = 1 + int(shown["trial"]["text"].split()[-1].rstrip("."))
            rater_session.answer(shown, value if k >= turned else 5 - value)
        names.append(rater_session.row().pseudonym)
    return names


def gate_verdicts(world: World) -> dict[str, RaterVerdicts]:
    return {j.pseudonym: j for j in world.read(rater_verdicts)}


@pytest.mark.parametrize(("gate", "use"), [(REPORTED, "unknown"), (APPLIED, "fail")])
def test_agreement_is_reported_for_every_rater_and_excludes_only_if_required(
    world: World, gate: Gates, use: str
) -> None:
    world.campaign(replace(SMALL, gates=gate))
    wild, *rest = rate_script_order(world)
    found = gate_verdicts(world)
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
    by_rater = {r["rater"]: (r["gate_consensus"], round(r["consensus_r"], 9)) for r in raters}
    assert by_rater[wild] == ("fail", -1.0)
    rows = {row[0]: row for t in detail_tables(whole) if t.caption.startswith("Agreement of each") for row in t.rows}
    assert rows[wild][1] == "\N{MINUS SIGN}1.000" and rows[wild][4] == "fail"


def test_report_shows_estimates_with_and_without_excluded_raters(world: World) -> None:
    """Both systems score 1 to 4, so the mean is 2.5; turned ones also used 1 to 4, so only the width changes."""
    world.campaign(replace(SMALL, gates=APPLIED))
    rate_script_order(world)
    found = world.read(results)
    assert (found["consensus"]["failed"], found["consensus"]["required"]) == (1, True)
    for row in found["consensus"]["estimates"]:
        assert row["kept"]["mean"] == row["everybody"]["mean"] == 2.5
        assert (row["everybody"]["n"], row["kept"]["n"]) == (16, 12)
        system = row["name"].split(",")[0]
        assert row["kept"] == found["tables"]["questions"]["naturalness"]["systems"]["two_way"][system]
    for text in (html(found), markdown(found), latex(found)):
        assert "post-hoc exclusion" in text and "The other tables are without them" in text


@SQLITE_ONLY
def test_without_a_minimum_agreement_is_reported_without_a_verdict(world: World) -> None:
    world.campaign(replace(SMALL, gates=Gates(level=False)))
    wild, *_ = rate_script_order(world)
    one = gate_verdicts(world)[wild]
    assert one.verdicts["consensus"] == "unknown" and one.consensus is not None and one.consensus.n == 8
    assert "post-hoc" not in html(world.read(results))


@SQLITE_ONLY
@pytest.mark.parametrize(("answers", "rated"), [(9, {}), (3, {"screens": 6})])
def test_too_few_answers_or_unfinished_sessions_give_unknown(world: World, answers: int, rated: dict[str, int]) -> None:
    world.campaign(replace(SMALL, gates=replace(APPLIED, consensus_answers=answers)))
    rate_script_order(world, **rated)
    assert {j.verdicts["consensus"] for j in gate_verdicts(world).values()} == {"unknown"}


@SQLITE_ONLY
def test_agreement_by_system_averages_over_scripts(world: World) -> None:
    """All systems have equal scores, so their means are equal and no correlation exists."""
    world.campaign(replace(SMALL, gates=replace(APPLIED, consensus_by="system")))
    rate_script_order(world, turned=0)
    assert {j.consensus.r for j in gate_verdicts(world).values() if j.consensus} == {None}


@SQLITE_ONLY
def test_choice_agreement_is_independent_of_sides(world: World) -> None:
    """One rater always votes for the first system by name, as two others do; one votes against it."""
    gate = replace(APPLIED, consensus_answers=4)
    world.campaign(replace(AB, raters_per_stimulus=4, gates=gate))
    names: list[str] = []
    for k in range(4):
        rater_session = world.begin(f"rater{k}")
        while (shown := rater_session.next())["stage"] == "trials":
            first = systems_of(world, shown["trial"]["trial"])[0][0] == "nightjar"
            rater_session.answer(shown, "a" if first == (k > 0) else "b")
        names.append(rater_session.row().pseudonym)
    found = gate_verdicts(world)
    assert [round(found[n].consensus.r or 0, 9) for n in names] == [-1.0, 1.0, 1.0, 1.0]
    assert [found[n].use for n in names] == ["fail", "ok", "ok", "ok"]


@SQLITE_ONLY
def test_stopping_rule_does_not_select_raters_by_agreement(world: World) -> None:
    rule = StopRule(half_width=5.0, looks=[4])
    world.campaign(replace(SMALL, gates=APPLIED, stop=rule))
    rate_script_order(world)
    look = world.read(take_due_look)
    assert look is not None and look.raters == 4  # three would remain


@pytest.mark.parametrize(
    "wrong", [{"min_consensus": 1.5}, {"consensus_required": True}, {"min_consensus": 0.5, "consensus_answers": 2}]
)
def test_invalid_agreement_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadOption, match="consensus"):
        from_json({"kind": "acr", "gates": wrong})


GATES = replace(ACR.gates, max_repeat_distance=0.25)


def consistency_of(*pairs: tuple[int, int]) -> list[RepeatedAnswer]:
    return [RepeatedAnswer("r", "q", first, again, 4) for first, again in pairs]


def test_consistency_worked_values() -> None:
    """r = 6 / sqrt(8 * 78 / 9)."""
    found = consistency(consistency_of((1, 2), (5, 5), (3, 1)))
    assert found is not None
    assert (found.n, found.exact, found.steps, found.apart) == pytest.approx((3, 1 / 3, 1.0, 0.25))
    assert found.r == pytest.approx(0.720577, abs=1e-6)
    choices = consistency([RepeatedAnswer("r", "preference", "a", "a"), RepeatedAnswer("r", "preference", "a", "tie")])
    assert choices is not None and (choices.exact, choices.apart, choices.steps, choices.r) == (0.5, 0.5, None, None)
    assert consistency([]) is None


def test_cases_without_a_correlation() -> None:
    for pairs in (consistency_of((1, 1), (2, 2)), consistency_of((3, 1), (3, 2), (3, 3))):
        found = consistency(pairs)
        assert found is not None and found.r is None
    mixed = consistency([*consistency_of((1, 3)), RepeatedAnswer("r", "p", 10, 60, 100)])
    assert mixed is not None and (mixed.apart, mixed.steps) == (0.5, None)


def rate_with_repeats(world: World, who: str, steady: bool) -> str:
    """A rater who scores every script differently and repeats it equally or as far off as possible; the pseudonym."""
    rater_session = world.begin(who)
    said: dict[str, int] = {}
    while (shown := rater_session.next())["stage"] == "trials":
        text = shown["trial"]["text"]
        value = said.setdefault(text, 1 + 4 * (len(said) % 2)) if steady or text not in said else 6 - said[text]
        rater_session.answer(shown, value)
    rater_session.send("comments", comment="")
    return rater_session.row().pseudonym


def test_inconsistent_repeats_fail_the_gate(world: World) -> None:
    world.campaign(replace(ACR, repeats=2, gates=GATES))
    steady, wild = rate_with_repeats(world, "steady", True), rate_with_repeats(world, "wild", False)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        verdicts = {j.pseudonym: (j.verdicts["repeats"], j.use) for j in rater_verdicts(session, campaign)}
        found, everyone = results(session, campaign), results(session, campaign, everyone=True)
        rows = list(export_rows(session, campaign))
    assert verdicts == {steady: ("ok", "ok"), wild: ("fail", "fail")}
    each = {row["rater"]: row for row in found["consistency"]["raters"]}
    assert (each[steady]["n"], each[steady]["exact"], each[steady]["apart"]) == (2, 1.0, 0.0)
    assert (each[wild]["n"], each[wild]["exact"], each[wild]["steps"]) == (2, 0.0, 4.0)
    assert found["consistency"]["questions"]["naturalness"]["n"] == 2  # among the analysed raters
    assert everyone["consistency"]["questions"]["naturalness"]["n"] == 4
    assert {(r["rater"], r["repeats_exact"], r["repeats_apart"]) for r in rows} == {
        (steady, 1.0, 0.0),
        (wild, 0.0, 1.0),
    }
    tables = {t.caption: t.rows for t in detail_tables(found)}
    assert tables["Self-consistency of raters"][0][:2] == ["naturalness", "100.0%"]
    assert "Self-consistency of each rater" in html(found) and wild in html(found)
    assert found["answers"] == 8 and found["aside"] == 4


def test_repeated_choices_are_compared(world: World) -> None:
    """Repeats keep the original order of sounds, so a is a."""
    world.campaign(replace(AB, repeats=2))
    rater_session = world.begin("one")
    screens = 0
    while (shown := rater_session.next())["stage"] == "trials":
        rater_session.answer(shown, "a" if screens < 4 else "tie")
        screens += 1
    found = world.read(results)
    assert found["consistency"]["questions"]["preference"]["exact"] == 0.0
    assert found["gates"]["all"]["repeats"] == {"unknown": 1}


def test_without_repeats_nobody_is_excluded(world: World) -> None:
    world.campaign(replace(ACR, gates=GATES))
    rate_with_repeats(world, "one", True)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        assert [j.verdicts["repeats"] for j in rater_verdicts(session, campaign)] == ["unknown"]
        assert results(session, campaign)["consistency"] == {"questions": {}, "raters": []}
