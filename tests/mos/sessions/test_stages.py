"""A rater's stages: sequential, resumable, screened, never over the quota."""

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from mos.world import AB, ACR, World, items_of

from studio.core.errors import BadMessage
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.analysis.results import overview
from studio.mos.campaign.config import CampaignConfig, Completion, CompletionLink
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.hearing_checks import CHECK_SOUNDS, headphone_trial
from studio.mos.sessions.parts import ordered_stages
from studio.mos.sessions.stages import NotThisStage, check_seed
from studio.mos.store.access import Forbidden
from studio.mos.store.tables import Answer, Passage, Rater, Slot, Trial

NATIVE = ScreeningQuestion("native", "Is English your first language?", ["yes", "no"], ["yes"])
AGE = ScreeningQuestion("age", "How old are you?", ["under 30", "30 or more"])


def gated(**gates: Any) -> CampaignConfig:
    """The small ACR campaign with these gates."""
    return replace(ACR, gates=replace(ACR.gates, **gates))


def test_stages_follow_the_gates() -> None:
    """In a fixed order; the level is set before the headphone tones are played at it."""
    assert ordered_stages(ACR) == ["consent", "instructions", "trials", "comments", "done"]
    every = gated(screening=[NATIVE], headphones="woods", level=True)
    assert ordered_stages(every) == [
        "consent",
        "screening",
        "instructions",
        "level",
        "headphones",
        "trials",
        "comments",
        "done",
    ]


def test_same_person_resumes_the_same_session(world: World) -> None:
    """In any browser and after a crash; another person or another campaign is another session."""
    world.campaign()
    world.campaign(name="second")
    anna = world.join("anna")
    shown = anna.to_trials()
    again = world.join("anna")
    bert, elsewhere = world.join("bert").agree(), world.join("anna", "second").agree()
    assert (again.rater_id, again.token, again.joined_at) == (anna.rater_id, anna.token, "trials")
    assert again.next()["trial"] == shown["trial"]
    assert bert.rater_id != anna.rater_id != elsewhere.rater_id
    rows = world.all(Rater)
    assert len({r.identity for r in rows}) == len({r.pseudonym for r in rows}) == 3
    assert all("anna" not in r.identity + r.pseudonym for r in rows)


def test_consent_records_its_version(world: World) -> None:
    """The current version, stored in the row; who declines has agreed to none."""
    world.campaign()
    anna, bert = world.join("anna"), world.join("bert")
    for version in (2, None, "3"):
        with pytest.raises(BadMessage):
            anna.send("consent", agreed=True, version=version)
    assert anna.next() | {"title": ""} == {
        "stage": "consent",
        "title": "",
        "language": "en",
        "stages": ordered_stages(ACR),
        "text": "May we?",
        "version": 3,
    }
    for answer in ("yes", 1, None, False):
        assert bert.send("consent", agreed=answer, version=3)["stage"] == "refused"
    assert not world.all(Rater) and not world.all(Passage), "visitors without consent are not stored"
    first = anna.token
    assert anna.send("consent", agreed=True, version=3)["stage"] == "instructions"
    assert anna.row().consent_version == 3 and anna.row().device == '{"screen": "1280x720"}'
    anna.token = first  # the reply was lost and the call is repeated
    assert anna.send("consent", agreed=True, version=3)["stage"] == "instructions"
    assert [(p.stage, p.verdict) for p in world.all(Passage)] == [("consent", "ok")]
    assert len(world.all(Rater)) == 1 and not world.all(Trial)
    assert bert.send("consent", agreed=True, version=3)["stage"] == "instructions", "a refusal can be revised"


def test_visitor_token_cannot_be_forged(world: World) -> None:
    """A visitor's state is in a signed token, which opens the consent form only."""
    world.campaign()
    anna, access = world.join("anna"), world.listening.access
    kind, said, mac = anna.token.split(".")
    other = world.join("bert").token.split(".")[1]
    for forged in (f"{kind}.{other}.{mac}", f"{kind}.{said}.", f"{kind}.", f"{kind}.{said}.{mac}x"):
        with pytest.raises(Forbidden):
            access.visitor_of(forged)
    for token in (anna.token, ""):
        with pytest.raises(Forbidden):
            access.rater_of(token)
    with pytest.raises(NotThisStage, match="still to come: you are at 'consent'"):
        anna.send("instructions")


