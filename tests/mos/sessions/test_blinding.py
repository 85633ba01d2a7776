"""Screens that play a sound twice: only listening may reveal which two are the same."""

import json
from pathlib import Path

import numpy as np
import pytest
from mos.recommended import NAMES, RATE_HZ, campaign, named_in, samples, screens, send, systems_of
from mos.world import SQLITE_ONLY, World

from studio.mos.kinds.base import BadAnswer


@pytest.mark.parametrize("name", ["mushra", "abx"])
@SQLITE_ONLY
def test_only_the_sound_reveals_which_two_are_the_same(world: World, tmp_path: Path, name: str) -> None:
    """Neither names, clip lengths nor clip bytes do."""
    campaign(world, tmp_path, name)
    rater_session = world.begin("curious", name)
    first: list[list[int]] = []
    for shown in screens(rater_session):
        assert not named_in(json.dumps(shown), (*NAMES[::2], "anchor", "kHz", "item"))
        assert shown["screen"]["kind"] == name
        trial, slots = shown["trial"]["trial"], shown["trial"]["slots"]
        by_slot, beside = systems_of(world, trial)
        fetched: dict[int, bytes] = {}
        for slot in slots:
            key = slot["url"].rsplit("/", 1)[1]
            got = world.listening.sounds.clip(rater_session.rater_id, trial, slot["slot"], key)
            assert isinstance(got, bytes)
            assert got == world.listening.sounds.clip(rater_session.rater_id, trial, slot["slot"], key)
            fetched[slot["slot"]] = got
        assert len({len(f) for f in fetched.values()}) == 1
        assert len(set(fetched.values())) == len(fetched)
        assert [s["slot"] for s in slots if s["place"] == "reference"] == [len(slots) - 1]
        sound = {s: samples(tmp_path, f) for s, f in fetched.items()}
        twin = next(s for s, system in by_slot.items() if system == beside)
        apart = [int(np.abs(sound[s] - sound[len(slots) - 1]).max()) for s in by_slot]
        assert apart[twin] == 1  # the same sound, and the others differ
        assert sorted(apart)[1] > 100
        first.append([twin])
        marks = (dict.fromkeys(by_slot, 50), None) if name == "mushra" else ({}, "a")
        longest_ms = len(sound[twin]) / RATE_HZ * 1000.0
        for slot in fetched:  # nor the refusal: each must be played as long as the longest
            with pytest.raises(BadAnswer, match=f"sound {slot + 1} was"):
                send(world, rater_session, shown, *marks, {slot: longest_ms - 251.0})
        send(world, rater_session, shown, *marks)
    assert len({str(f) for f in first}) > 1


@SQLITE_ONLY
def test_null_pair_looks_like_any_other(world: World, tmp_path: Path) -> None:
    """DCR, reference against itself: neither length nor bytes distinguish it from a degraded sound."""
    campaign(world, tmp_path, "dcr", trials_per_sitting=12)
    rater_session = world.begin("curious", "dcr")
    apart: dict[bool, list[int]] = {True: [], False: []}
    for shown in screens(rater_session):
        trial, slots = shown["trial"]["trial"], shown["trial"]["slots"]
        by_slot, beside = systems_of(world, trial)
        keys = [slot["url"].rsplit("/", 1)[1] for slot in slots]
        judged, reference = (
            world.listening.sounds.clip(rater_session.rater_id, trial, k, key) for k, key in enumerate(keys)
        )
        assert isinstance(judged, bytes) and isinstance(reference, bytes)
        assert len(judged) == len(reference) and judged != reference
        difference = np.abs(samples(tmp_path, judged) - samples(tmp_path, reference)).max()
        apart[by_slot[0] == beside].append(int(difference))
        send(world, rater_session, shown, {0: 3}, None)
    assert apart[True] == [1] * 4 and len(apart[False]) == 8 and min(apart[False]) > 100
