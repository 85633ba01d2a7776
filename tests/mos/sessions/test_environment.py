"""The environment test: its two noises are 10 dB apart and nothing else is, and what came of it is told."""

import io
import wave
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from mos.world import ACR, World

from studio.core.errors import BadMessage, BadOption
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import Gates
from studio.mos.import_export.export_answers import export_rows
from studio.mos.import_export.export_raters import rater_rows
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.environment import (
    LEVEL_DBFS,
    MIN_CORRECT,
    PAIRS,
    RATE_HZ,
    correct_answers,
    count_correct,
    environment_wav,
)
from studio.mos.sessions.stage_order import ordered_stages

SEEDS = (0, 7, 20_260_101)


def pcm(data: bytes) -> np.ndarray:
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE_HZ)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def level_db(samples: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(samples**2)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pair", range(PAIRS))
def test_two_sounds_differ_by_their_noise_alone(seed: int, pair: int) -> None:
    """In the pause before the first word there is noise alone: 50 and 40 dB below the voice."""
    both = [pcm(environment_wav(seed, 2 * pair + side)) for side in (0, 1)]
    assert len(both[0]) == len(both[1]) and 2.0 < len(both[0]) / RATE_HZ < 4.0
    pauses = [level_db(one[: round(0.29 * RATE_HZ)]) for one in both]
    better = correct_answers(seed)[pair]
    assert pauses[better] == pytest.approx(LEVEL_DBFS - 50, abs=0.3)
    assert pauses[1 - better] == pytest.approx(LEVEL_DBFS - 40, abs=0.3)
    apart = both[1 - better] - both[better]  # the same noise, more of it: 10 dB is 3.16 times, so 2.16 times the softer
    assert level_db(apart) == pytest.approx(LEVEL_DBFS - 50 + 20 * np.log10(10**0.5 - 1), abs=0.3)
    assert max(np.abs(one).max() for one in both) < 0.7


def test_the_same_seed_makes_the_same_and_half_of_the_first_are_better() -> None:
    assert [environment_wav(3, k) for k in range(8)] == [environment_wav(3, k) for k in range(8)]
    assert len({environment_wav(3, k) for k in range(8)}) == 8
    orders = {tuple(correct_answers(seed)) for seed in range(50)}
    assert len(orders) == 6 and {sum(order) for order in orders} == {2}
    places = Counter(answer for seed in range(50) for answer in correct_answers(seed)[:1])
    assert min(places.values()) > 12
    for index in (-1, 8):
        with pytest.raises(BadOption, match="0 to 7"):
            environment_wav(0, index)


def test_two_of_four_pass_and_no_difference_is_never_right() -> None:
    answers = correct_answers(5)
    assert (
        count_correct(5, answers) == 4
        and count_correct(5, [1 - a for a in answers]) == 0
        and count_correct(5, [2] * 4) == 0
    )
    assert count_correct(5, [*answers[:2], 2, 2]) == MIN_CORRECT == 2
    with pytest.raises(BadOption, match="has 4"):
        count_correct(5, answers[:3])


@pytest.mark.parametrize(
    ("required", "wrong", "verdict", "use"),
    [(False, 2, "ok", "unknown"), (False, 3, "fail", "unknown"), (True, 0, "ok", "ok")],
)
def test_it_is_told_and_exported_and_excludes_only_where_it_is_required(
    world: World, required: bool, wrong: int, verdict: str, use: str
) -> None:
    gate = Gates(environment=True, environment_required=required)
    config = replace(ACR, gates=gate)
    assert ordered_stages(config) == ["consent", "instructions", "level", "environment", "trials", "comments", "done"]
    world.campaign(config)
    one = world.join("one")
    one.to_trials()
    shown = one.send("level")
    assert (shown["stage"], shown["check"], shown["sounds"]) == ("environment", "environment", 4)
    assert world.listening.sounds.environment(one.rater_id, 7)[:4] == b"RIFF"
    with pytest.raises(BadMessage, match="environment test is not finished"):
        one.send("environment", answers=[0, 1])
    assert one.send("environment", answers=one.environment(wrong))["stage"] == "trials"
    one.finish()
    with world.store.read() as session:
        row = find_campaign(session, "first")
        [found] = rater_verdicts(session, row)
        [told] = rater_rows(session, row)
        assert {r["environment"] for r in export_rows(session, row)} == {verdict}
    assert (found.verdicts["environment"], found.use) == (verdict, use)
    assert (told["gate_environment"], told["environment_right"], told["environment_tries"]) == (verdict, 4 - wrong, 1)


def test_who_fails_twice_is_turned_away_where_it_is_required(world: World) -> None:
    world.campaign(replace(ACR, gates=Gates(level=False, environment=True, environment_required=True)))
    deaf = world.join("deaf")
    deaf.to_trials()
    first = deaf.environment()
    assert deaf.send("environment", answers=deaf.environment(4))["stage"] == "environment"
    assert len(deaf.environment()) == len(first) == 4
    assert deaf.send("environment", answers=deaf.environment(4))["stage"] == "screened_out"
    broken = world.join("broken")
    broken.to_trials()
    assert broken.send("environment", error="no sound")["stage"] == "trials"
    with world.store.read() as session:
        assert [j.verdicts["environment"] for j in rater_verdicts(session, find_campaign(session, "first"))] == [
            "fail",
            "unknown",
        ]


def test_nothing_is_required_of_who_was_not_asked() -> None:
    with pytest.raises(BadOption, match="environment_required"):
        Gates(environment_required=True)
