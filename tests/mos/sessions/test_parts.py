"""Parts: several kinds of test in one session."""

import json
from dataclasses import replace

import pytest
from mos.world import AB, ACR, RaterSession, World
from sqlmodel import Session

from studio.core.errors import BadOption
from studio.mos.analysis.results import funnel
from studio.mos.campaign.config import Arena, Completion, CompletionLink, StopRule, campaign_config, to_json
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.import_export.rater_export import rater_rows
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.erasure import erase_rater
from studio.mos.store.access import new_resume_code
from studio.mos.store.tables import Answer, Passage, Rater

ENDS = Completion(code="ALL-DONE", full=CompletionLink(code="FULL"))
FIRST = replace(ACR, then="second", completion=ENDS)
SECOND = replace(AB, completion=Completion(code="NEVER"))


@pytest.fixture
def two(world: World) -> World:
    """Scores, then pairs."""
    world.campaign(SECOND, "second")
    world.campaign(FIRST)
    return world


def to_second_part(rater_session: RaterSession) -> dict[str, object]:
    """Complete the first part; the next screen."""
    rater_session.to_trials()
    return complete_part(rater_session, 4)


def complete_part(rater_session: RaterSession, value: object = "a") -> dict[str, object]:
    """Answer all screens of a part; the next screen."""
    for _ in rater_session.trials(value):
        pass
    return rater_session.next()


def test_completed_part_is_followed_by_the_next(two: World) -> None:
    rater_session = two.join("ann")
    assert rater_session.next()["part"] == {"n": 1, "of": 2}
    shown = to_second_part(rater_session)
    assert shown["stage"] == "instructions" and shown["part"] == {"n": 2, "of": 2}
    assert shown["stages"] == ["instructions", "trials", "comments", "done"]
    assert rater_session.row().part == 2
    screen = rater_session.send("instructions")
    assert screen["screen"]["kind"] == "ab"
    assert complete_part(rater_session)["stage"] == "comments"
    done = rater_session.send("comments", comment="long")
    assert (done["stage"], done["code"]) == ("done", "ALL-DONE")
    first, second = two.all(Rater)
    assert (first.pseudonym, first.identity, first.panel) == (second.pseudonym, second.identity, second.panel)
    assert first.finished_at and second.finished_at and second.consent_version == 3
    assert [p.stage for p in two.all(Passage) if p.rater_id == second.id] == ["entered", "instructions", "comments"]
    with two.store.read() as session:
        parts = [next(iter(rater_rows(session, find_campaign(session, name))))["part"] for name in ("first", "second")]
    assert parts == [1, 2]


def test_old_links_and_tokens_lead_to_the_open_part(two: World) -> None:
    rater_session = two.join("ann")
    before = rater_session.agree().token
    to_second_part(rater_session)
    assert rater_session.token != before
    again = two.join("ann")
    assert again.rater_id == rater_session.rater_id and again.joined_at == "instructions"
    old = RaterSession(two, before, "")
    assert old.next()["stage"] == "instructions" and old.token == rater_session.token
    assert len(two.all(Rater)) == 2


def test_closed_next_part_is_skipped(two: World) -> None:
    two.set_state("closed", "second")
    ann = two.join("ann")
    assert to_second_part(ann)["stage"] == "comments"
    shown = ann.send("comments", comment="short")
    assert (shown["stage"], shown["code"]) == ("done", "ALL-DONE")
    two.set_state("open", "second")  # continues once there is room again
    assert ann.next()["stage"] == "instructions"
    ann.send("instructions")
    assert complete_part(ann)["stage"] == "done"  # the final comment is asked for once
    assert final_comments(two) == {"first": ["short"], "second": []}


def test_full_part_is_left_out(world: World) -> None:
    world.campaign(replace(SECOND, raters_per_stimulus=1, trials_per_sitting=4), "second")
    world.campaign(FIRST)
    ann, ben, cleo = world.join("ann"), world.join("ben"), world.join("cleo")
    assert to_second_part(ann)["stage"] == to_second_part(ben)["stage"] == "instructions"
    ann.send("instructions")
    assert ben.send("instructions")["stage"] == "comments"  # nothing more is left for them
    late = ben.next()
    assert late["stage"] == "comments" and "part" not in late
    late = ben.send("comments", comment="full")
    assert (late["stage"], late["code"]) == ("done", "ALL-DONE")
    assert to_second_part(cleo)["stage"] == "comments"
    found = {row["stage"]: row["raters"] for row in world.read(funnel, "second")}
    assert found["full"] == 1 and found["done"] == 0


def final_comments(world: World) -> dict[str, list[str]]:
    """Final comments by campaign."""
    with world.store.read() as session:
        return {
            name: [row["comment"] for row in rater_rows(session, find_campaign(session, name)) if row["comment"]]
            for name in ("first", "second")
        }


def test_final_comment_is_asked_for_in_every_browser(two: World) -> None:
    two.set_state("closed", "second")
    ann = two.join("ann")
    to_second_part(ann)
    again = two.join("ann")
    assert again.joined_at == "comments" and again.next()["stage"] == "comments"
    again.send("comments", comment="once")
    assert ann.next()["stage"] == "done"
    assert final_comments(two)["first"] == ["once"]


def test_begun_session_may_be_finished(two: World) -> None:
    rater_session = two.join("ann")
    to_second_part(rater_session)
    two.set_state("closed", "second")
    assert rater_session.send("instructions")["stage"] == "trials"


