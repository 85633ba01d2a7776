"""Takes of a live screen in the store, on both databases: what counts, what is refused, what results report."""

from dataclasses import replace
from threading import Event

import pytest
from mos.world import AB, RaterSession, World, items_of

from studio.core.errors import BadFile, BadMessage, BadOption
from studio.mos.analysis.results import results
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.import_export.export import export_rows
from studio.mos.kinds.base import BadAnswer
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.takes import MAX_LATE_MS, MAX_TAKES, MISSES_TO_SKIP, FinishedTake, Keystroke, Typing
from studio.mos.store.access import Forbidden
from studio.mos.store.tables import Answer, AnswerCreate, ChoiceCreate, Play, PlayCreate, Take, Trial

LIVE = replace(AB, kind="live", trials_per_sitting=2)
VOICES = (
    SystemSpec("zebrafinch", voice={"voice": "lark", "speaker": "slt", "seed": 5, "m": 2, "temperature": 0.3}),
    SystemSpec("nightjar", voice={"voice": "", "speaker": "rms", "m": 3}),
)
HELLO = Typing([Keystroke(0.0, 0, 0, "hallo "), Keystroke(180.5, 1, 1, "e")], 400.0)
OTHER = Typing([Keystroke(0.0, 0, 0, "something else ")], 10.0)
TRACE = b"what was heard"


def keep(rater: RaterSession, trial: str, slot: int, typing: Typing = HELLO, **more: float) -> None:
    made = FinishedTake(trial, slot, typing, 24_000, 24_000 * (slot + 1), 30.0 + slot, late_ms=2.5 * slot)
    rater.world.listening.store_take(rater.rater_id, replace(made, **more), TRACE + bytes([slot])).result(30)


def vote(rater: RaterSession, trial: str) -> None:
    plays = [PlayCreate(slot=slot, plays=1, heard_ms=1000.0 * (slot + 1)) for slot in (0, 1)]
    choices = [ChoiceCreate(question="preference", outcome="b")]
    rater.world.listening.answer(rater.rater_id, AnswerCreate(trial=trial, choices=choices, plays=plays)).result(30)


@pytest.fixture
def rater(world: World) -> RaterSession:
    """At the first screen of a live test."""
    world.campaign(LIVE, systems=VOICES, items=items_of(2))
    return world.begin("p1")


def screen(rater: RaterSession) -> str:
    return rater.next()["trial"]["trial"]


def test_typed_text_is_stored_unchanged() -> None:
    assert Typing.from_json(HELLO.to_json()) == replace(HELLO, strokes=list(HELLO.strokes))
    assert HELLO.text() == "hello "


def test_part_names_the_system_and_the_text_to_repeat(rater: RaterSession) -> None:
    trial = screen(rater)
    said = {}
    with pytest.raises(BadMessage, match="nothing was typed"):
        rater.world.listening.slot_voice(rater.rater_id, trial, 1)
    keep(rater, trial, 0)
    for slot in (0, 1):
        part = rater.world.listening.slot_voice(rater.rater_id, trial, slot)
        said[part.voice.speaker] = part
        assert (part.typing is None) == (slot == 0)
    assert said["slt"].voice.options == {"m": 2} and said["slt"].voice.temperature == 0.3
    assert said["rms"].voice.voice == "" and said["rms"].voice.seed == 0


def test_vote_is_on_the_last_takes_of_one_text(rater: RaterSession) -> None:
    trial = screen(rater)
    keep(rater, trial, 0, OTHER)
    keep(rater, trial, 1, OTHER)
    keep(rater, trial, 0)
    with pytest.raises(BadMessage, match="both voices"):
        vote(rater, trial)
    keep(rater, trial, 1)
    vote(rater, trial)
    found = rater.world.read(results)["takes"]
    assert [(one["takes"], one["latency_ms"]) for one in found if one["late_ms"] is None] == [(1, 30.0)]
    assert [(one["takes"], one["late_ms"]) for one in found if one["late_ms"] is not None] == [(1, 2.5)]
    assert len(rater.world.all(Take)) == 4


