"""A standing arena on both databases: battles, caps, sides, what a vote reveals, the ladder."""

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from mos.world import AB, NATURAL, RaterSession, World, items_of

from studio.core.errors import BadOption
from studio.mos.analysis.results import analysed_answers, results
from studio.mos.campaign.config import Arena, Gates, StopRule, from_json
from studio.mos.campaign.design import Unit
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.import_export.export import export_rows
from studio.mos.kinds.registry import kind_of
from studio.mos.kinds.tables import votes_of
from studio.mos.report.arena import arena_ladder, arena_votes, ladder_page
from studio.mos.report.page import html
from studio.mos.sessions import assignment
from studio.mos.sessions.campaigns import NotOpen, find_campaign
from studio.mos.sessions.erasure import erase_rater
from studio.mos.sessions.pairing import BattleTally, choose_battle, pair_of
from studio.mos.sessions.takes import FinishedTake, Keystroke, Typing
from studio.mos.store.tables import (
    Answer,
    AnswerCreate,
    AnswerPublic,
    ChoiceCreate,
    PlayCreate,
    Rater,
    Slot,
    Stimulus,
    Take,
    Trial,
)

NAMES = ("zebrafinch", "nightjar", "wagtail")
SYSTEMS = tuple(SystemSpec(name, voice={"voice": "tone", "speaker": name}) for name in NAMES)
FREE = Arena(min_votes=4, per_day=100, per_pair=100, max_chars=80)
ARENA = replace(AB, kind="arena", choices=["a", "b", "tie", "both_bad"], arena=FREE)


def opened(world: World, arena: Arena = FREE, systems: tuple[SystemSpec, ...] = SYSTEMS, items: int = 2) -> None:
    world.campaign(replace(ARENA, arena=arena), "ring", systems, items_of(items))


def visitor(world: World, who: str = "v1") -> RaterSession:
    return world.begin(who, "ring")


def speak(rater: RaterSession, trial: str, text: str = "Hello  there ") -> None:
    for slot in (0, 1):
        made = FinishedTake(trial, slot, Typing([Keystroke(0.0, 0, 0, text)], 400.0), 24_000, 24_000, 30.0, late_ms=0.0)
        rater.world.listening.store_take(rater.rater_id, made, f"{trial}{slot}".encode()).result(30)


def fight(rater: RaterSession, outcome: str = "a", text: str = "Hello there", best: str = "") -> AnswerPublic:
    """One battle from its screen to its vote; ``best`` wins if it takes part."""
    trial = rater.next()["trial"]["trial"]
    speak(rater, trial, text)
    if best:
        names = names_of(rater.world, trial)
        outcome = "ab"[names.index(best)] if best in names else "tie"
    plays = [PlayCreate(slot=slot, plays=1, heard_ms=1000.0) for slot in (0, 1)]
    choices = [ChoiceCreate(question="preference", outcome=outcome)]
    answer = AnswerCreate(trial=trial, choices=choices, plays=plays)
    return rater.world.listening.answer(rater.rater_id, answer).result(30)


def names_of(world: World, trial: str) -> list[str]:
    with world.store.read() as session:
        return assignment.system_names(session, trial)


def of(world: World, work: Any) -> Any:
    """The result of ``work`` on (session, campaign, run) of the arena."""
    with world.store.read() as session:
        row = find_campaign(session, "ring")
        return work(session, row, world.listening.run_of(session, row))


def test_battle_vote_names_and_next_battle(world: World) -> None:
    opened(world)
    rater = world.join("v1", "ring")
    assert world.all(Rater) == [], "nothing is stored without consent"
    shown = rater.to_trials()
    assert (shown["stage"], shown["screen"]["kind"], shown["screen"]["max_chars"]) == ("trials", "arena", 80)
    assert (shown["trial"]["position"], shown["trial"]["of"]) == (0, 0)
    assert not [name for name in NAMES if name in json.dumps(shown)]
    result = fight(rater)
    assert result.voices == names_of(world, result.trial) and result.counted
    again = rater.next()
    assert again["trial"]["trial"] != result.trial and again["trial"]["position"] == 1
    assert rater.next()["trial"]["trial"] == again["trial"]["trial"], "one battle at a time"
    assert len(world.all(Trial)) == 2 and rater.row().finished_at is not None and rater.row().stage == "trials"