def test_screening_admits_the_accepted_answers(world: World) -> None:
    """A question without ``accept`` admits all; every answer is stored."""
    world.campaign(gated(screening=[NATIVE, AGE]))
    inside, outside = world.join("inside"), world.join("outside")
    for rater in (inside, outside):
        asked = rater.send("consent", agreed=True, version=3)
        assert [q["id"] for q in asked["questions"]] == ["native", "age"]
        sent = {"id", "prompt", "options", "answer", "optional", "low", "high"}
        assert set(asked["questions"][0]) == sent, "accepted options are not sent"
        for wrong in (None, [], {}, {"native": "yes"}, {"native": "perhaps", "age": "under 30"}, {"native": ["yes"]}):
            with pytest.raises(BadMessage):
                rater.send("screening", answers=wrong)
    assert inside.send("screening", answers={"native": "yes", "age": "30 or more"})["stage"] == "instructions"
    assert outside.send("screening", answers={"native": "no", "age": "30 or more"})["stage"] == "screened_out"
    kept = {p.rater_id: (p.verdict, json.loads(p.data)) for p in world.all(Passage) if p.stage == "screening"}
    assert kept[outside.rater_id] == ("fail", {"native": "no", "age": "30 or more"})
    with pytest.raises(NotThisStage):
        outside.send("screening", answers={"native": "yes", "age": "30 or more"})
    assert world.join("outside").joined_at == "screened_out"


def test_panel_redirect_depends_on_the_outcome(world: World) -> None:
    """A code and address each for finished, refused, screened out, and full on arrival."""
    ways = {n: CompletionLink(n.upper(), f"https://panel/{n}") for n in ("refused", "screened_out", "full")}
    config = replace(gated(screening=[NATIVE]), raters_per_stimulus=1, trials_per_sitting=8)
    world.campaign(replace(config, completion=Completion("DONE", "https://panel/done", **ways)))
    refuses, foreign, late, anna = (
        world.join(who).agree() if who != "refuses" else world.join(who)
        for who in ("refuses", "foreign", "late", "anna")
    )
    outcomes = {"refused": refuses.send("consent", agreed=False, version=3)}
    assert "code" not in world.join("refuses").next(), "asked again after a refusal"
    outcomes["screened_out"] = foreign.send("screening", answers={"native": "no"})
    for rater_session in (anna, late):
        rater_session.send("screening", answers={"native": "yes"})
    anna.send("instructions")
    outcomes["full"] = late.send("instructions")
    anna.finish()
    outcomes["done"] = anna.next()
    outcomes["full on joining"] = world.join("latest").next()
    for stage, shown in outcomes.items():
        end = stage.removesuffix(" on joining")
        assert (shown["stage"], shown["code"], shown["redirect"]) == (end, end.upper(), f"https://panel/{end}")
    assert foreign.next() == outcomes["screened_out"] and late.next() == outcomes["full"], "and again after a reload"
    world.listening.withdraw(world.join("other", role="preview").agree().rater_id).result(30)
    assert "code" not in world.join("other", role="preview").next(), "no code for leaving early"


def test_all_answers_given_is_finished(world: World) -> None:
    """Closing the tab before the final comment costs neither payment nor a place in the looks."""
    world.campaign()
    anna = world.begin("anna")
    for _ in anna.trials():
        assert anna.row().finished_at is None
    row = anna.row()
    assert (row.stage, row.finished_at) == ("comments", max(a.received_at for a in world.all(Answer)))
    with world.store.read() as session:
        found = find_campaign(session, "first")
        assert overview(session, found)["finished"] == 1
        assert [j.accept for j in rater_verdicts(session, found)] == ["ok"]
    anna.send("comments", comment="late words")
    assert anna.row().finished_at == row.finished_at


@pytest.mark.parametrize(("kind", "allowed"), [("woods", 1), ("huggins", 0)])
def test_headphone_check_allows_two_tries(world: World, kind: str, allowed: int) -> None:
    """A number of errors is allowed; the second try has other sounds; there is no third."""
    world.campaign(gated(headphones=kind, headphones_required=True))
    good, bad = world.join("good"), world.join("bad")
    for rater in (good, bad):
        asked = rater.to_trials()
        assert (asked["stage"], asked["check"], asked["sounds"]) == ("headphones", kind, CHECK_SOUNDS)
        for wrong in (None, [], [0] * 5, [0] * 7, ["0"] * 6, "000000"):
            with pytest.raises(BadMessage):
                rater.send("headphones", answers=wrong)
    assert good.send("headphones", answers=good.headphones(kind, wrong=allowed))["stage"] == "trials"
    seeds = [check_seed(bad.row(), tries) for tries in (0, 1)]
    assert seeds[0] != seeds[1]
    assert world.listening.sounds.headphone(bad.rater_id, 0) == headphone_trial(kind, seeds[0], 0).wav
    assert bad.send("headphones", answers=bad.headphones(kind, wrong=allowed + 1))["stage"] == "headphones"
    assert world.listening.sounds.headphone(bad.rater_id, 0) == headphone_trial(kind, seeds[1], 0).wav
    assert bad.send("headphones", answers=bad.headphones(kind, wrong=6))["stage"] == "screened_out"
    verdicts = Counter((p.rater_id, p.verdict) for p in world.all(Passage) if p.stage == "headphones")
    assert verdicts == {(good.rater_id, "ok"): 1, (bad.rater_id, "fail"): 2}


