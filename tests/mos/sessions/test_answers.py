"""Answers: durable, acknowledged once, accepted or refused as a whole."""

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.world import AB, ACR, CLIP_MS, RaterSession, World, reply
from pydantic import ValidationError
from sqlalchemy import update

from studio.mos.campaign.config import Question
from studio.mos.kinds.base import BadAnswer
from studio.mos.sessions import answers, stages
from studio.mos.sessions.answers import MAX_ATTEMPTS, count_answers
from studio.mos.sessions.stages import NotThisStage
from studio.mos.store.access import Forbidden, TooMany
from studio.mos.store.tables import (
    Answer,
    AnswerCreate,
    Choice,
    Passage,
    Play,
    PlayCreate,
    Rater,
    Score,
    Stimulus,
    System,
    Trial,
)

TWO = replace(ACR, questions=[Question("naturalness", "", 1, 5), Question("coherence", "", 1, 7)])


@pytest.fixture
def anna(world: World) -> RaterSession:
    """A rater at the first screen of the small ACR campaign."""
    world.campaign()
    return world.begin("anna")


def stored(world: World) -> tuple[int, ...]:
    """Row counts of the answer tables."""
    return tuple(len(world.all(table)) for table in (Answer, Score, Choice, Play))


def test_answer_is_stored_as_given(world: World) -> None:
    """Scores with their scales, plays, time and comment."""
    world.campaign(TWO)
    anna = world.join("anna")
    sent = reply(anna.to_trials(), 4).model_copy(update={"comment": "a hiss \0 at the end", "response_ms": 1234.5})
    ack = world.listening.answer(anna.rater_id, sent).result(10)
    assert (ack.trial, ack.attempt, ack.counted, ack.repeated) == (sent.trial, 1, True, False)
    (row,), scores, (play,) = world.all(Answer), world.all(Score), world.all(Play)
    assert (row.trial_id, row.attempt, row.counted, row.response_ms) == (sent.trial, 1, 1, 1234.5)
    assert row.comment == "a hiss  at the end"
    assert {(s.question, s.slot, s.value, s.low, s.high) for s in scores} == {
        ("naturalness", 0, 4, 1, 5),
        ("coherence", 0, 4, 1, 7),
    }
    assert (play.slot, play.plays, play.heard_ms) == (0, 1, CLIP_MS)
    assert world.all(Choice) == []


def test_choice_names_the_shown_system(world: World) -> None:
    """``a`` is slot 0; slots map the choice to a system."""
    world.campaign(AB)
    anna = world.begin("anna")
    anna.finish("b")
    assert Counter(c.outcome for c in world.all(Choice)) == {"b": 4} and world.all(Score) == []
    trials = {t.id: t for t in world.all(Trial)}
    stimuli = {s.id: s for s in world.all(Stimulus)}
    for answer in world.all(Answer):
        lead = stimuli[trials[answer.trial_id].lead]
        assert lead.item_id == trials[answer.trial_id].item_id


def test_resent_answer_is_acknowledged_again(anna: RaterSession) -> None:
    """Any number of times and with other timings; nothing more is stored."""
    sent = reply(anna.next())
    first = anna.world.listening.answer(anna.rater_id, sent).result(10)
    before = stored(anna.world)
    for again in (sent, sent.model_copy(update={"response_ms": 9.0}), sent.model_copy(update={"plays": []})):
        ack = anna.world.listening.answer(anna.rater_id, again).result(10)
        assert (ack.attempt, ack.counted, ack.repeated) == (1, True, True)
    assert first.trial == sent.trial and stored(anna.world) == before
    assert anna.next()["trial"]["position"] == 1


def test_different_answer_is_stored_as_another_attempt(anna: RaterSession) -> None:
    """It does not count or advance the rater, and each is acknowledged under its own attempt."""
    shown = anna.next()
    anna.answer(shown, 4)
    other = anna.answer(shown, 2)
    assert (other.attempt, other.counted, other.repeated) == (2, False, False)
    assert (anna.answer(shown, 2).attempt, anna.answer(shown, 2).repeated) == (2, True)
    assert anna.answer(shown, 4).counted
    assert anna.answer(shown, 1).attempt == 3
    assert sorted((a.attempt, a.counted) for a in anna.world.all(Answer)) == [(1, 1), (2, 0), (3, 0)]
    assert anna.next()["trial"]["position"] == 1
    assert len(anna.finish()) == 3
    assert anna.answer(shown, 5).attempt == 4, "also after the end"
    assert anna.row().stage == "done"
    with anna.world.store.read() as session:
        assert count_answers(session, anna.world.campaign_id()) == {"test": 4}


