"""One link and one screen make no more rows than there may be."""

import time

import pytest
from mos.world import World, reply
from sqlalchemy import update

from studio.mos.sessions import answers, stages
from studio.mos.sessions.answers import MAX_ATTEMPTS
from studio.mos.store.access import TooMany
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.raters import Passage, Rater


def test_attempts_at_one_screen_are_bounded(world: World) -> None:
    world.campaign()
    anna = world.join("anna")
    shown = anna.to_trials()
    for n in range(MAX_ATTEMPTS + 5):
        sent = reply(shown, 1 + n % 5).model_copy(update={"comment": str(n)})
        told = world.listening.answer(anna.rater_id, sent).result(10)
        assert (told.counted, told.attempt) == (n == 0, min(n + 1, MAX_ATTEMPTS))
    assert len(world.all(Answer)) == MAX_ATTEMPTS == answers.MAX_ATTEMPTS
    first = reply(shown, 1).model_copy(update={"comment": "0"})
    assert world.listening.answer(anna.rater_id, first).result(10).repeated, "what was kept is still acknowledged"


def test_joins_by_one_link_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_UNFINISHED", 3)
    world.campaign()
    for n in range(3):
        world.join(f"P{n}").agree()
    with pytest.raises(TooMany) as refused:
        world.join("P3").agree()
    assert refused.value.retry_s == 3600
    assert world.join("P1").joined_at == "instructions", "who was there before comes back"
    assert world.join("looker", role="preview").agree()
    assert len([r for r in world.all(Rater) if r.role == "panel"]) == 3


def test_there_is_room_again_for_those_who_finish_and_the_next_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "MAX_UNFINISHED", 1)
    world.campaign()
    rater_session = world.join("P0")
    rater_session.to_trials()
    with pytest.raises(TooMany):
        world.join("P1").agree()
    rater_session.finish(4)
    world.join("P1").agree()
    with pytest.raises(TooMany):
        world.join("P2").agree()
    yesterday = time.time() - 90_000
    world.store.write_now(lambda session: session.connection().execute(update(Rater).values(joined_at=yesterday)))
    world.join("P2").agree()


def test_leaving_again_and_again_is_noted_once(world: World) -> None:
    world.campaign()
    anna = world.join("anna")
    anna.to_trials()
    before = len(world.all(Passage))
    for _ in range(5):
        world.listening.withdraw(anna.rater_id).result(10)
    assert len(world.all(Passage)) == before + 1