def test_inaudible_screen_is_skipped_and_counted_missing(rater: RaterSession) -> None:
    """Only after several failed plays; it enters no count or table and its unit is reassigned."""
    trial, listening, world = screen(rater), rater.world.listening, rater.world
    keep(rater, trial, 0)
    skip = AnswerCreate(trial=trial, skipped=True)
    for n in range(1, MISSES_TO_SKIP + 1):
        with pytest.raises(BadAnswer, match="can be heard"):
            listening.answer(rater.rater_id, skip).result(30)
        may = listening.record_miss(rater.rater_id, trial, 1, "late", float("inf")).result(30)
        assert may == (n == MISSES_TO_SKIP)
    both = skip.model_copy(update={"choices": [ChoiceCreate(question="preference", outcome="a")]})
    with pytest.raises(BadAnswer, match="not both"):
        listening.answer(rater.rater_id, both).result(30)
    assert listening.answer(rater.rater_id, skip).result(30).counted
    assert listening.answer(rater.rater_id, skip).result(30).repeated
    [answer] = world.all(Answer)
    assert (answer.counted, answer.missing) == (1, "late") and not world.all(Play)
    assert [t.released for t in world.all(Trial) if t.id == trial] == [1], "its unit is reassigned"
    keep(rater, second := screen(rater), 0)
    assert second != trial
    keep(rater, second, 1)
    vote(rater, second)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        found, rows = results(session, campaign), list(export_rows(session, campaign))
    assert (found["answers"], found["skipped"], found["tables"]["choices"]["n"]) == (1, 1, 1)
    assert sum(one["takes"] for one in found["takes"]) == 2
    assert [(row["trial"], row["missing"], row["outcome"]) for row in rows] == [
        (trial, "late", None),
        (second, None, "b"),
    ]
    assert rater.next()["stage"] == "comments"


def test_only_live_screens_are_skipped(world: World) -> None:
    world.campaign()
    anna = world.join("anna")
    sent = AnswerCreate(trial=anna.to_trials()["trial"]["trial"], skipped=True)
    with pytest.raises(BadAnswer, match="can be heard"):
        world.listening.answer(anna.rater_id, sent).result(30)


def test_invalid_takes_are_refused(rater: RaterSession) -> None:
    trial, stranger = screen(rater), rater.world.join("p2")
    stranger.to_trials()
    with pytest.raises(Forbidden):
        keep(stranger, trial, 0)
    for bad in ({"late_ms": MAX_LATE_MS + 0.1}, {"samples": 0}):
        with pytest.raises(BadMessage):
            keep(rater, trial, 0, **bad)
    assert rater.world.all(Take) == []
    assert not list(rater.world.listening.clips.root.rglob("*.trace")), "nothing of them is left"
    for _ in range(MAX_TAKES):
        keep(rater, trial, 0)
    with pytest.raises(BadMessage, match="20 times"):
        rater.world.listening.slot_voice(rater.rater_id, trial, 0)


def test_orphaned_trace_is_deleted_before_the_reply(rater: RaterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    clips, asked, resolved = rater.world.listening.clips, Event(), []
    drop = clips.drop_trace

    def delayed(address: str) -> None:
        assert asked.wait(30)
        resolved.append(answer.done())
        drop(address)

    monkeypatch.setattr(clips, "drop_trace", delayed)
    made = FinishedTake(screen(rater), 0, HELLO, 24_000, 0, 30.0, 0.0)
    answer = rater.world.listening.store_take(rater.rater_id, made, TRACE)
    asked.set()
    with pytest.raises(BadMessage):
        answer.result(30)
    assert resolved == [False]


@pytest.mark.parametrize("voice", [None, {"voice": "teacher", "speaker": "slt"}])
def test_system_that_cannot_speak_is_refused(world: World, voice: dict[str, str] | None) -> None:
    with pytest.raises(BadOption, match="'nightjar' cannot be used in a live test"):
        world.campaign(LIVE, systems=(VOICES[0], SystemSpec("nightjar", voice=voice)))


def test_voices_of_two_sample_rates_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = world.clip
    rates = {"zebrafinch": 16_000, "nightjar": 24_000}
    monkeypatch.setattr(world, "clip", lambda item, system: replace(clip(item, system), source_rate_hz=rates[system]))
    with pytest.raises(BadFile, match="16000, 24000 Hz"):
        world.campaign(LIVE, systems=VOICES)