def test_unplayable_check_excludes_nobody(world: World) -> None:
    """Its verdict is unknown; where headphones are not required a failed check is only recorded."""
    world.campaign(gated(headphones="woods", headphones_required=True))
    world.campaign(gated(headphones="woods"), name="second")
    broken, poor = world.join("broken"), world.join("poor", "second")
    broken.to_trials()
    poor.to_trials()
    assert broken.send("headphones", error="decodeAudioData: " + "x" * 9000)["stage"] == "trials"
    assert poor.send("headphones", answers=poor.headphones("woods", wrong=6))["stage"] == "trials"
    verdicts = {p.rater_id: p for p in world.all(Passage) if p.stage == "headphones"}
    assert verdicts[broken.rater_id].verdict == "unknown" and verdicts[poor.rater_id].verdict == "fail"
    assert len(verdicts[broken.rater_id].data) < 600


def test_stage_is_accepted_once_and_in_order(world: World) -> None:
    """Not from a second tab, an old page, for a stage without a form, or an invented one."""
    world.campaign()
    anna = world.join("anna")
    anna.send("consent", agreed=True, version=3)
    for stage in ("consent", "trials", "comments", "done", "level", "", "x" * 500, "\0"):
        with pytest.raises(NotThisStage):
            anna.send(stage, agreed=True, version=3)
    anna.send("instructions")
    for stage in ("trials", "comments", "done"):
        with pytest.raises(NotThisStage):
            anna.send(stage)
    assert len(world.all(Passage)) == 2


def test_stage_out_of_order_names_the_current_one(world: World) -> None:
    """The message never names one stage as both current and not current."""
    world.campaign()
    anna = world.begin("anna")
    for stage, message in {
        "consent": "the step 'consent' is behind you already: you are at 'trials'; reload the page to go on",
        "trials": "the step 'trials' is passed by answering its trials",
        "comments": "the step 'comments' is still to come: you are at 'trials'",
        "done": "the step 'done' is still to come",
        "level": "this test has no step 'level'; its steps are consent, instructions, trials, comments, done",
    }.items():
        with pytest.raises(NotThisStage, match=re.escape(message)):
            anna.send(stage)
    anna.finish()
    for stage in ("comments", "done", "consent"):
        with pytest.raises(NotThisStage, match="this session has ended"):
            anna.send(stage)


def test_list_is_assigned_once_and_resumed(world: World) -> None:
    """Every screen has a position and slots; a reload shows the same; an answer advances by one."""
    world.campaign(gated(training=1, traps=1), items=[*items_of(4), *items_of(1, "training"), *items_of(1, "trap")])
    anna = world.join("anna")
    shown = anna.to_trials()
    assert (shown["trial"]["position"], shown["trial"]["of"], shown["trial"]["practice"]) == (0, 6, True)
    for position in range(6):
        first, again = anna.next(), anna.next()
        assert first == again and first["trial"]["position"] == position
        anna.answer(first)
    trials = sorted(world.all(Trial), key=lambda t: t.position)
    assert [t.position for t in trials] == list(range(6)) and trials[0].role == "training"
    assert Counter(t.role for t in trials) == {"training": 1, "test": 4, "trap": 1}
    assert trials[1].role == "test", "never a check first"
    assert all(t.issued_at for t in trials)
    assert anna.next()["stage"] == "comments"
    assert anna.send("comments", comment="x\0" * 9000)["stage"] == "done"
    assert anna.row().finished_at is not None
    slots = {s.trial_id: s.stimulus_id for s in world.all(Slot)}
    assert all(slots[t.id] == t.lead for t in trials)


def test_repeats_are_shown_as_before(world: World) -> None:
    """The same sounds in the same order, under a new id, outside all quotas."""
    world.campaign(replace(AB, repeats=2))
    anna = world.begin("anna")
    screens = list(anna.trials("a"))
    trials = {t.id: t for t in world.all(Trial)}
    slots: dict[str, list[int]] = {}
    for slot in sorted(world.all(Slot), key=lambda s: s.slot):
        slots.setdefault(slot.trial_id, []).append(slot.stimulus_id)
    assert [trials[s["trial"]["trial"]].role for s in screens] == ["test"] * 4 + ["repeat"] * 2
    for repeat in (t for t in trials.values() if t.role == "repeat"):
        (first,) = (t for t in trials.values() if t.role == "test" and t.unit == repeat.unit)
        assert slots[first.id] == slots[repeat.id]
    assert Counter(t.role for t in trials.values()) == {"test": 4, "repeat": 2}


def test_breaks_come_between_screens(world: World) -> None:
    """After every second answer, not before the first."""
    world.campaign(replace(ACR, break_after=2, show_text=False))
    anna = world.begin("anna")
    screens = list(anna.trials())
    assert [s["trial"]["break_before"] for s in screens] == [False, False, True, False]
    assert all(s["trial"]["text"] is None for s in screens)