def test_two_tabs_at_once(anna: RaterSession) -> None:
    """Exactly one of concurrent answers counts; attempts are numbered."""
    shown = anna.next()
    acks: list[Any] = []
    threads = [threading.Thread(target=lambda v=v: acks.append(anna.answer(shown, v))) for v in (1, 2, 3, 4, 5) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Counter(a.repeated for a in acks) == {True: 10, False: 5}
    assert sorted(a.attempt for a in acks if not a.repeated) == [1, 2, 3, 4, 5]
    assert len([a for a in anna.world.all(Answer) if a.counted]) == 1


def test_screen_of_another_rater_is_refused(anna: RaterSession) -> None:
    """As is an unknown one; nothing is stored."""
    bert = anna.world.join("bert")
    bert.to_trials()
    with pytest.raises(Forbidden):
        bert.answer(anna.next())
    shown = bert.next()
    shown["trial"]["trial"] = "ab" * 12
    with pytest.raises(Forbidden):
        bert.answer(shown)
    assert stored(anna.world) == (0, 0, 0, 0)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_unheard_sounds_cannot_be_rated(world: World, share: float) -> None:
    """Every sound has to be played as long as required, within 250 ms; otherwise nothing is stored."""
    world.campaign(replace(AB, must_listen=share))
    anna = world.join("anna")
    shown = anna.to_trials()
    needed_ms = max(0.0, share * CLIP_MS - 250.0)
    if needed_ms:
        sent = reply(shown, "tie", needed_ms)
        for plays in ([], sent.plays[:1], [sent.plays[0], PlayCreate(slot=1, plays=1, heard_ms=needed_ms - 1)]):
            with pytest.raises(BadAnswer, match="sound"):
                world.listening.answer(anna.rater_id, sent.model_copy(update={"plays": plays})).result(10)
        assert stored(world) == (0, 0, 0, 0)
    assert anna.answer(shown, "tie", needed_ms).counted


def test_mismatched_answer_stores_nothing(anna: RaterSession) -> None:
    """The screen stays open and the correct answer is the first attempt."""
    shown = anna.next()
    for value in (0, 6, 100):
        with pytest.raises(BadAnswer):
            anna.answer(shown, value)
    assert stored(anna.world) == (0, 0, 0, 0)
    assert anna.next()["trial"] == shown["trial"]
    assert anna.answer(shown, 5).attempt == 1


def test_plays_cover_the_sounds_of_the_screen(anna: RaterSession) -> None:
    """One row per sound of the screen, whatever a page sends."""
    sent = reply(anna.next())
    odd = [*sent.plays, PlayCreate(slot=9, plays=3, heard_ms=1.0), PlayCreate(slot=0, plays=2, heard_ms=900.0)]
    anna.world.listening.answer(anna.rater_id, sent.model_copy(update={"plays": odd})).result(10)
    assert [(p.slot, p.plays, p.heard_ms) for p in anna.world.all(Play)] == [(0, 2, 900.0)]


def test_withdrawn_rater_cannot_answer(anna: RaterSession) -> None:
    """A second tab's answer is refused after withdrawal; an acknowledged one stays acknowledged."""
    first = anna.next()
    anna.answer(first)
    second = anna.next()
    anna.world.listening.withdraw(anna.rater_id).result(10)
    for shown, value in ((second, 4), (first, 1)):
        with pytest.raises(NotThisStage):
            anna.answer(shown, value)
    assert anna.answer(first, 4).repeated
    assert anna.row().stage == "withdrawn" and len(anna.world.all(Answer)) == 1


def test_last_answer_ends_the_trials(anna: RaterSession) -> None:
    """In any order of answering."""
    screens = list(anna.trials())
    assert len(screens) == 4
    assert anna.next()["stage"] == anna.row().stage == "comments"
    assert {s["trial"]["of"] for s in screens} == {4}


def test_answers_belong_to_their_system(world: World) -> None:
    """Over a whole campaign each score is of the sound in its slot (one system gets fives, the other ones)."""
    world.campaign(replace(ACR, raters_per_stimulus=2))
    for n in range(4):
        rater = world.begin(f"rater {n}")
        systems = {s.id: s.name for s in world.all(System)}
        stimuli = {s.id: systems[s.system_id] for s in world.all(Stimulus)}
        lead = {t.id: stimuli[t.lead] for t in world.all(Trial)}
        while (shown := rater.next())["stage"] == "trials":
            rater.answer(shown, 5 if lead[shown["trial"]["trial"]] == "nightjar" else 1)
    scores: dict[str, set[int]] = {}
    answers = {a.id: a.trial_id for a in world.all(Answer)}
    for score in world.all(Score):
        scores.setdefault(lead[answers[score.answer_id]], set()).add(score.value)
    assert scores == {"nightjar": {5}, "zebrafinch": {1}}
    assert len(answers) == 16


_numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**70), 2**70)