def test_preview_shows_every_part(world: World) -> None:
    world.campaign(SECOND, "second", state="draft")
    world.campaign(FIRST, state="draft")
    rater_session = world.join("ann", role="preview")
    assert to_second_part(rater_session)["part"] == {"n": 2, "of": 2}
    assert rater_session.row().role == "preview"


def test_rater_is_erased_in_every_part(two: World) -> None:
    for who in ("ann", "ben"):
        rater_session = two.join(who)
        to_second_part(rater_session)
        rater_session.send("instructions")
        complete_part(rater_session)
    kept = next(r.pseudonym for r in two.all(Rater) if "ben" in r.panel)
    listening = two.listening
    gone = erase_rater(two.store, listening.clips, listening.access, "second", "ann")
    assert gone.answers == 8 and {r.pseudonym for r in two.all(Rater)} == {kept} and len(two.all(Answer)) == 8


def test_resume_code_erases_in_a_later_part(two: World) -> None:
    code = new_resume_code()
    rater_session = two.sit(f"code|{code}", {})
    to_second_part(rater_session)
    listening = two.listening
    erase_rater(two.store, listening.clips, listening.access, "second", code)
    assert two.all(Rater) == []


def test_more_than_two_parts(world: World) -> None:
    world.campaign(replace(AB, completion=Completion(code="NO")), "third")
    world.campaign(replace(SECOND, then="third"), "second")
    world.campaign(FIRST)
    rater_session = world.join("ann")
    assert to_second_part(rater_session)["part"] == {"n": 2, "of": 3}
    rater_session.send("instructions")
    assert complete_part(rater_session)["part"] == {"n": 3, "of": 3} and rater_session.row().part == 3


def refused(world: World, config: object, name: str = "first", **more: object) -> str:
    """Why a campaign cannot be opened."""
    world.campaign(config, name, state="draft", **more)  # type: ignore[arg-type]
    with pytest.raises(BadOption) as error:
        world.set_state("open", name)
    return str(error.value)


def test_invalid_sequence_is_not_opened(world: World) -> None:
    assert "does not exist" in refused(world, FIRST)
    world.campaign(SECOND, "second", state="draft")
    assert "is not open" in refused(world, FIRST, "a")
    world.set_state("open", "second")
    other = replace(FIRST, texts=replace(FIRST.texts, consent="Something else?"))
    assert "another consent" in refused(world, other, "b")
    assert "would be repeated" in refused(world, replace(FIRST, then="c"), "c")
    voices = [SystemSpec(name, voice={"voice": "tone", "speaker": name}) for name in ("low", "high")]
    arena = replace(AB, kind="arena", arena=Arena(), stop=StopRule())
    assert "has no end" in refused(world, replace(arena, then="second"), "d", systems=voices)
    world.campaign(arena, "ring", systems=voices)
    assert "has no end" in refused(world, replace(FIRST, then="ring"), "e")
    world.set_state("open")


def changed(world: World, name: str, **changes: object) -> None:
    """Change a campaign's setting in the database, as a merge or an older studio may have left it."""

    def work(session: Session) -> None:
        campaign = find_campaign(session, name)
        campaign.config = json.dumps(to_json(replace(campaign_config(campaign), **changes)))
        session.add(campaign)

    world.store.write_now(work)
    world.listening.clear_campaign_cache()


def test_cycle_of_parts_terminates(two: World) -> None:
    changed(two, "second", then="first")
    rater_session = two.join("ann")
    assert to_second_part(rater_session)["part"]["n"] == 2
    rater_session.send("instructions")
    assert complete_part(rater_session)["stage"] == "comments"
    assert rater_session.send("comments", comment="round")["stage"] == "done"
    assert two.join("ann").next()["stage"] == "done" and len(two.all(Rater)) == 2
    two.set_state("closed")
    with pytest.raises(BadOption, match="would be repeated"):
        two.set_state("open")  # also one that is open already


def test_parts_with_different_consents_do_not_follow_each_other(two: World) -> None:
    changed(two, "second", texts=replace(SECOND.texts, consent="We sell your voice.", consent_version=4))
    ann = two.join("ann")
    assert to_second_part(ann)["stage"] == "comments"
    shown = ann.send("comments")
    assert (shown["stage"], shown["code"]) == ("done", "ALL-DONE") and "part" not in shown
    assert len(two.all(Rater)) == 1


def test_full_middle_part_does_not_end_the_session(world: World) -> None:
    world.campaign(replace(AB, completion=Completion(code="NO")), "third")
    world.campaign(replace(SECOND, then="third", raters_per_stimulus=1), "second")
    world.campaign(FIRST)
    ann, ben = world.join("ann"), world.join("ben")
    to_second_part(ann)
    ann.send("instructions")
    shown = to_second_part(ben)
    assert (shown["stage"], shown["title"]) == ("instructions", "Voices")
    assert ben.send("instructions")["stage"] == "trials"
    with world.store.read() as session:
        row = session.get(Rater, ben.rater_id)
        assert row is not None and row.campaign_id == find_campaign(session, "third").id


def test_old_token_leaves_the_open_part_unchanged(two: World) -> None:
    rater_session = two.join("ann")
    before = RaterSession(two, rater_session.agree().token, "")
    to_second_part(rater_session)
    two.listening.withdraw(before.rater_id).result(10)
    first, second = sorted(two.all(Rater), key=lambda rater: rater.part)
    assert (first.stage, second.stage) == ("done", "withdrawn")


def test_part_names_follow_the_rules_of_campaign_names() -> None:
    with pytest.raises(BadOption, match="not allowed"):
        replace(FIRST, then="a\0b")
