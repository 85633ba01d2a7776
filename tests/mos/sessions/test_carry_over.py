"""Screening and checks of later parts apply, without repeating what the session has asked already."""

from dataclasses import replace
from typing import Any

from mos.world import AB, ACR, RaterSession, World

from studio.mos.analysis.quality import rater_verdicts
from studio.mos.analysis.results import funnel
from studio.mos.campaign.config import Completion, Gates
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.import_export.rater_export import rater_rows
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.store.tables import Passage, Rater

NATIVE = ScreeningQuestion("native", "Your first language?", ["English", "Another"], ["English"])
EARS = ScreeningQuestion("ears", "Do you hear well?", ["Yes", "No"], ["Yes"])
ENDS = Completion(code="ALL-DONE")


def two(world: World, first: Gates, second: Gates, third: bool = False) -> None:
    """A session of scores, then pairs, each with its own gates; optionally more pairs."""
    if third:
        world.campaign(replace(AB, gates=Gates(level=False)), "third")
    world.campaign(replace(AB, gates=second, then="third" if third else ""), "second")
    world.campaign(replace(ACR, gates=first, then="second", completion=ENDS))


def to_second_part(rater_session: RaterSession, *before: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Complete the first part, with stages before its screens; the next screen."""
    rater_session.agree()
    for stage, data in before:
        rater_session.send(stage, **data)
    for _ in rater_session.trials():
        pass
    return rater_session.next()


def answers(**given: str) -> tuple[str, dict[str, Any]]:
    return "screening", {"answers": given}


READ = ("instructions", dict[str, Any]())


def test_later_part_asks_its_own_screening(world: World) -> None:
    two(world, Gates(level=False, screening=[NATIVE]), Gates(level=False, screening=[NATIVE, EARS]))
    ann = world.join("ann")
    shown = to_second_part(ann, answers(native="English"), READ)
    assert shown["stage"] == "screening" and shown["part"] == {"n": 2, "of": 2}
    assert [q["id"] for q in shown["questions"]] == ["ears"]  # the other was answered an hour ago
    assert ann.send("screening", answers={"ears": "Yes"})["stage"] == "instructions"
    assert ann.send("instructions")["stage"] == "trials"
    with world.store.read() as session:
        row = next(iter(rater_rows(session, find_campaign(session, "second"))))
    assert (row["screening_native"], row["screening_ears"]) == ("English", "Yes")


def test_rater_screened_out_of_a_later_part_skips_it_and_is_paid(world: World) -> None:
    two(world, Gates(level=False), Gates(level=False, screening=[EARS]))
    ann = world.join("ann")
    assert to_second_part(ann, READ)["stage"] == "screening"
    ann.send("screening", answers={"ears": "No"})
    assert ann.next()["stage"] == "comments"
    shown = ann.send("comments", comment="bye")
    assert (shown["stage"], shown["code"]) == ("done", "ALL-DONE")
    again = world.join("ann")
    assert again.next()["stage"] == "done" and len(world.all(Rater)) == 2
    found = {row["stage"]: row["raters"] for row in world.read(funnel, "second")}
    assert found["screened_out"] == 1 and found["done"] == 0


def test_earlier_disqualifying_answer_skips_the_part(world: World) -> None:
    asked_only = replace(NATIVE, accept=[])
    two(world, Gates(level=False, screening=[asked_only]), Gates(level=False, screening=[NATIVE, EARS]), third=True)
    ann = world.join("ann")
    shown = to_second_part(ann, answers(native="Another"), READ)
    assert shown["stage"] == "instructions"  # of the third part
    assert {(r.part, r.stage) for r in world.all(Rater)} == {(1, "done"), (2, "screened_out"), (3, "instructions")}


def test_checks_are_not_repeated_and_their_verdicts_hold_in_every_part(world: World) -> None:
    gates = Gates(level=True, headphones="woods", environment=True)
    two(world, gates, replace(gates, environment_required=True))
    ann = world.join("ann").agree()
    ann.send("instructions")
    ann.send("level")
    ann.send("headphones", answers=ann.headphones("woods", wrong=6))  # failed, but not required
    ann.send("environment", answers=ann.environment())
    shown = to_second_part(ann)
    assert shown["stages"] == ["instructions", "trials", "comments", "done"]
    assert ann.send("instructions")["stage"] == "trials"
    with world.store.read() as session:
        campaign = find_campaign(session, "second")
        (judged,) = rater_verdicts(session, campaign)
        row = next(iter(rater_rows(session, campaign)))
    assert (judged.verdicts["headphones"], judged.verdicts["environment"]) == ("fail", "ok")
    assert (row["environment_right"], row["environment_tries"], row["headphone_tries"]) == (4, 1, 1)


def test_later_part_asks_checks_not_asked_before(world: World) -> None:
    two(world, Gates(level=False, headphones="woods"), Gates(level=True, headphones="huggins"))
    ann = world.join("ann").agree()
    ann.send("instructions")
    ann.send("headphones", answers=ann.headphones("woods"))
    shown = to_second_part(ann)
    assert shown["stages"] == ["instructions", "level", "headphones", "trials", "comments", "done"]
    ann.send("instructions")
    assert ann.send("level")["check"] == "huggins"
    assert ann.send("headphones", answers=ann.headphones("huggins"))["stage"] == "trials"


def test_check_required_by_a_later_part_may_be_repeated_once(world: World) -> None:
    gates = Gates(level=False, headphones="woods")
    two(world, gates, replace(gates, headphones_required=True))
    fails = {}
    for who in ("ann", "ben"):
        rater_session = world.join(who).agree()
        rater_session.send("instructions")
        rater_session.send("headphones", answers=rater_session.headphones("woods", wrong=6))
        assert to_second_part(rater_session)["stage"] == "instructions"
        assert rater_session.send("instructions")["stage"] == "headphones"
        fails[who] = rater_session.send(
            "headphones", answers=rater_session.headphones("woods", wrong=0 if who == "ann" else 6)
        )
    assert fails["ann"]["stage"] == "trials" and fails["ben"]["stage"] == "comments"


def test_check_failed_twice_is_not_asked_again(world: World) -> None:
    must = Gates(level=False, environment=True, environment_required=True)
    world.campaign(replace(AB, gates=must), "third")
    world.campaign(replace(AB, gates=must, then="third"), "second")
    world.campaign(replace(ACR, then="second", completion=ENDS))
    ann = world.join("ann")
    to_second_part(ann, READ)
    ann.send("instructions")
    for _ in range(2):
        shown = ann.send("environment", answers=ann.environment(wrong=4))
    assert shown["stage"] == "comments"
    assert {(r.part, r.stage) for r in world.all(Rater)} == {(1, "comments"), (2, "screened_out"), (3, "screened_out")}
    tried = [p for p in world.all(Passage) if p.stage == "environment"]
    assert len(tried) == 4  # two, and the same two in the next part


def test_single_campaign_asks_everything_itself(world: World) -> None:
    world.campaign(replace(ACR, gates=Gates(level=False, screening=[EARS])))
    ann = world.join("ann").agree()
    assert ann.next()["stage"] == "screening"
    ann.send("screening", answers={"ears": "Yes"})
    ann.send("instructions")
    for _ in ann.trials():
        pass
    assert ann.next()["stage"] == "comments"