def test_one_vote_per_battle_after_hearing_both(world: World) -> None:
    opened(world)
    rater = visitor(world)
    trial = rater.next()["trial"]["trial"]
    early = AnswerCreate(trial=trial, choices=[ChoiceCreate(question="preference", outcome="a")])
    with pytest.raises(Exception, match="both voices have to be heard first"):
        world.listening.answer(rater.rater_id, early).result(30)
    speak(rater, trial)
    with pytest.raises(Exception, match="not heard to its end"):
        world.listening.answer(rater.rater_id, early).result(30)
    assert fight(rater, "a").counted
    twice = AnswerCreate(
        trial=trial,
        choices=[ChoiceCreate(question="preference", outcome="b")],
        plays=[PlayCreate(slot=slot, plays=1, heard_ms=1000.0) for slot in (0, 1)],
    )
    second = world.listening.answer(rater.rater_id, twice).result(30)
    assert (second.counted, second.voices) == (False, None)
    assert Counter(a.counted for a in world.all(Answer)) == {1: 1, 0: 1}


def test_caps_per_day_and_per_pair(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(world, replace(FREE, per_day=3, per_pair=2), SYSTEMS[:2])
    rater = visitor(world)
    fight(rater)
    fight(rater)
    rest = rater.next()
    assert (rest["stage"], rest["why"], rest["wait_s"]) == ("rest", "pairs", None), "the only pair was theirs twice"
    assert fight(visitor(world, "v2")).counted, "other raters continue"
    world.campaign(replace(ARENA, arena=replace(FREE, per_day=3)), "daily", SYSTEMS, items_of(1))
    daily = world.begin("v1", "daily")
    for _ in range(3):
        fight(daily)
    rest = daily.next()
    assert (rest["stage"], rest["why"]) == ("rest", "day") and 86_000 < rest["wait_s"] <= 86_400
    assert len([t for t in world.all(Trial) if t.rater_id == daily.rater_id]) == 3, "requests create none"
    now = assignment.time.time()
    monkeypatch.setattr(assignment.time, "time", lambda: now + 86_401)
    assert daily.next()["stage"] == "trials"


def test_closed_arena_starts_no_battle_and_finishes_the_open_one(world: World) -> None:
    opened(world)
    rater = visitor(world)
    world.set_state("closed", "ring")
    world.listening.clear_campaign_cache()
    assert fight(rater).counted
    with pytest.raises(NotOpen):
        rater.next()


def test_preview_is_neither_capped_nor_counted(world: World) -> None:
    opened(world, replace(FREE, per_day=1, per_pair=1), SYSTEMS[:2])
    looker = world.begin("owner", "ring", role="preview")
    for _ in range(3):
        fight(looker)
    found = of(world, arena_ladder)
    assert (found.votes, found.raters, list(found.steps), list(found.unranked)) == (0, 0, [], sorted(NAMES[:2]))
    page = ladder_page([(found, "/rate", {})])
    assert "No votes yet" in page and 'href="./"' in page  # the way to the Live page
    assert sum(of(world, lambda session, _, run: assignment.count_battles(session, run)).votes.values()) == 0


def test_sides_are_balanced_within_every_pair(world: World) -> None:
    opened(world)
    for k in range(3):
        rater = visitor(world, f"v{k}")
        for _ in range(8):
            fight(rater)
    system_of = {s.id: s.system_id for s in world.all(Stimulus)}
    led: Counter[tuple[tuple[int, ...], int]] = Counter()
    slots = {(s.trial_id, s.slot): system_of[s.stimulus_id] for s in world.all(Slot)}
    for trial in {key[0] for key in slots}:
        pair = tuple(sorted((slots[trial, 0], slots[trial, 1])))
        led[pair, slots[trial, 0]] += 1
    for pair in {key[0] for key in led}:
        assert abs(led[pair, pair[0]] - led[pair, pair[1]]) <= 1
    battles_of = Counter(pair for pair, _ in led.elements())
    assert len(battles_of) == 3 and min(battles_of.values()) >= 5, "every pair is played"


UNITS = [
    Unit(f"{item}:{a}+{b}", item, (100 * item + a, 100 * item + b), (a, b))
    for item in (1, 2)
    for a, b in ((1, 2), (1, 3), (2, 3))
]


def tally(**votes: tuple[float, float]) -> BattleTally:
    """Votes by pair, ``p12=(won by 1, won by 2)``."""
    found = BattleTally()
    for name, (first, second) in votes.items():
        pair = (int(name[1]), int(name[2]))
        found.wins[pair], found.votes[pair] = first, int(first + second)
    return found


def test_next_pair_is_the_most_informative_one() -> None:
    """1 and 2 have met often; 3 is new and meets either, by chance."""
    known = tally(p12=(20, 20), p13=(1, 1), p23=(1, 1))
    drawn = Counter(
        pair_of(placed.unit)
        for seed in range(60)
        if (placed := choose_battle(UNITS, known, BattleTally(), replace(FREE, explore=0.0), Random(seed)))
    )
    assert set(drawn) == {(1, 3), (2, 3)} and min(drawn.values()) > 10
    known.open_battles[1, 3] = 3  # open battles count as future votes
    placed = choose_battle(UNITS, known, BattleTally(), replace(FREE, explore=0.0), Random(1))
    assert placed is not None and pair_of(placed.unit) == (2, 3)


def test_share_of_battles_explores_and_caps_always_hold() -> None:
    known = tally(p12=(20, 20), p13=(1, 1), p23=(1, 1))
    pairs = [
        pair_of(placed.unit)
        for seed in range(400)
        if (placed := choose_battle(UNITS, known, BattleTally(), replace(FREE, explore=0.5), Random(seed)))
    ]
    assert 0.1 < pairs.count((1, 2)) / 400 < 0.24  # a third of a half
    mine = BattleTally()
    mine.votes |= {(1, 3): 2, (2, 3): 2}
    for explore in (0.0, 1.0):
        placed = choose_battle(UNITS, known, mine, Arena(per_pair=2, explore=explore), Random(5))
        assert placed is not None and pair_of(placed.unit) == (1, 2)
    mine.votes[1, 2] = 2
    assert choose_battle(UNITS, known, mine, Arena(per_pair=2), Random(5)) is None


def test_script_of_a_vote_is_the_typed_text(world: World) -> None:
    opened(world)
    one, two = visitor(world, "v1"), visitor(world, "v2")
    fight(one, text="Good  Morning ")
    fight(two, text="good morning")
    fight(one, text="something else")
    with world.store.read() as session:
        row = find_campaign(session, "ring")
        judged = analysed_answers(session, row)
        exported = list(export_rows(session, row))
        whole = results(session, row)
    items = [a.item for a in judged]
    assert items[0] == items[1] != items[2] and all(i.startswith("typed-") for i in items)
    assert [r["item"] for r in exported] == items
    assert not {"morning", "something"} & {word for i in items for word in i.split()}
    assert whole["tables"]["choices"]["n"] == 3 and (whole["wanted"], whole["answers"]) == (0, 3)
    assert whole["funnel"] == [{"stage": "consent", "raters": 2}, {"stage": "instructions", "raters": 2}]
    report = html(whole)
    assert "none (open-ended); per rater 100 battles a day" in report and "answers wanted" not in report
    ours, theirs = of(world, lambda *given: arena_votes(given[0], given[1], given[2])), votes_of(judged)
    assert [ours.systems[k] for k in ours.a] == [theirs.systems[k] for k in theirs.a]
    assert [ours.items[k] for k in ours.item] == [theirs.items[k] for k in theirs.item]


def test_ladder_ranks_as_the_results_and_is_provisional_at_first(world: World) -> None:
    opened(world, replace(FREE, explore=1.0))
    raters = [visitor(world, f"v{k}") for k in range(4)]
    for k in range(12):
        fight(raters[k % 4], text=f"text {k % 5}", best="nightjar")
    found = of(world, arena_ladder)
    elo = world.read(results, "ring")["tables"]["choices"]["elo"]["gamma"]["systems"]
    assert found.votes == 12 and found.raters == 4
    for step in found.steps:
        assert (step.elo, step.low, step.high) == (elo[step.name]["elo"], elo[step.name]["lo"], elo[step.name]["hi"])
        assert step.is_provisional == (step.votes < 4) and step.best <= step.worst
    assert found.steps[0].name == "nightjar" and [s.elo for s in found.steps] == sorted(
        (s.elo for s in found.steps), reverse=True
    )
    page = ladder_page([(found, "/rate?test=1&key=<2>", {})])
    assert "nightjar" in page and "&lt;2&gt;" in page and 'href="./rate?test=1&amp;key=' in page
    names = [r.pseudonym for r in world.all(Rater)]
    assert not [secret for secret in (*names, "text 1", "typed-") if secret in page]
    few = of(world, lambda s, c, run: arena_ladder(s, c, replace(run, config=replace(run.config, arena=Arena()))))
    assert [(s.name, s.low, s.high, s.is_provisional) for s in few.steps] == [
        (s.name, s.low, s.high, True) for s in found.steps
    ], "the same figures, from the first votes on"
    page = ladder_page([(few, "/rate", {})])
    assert page.count("<span>provisional</span>") == len(few.steps) and "fewer than 30 votes" in page
    assert not any(s.is_provisional for s in found.steps if s.votes >= 4)


def test_ladder_of_one_vote_has_singulars_and_the_titles_of_the_table(world: World) -> None:
    opened(world)
    voices = fight(visitor(world, "v1")).voices
    titles = {name: f"Title of {name}" for name in NAMES}
    page = ladder_page([(of(world, arena_ladder), "/rate", titles)])
    for one in ("<dt>vote</dt><dd>1</dd>", "<dt>voter</dt><dd>1</dd>", "scores of 1 vote by 1 person"):
        assert one in page
    assert voices
    for name in voices:
        assert f'<p class="note">Title of {name}: ' in page and f'<p class="note">{name}: ' not in page


def test_erased_rater_takes_votes_and_texts_along(world: World) -> None:
    opened(world)
    one, two = visitor(world, "v1"), visitor(world, "v2")
    fight(one, text="my secret")
    fight(two)
    done = erase_rater(world.store, world.listening.clips, world.listening.access, "ring", one.row().pseudonym)
    assert done.answers == 1
    assert of(world, arena_ladder).votes == 1 and len(world.all(Take)) == 2
    assert "secret" not in "".join(t.typed for t in world.all(Take))


@pytest.mark.parametrize(
    "wrong",
    [
        {"choices": ["a", "tie"]},
        {"stop": StopRule(decided=True)},
        {"repeats": 1},
        {"gates": Gates(traps=1)},
        {"questions": [NATURAL]},
    ],
)
def test_kinds_with_an_end_are_no_arena(wrong: dict[str, Any]) -> None:
    kind_of("arena").check(ARENA)
    with pytest.raises(BadOption):
        kind_of("arena").check(replace(ARENA, **wrong))


@pytest.mark.parametrize("wrong", [{"min_votes": 0}, {"per_day": 0}, {"explore": 1.5}, {"max_chars": 5000}])
def test_out_of_range_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="arena"):
        from_json({"kind": "arena", "arena": wrong})