@settings(max_examples=60, deadline=None)
@given(heard=_numbers, response=_numbers, trial=st.text(max_size=80))
def test_out_of_range_values_are_refused_before_the_database(heard: float, response: float, trial: str) -> None:
    """No NaN, infinity or invalid identifier."""
    day_ms = 86_400_000
    if not 0 <= heard <= day_ms:
        with pytest.raises(ValidationError):
            PlayCreate(slot=0, plays=0, heard_ms=heard)
    if not 0 <= response <= day_ms:
        with pytest.raises(ValidationError):
            AnswerCreate(trial="ab" * 12, response_ms=response)
    if not (8 <= len(trial) <= 64 and set(trial) <= set("0123456789abcdef")):
        with pytest.raises(ValidationError):
            AnswerCreate(trial=trial)


def test_attempts_per_screen_are_limited(world: World) -> None:
    world.campaign()
    anna = world.join("anna")
    shown = anna.to_trials()
    for n in range(MAX_ATTEMPTS + 5):
        sent = reply(shown, 1 + n % 5).model_copy(update={"comment": str(n)})
        acknowledged = world.listening.answer(anna.rater_id, sent).result(10)
        assert (acknowledged.counted, acknowledged.attempt) == (n == 0, min(n + 1, MAX_ATTEMPTS))
    assert len(world.all(Answer)) == MAX_ATTEMPTS == answers.MAX_ATTEMPTS
    first = reply(shown, 1).model_copy(update={"comment": "0"})
    assert world.listening.answer(anna.rater_id, first).result(10).repeated, "stored answers are still acknowledged"


def test_joins_by_one_link_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_UNFINISHED", 3)
    world.campaign()
    for n in range(3):
        world.join(f"P{n}").agree()
    with pytest.raises(TooMany) as refused:
        world.join("P3").agree()
    assert refused.value.retry_s == 3600
    assert world.join("P1").joined_at == "instructions", "an existing rater may return"
    assert world.join("looker", role="preview").agree()
    assert len([r for r in world.all(Rater) if r.role == "panel"]) == 3


def test_finished_raters_free_joins_and_the_limit_is_daily(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_UNFINISHED", 1)
    world.campaign()
    rater_session = world.begin("P0")
    with pytest.raises(TooMany):
        world.join("P1").agree()
    rater_session.finish(4)
    world.join("P1").agree()
    with pytest.raises(TooMany):
        world.join("P2").agree()
    yesterday = time.time() - 90_000
    world.store.write_now(lambda session: session.connection().execute(update(Rater).values(joined_at=yesterday)))
    world.join("P2").agree()


def test_repeated_withdrawal_is_stored_once(world: World) -> None:
    world.campaign()
    anna = world.begin("anna")
    before = len(world.all(Passage))
    for _ in range(5):
        world.listening.withdraw(anna.rater_id).result(10)
    assert len(world.all(Passage)) == before + 1
