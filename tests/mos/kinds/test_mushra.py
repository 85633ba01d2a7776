"""MUSHRA from a folder of sounds to its tables: hidden reference, anchors, post-screening."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from mos.recommended import (
    ITEMS,
    LITE,
    NAMES,
    begin,
    campaign,
    folder_of_sounds,
    results_of,
    rows_of,
    screens,
    send,
    systems_of,
)
from mos.world import World
from sqlmodel import col, select

from studio.mos.campaign.config import Gates
from studio.mos.campaign.templates import load_template
from studio.mos.report.formats import html, latex, markdown
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables.stimuli import Stimulus, System


def test_mushra_has_anchors_a_hidden_reference_and_a_post_screening(world: World, tmp_path: Path) -> None:
    config = campaign(world, tmp_path, "mushra", raters_per_stimulus=5)
    worth = {"reference": 100, "osprey": 70, "teal": 60, "anchor 7 kHz": 40, "anchor 3.5 kHz": 20}
    for who in range(5):
        rater_session = begin(world, f"rater {who}", "mushra")
        for n, shown in enumerate(screens(rater_session)):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside == "reference"
            assert sorted(by_slot.values()) == sorted(worth)
            wrong = {}  # 1 of 4 is above 15%
            if who == 0 and n == 0:
                wrong = {"reference": 10}
            if who == 1 and n == 1:
                wrong = {"anchor 7 kHz": 95}
            told = {s: wrong.get(name, worth[name]) for s, name in by_slot.items()}
            send(world, rater_session, shown, told, None)
    found = results_of(world, "mushra")
    screen, after = found["tables"]["post_screen"], found["tables"]["questions"]["quality"]["systems"]["two_way"]
    assert (screen["reference"], screen["mid_anchor"]) == ("reference", "anchor 7 kHz")
    assert [screen[k] for k in ("raters", "dropped", "by_reference", "by_anchor", "unharmed")] == [5, 2, 1, 1, 0]
    assert {name: (i["mean"], i["n"]) for name, i in after.items()} == {n: (float(w), 12) for n, w in worth.items()}
    quartiles = found["tables"]["questions"]["quality"]["quartiles"]
    assert quartiles["teal"] == {"low": 60.0, "median": 60.0, "high": 60.0}
    assert screen["everybody"]["reference"]["mean"] == (19 * 100 + 10) / 20
    assert {s["name"]: s["role"] for s in found["systems"]} == {
        "osprey": "test",
        "reference": "reference",
        "teal": "test",
        "anchor 3.5 kHz": "anchor",
        "anchor 7 kHz": "anchor",
    }
    for text in (html(found), markdown(found)):
        assert "2 of 5 raters are excluded" in text and "60.0" in text
        assert "1 who scored the hidden reference below 90 and 1 who scored the mid anchor" in text
        assert "reference (hidden)" in text
        assert "95.5" in text
    assert "reference (hidden)" in latex(found)
    assert {r["reference"] for r in rows_of(world, "mushra")} == {"reference"}
    assert config.questions[0].high == 100


@LITE
def test_anchors_have_nothing_above_their_cut_off(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra")
    with world.store.read() as session:
        rows = session.exec(
            select(System.name, System.voice, Stimulus.clip_sha).join(
                Stimulus, col(Stimulus.system_id) == col(System.id)
            )
        ).all()
    assert Counter(name for name, *_ in rows) == dict.fromkeys((*NAMES, "anchor 3.5 kHz", "anchor 7 kHz"), ITEMS)
    for name, voice, sha in rows:
        pcm, rate_hz = world.listening.clips.read(sha)
        power = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)))) ** 2
        hz = np.fft.rfftfreq(len(pcm), 1 / rate_hz)
        cut = json.loads(voice).get("low_pass_hz", 12_000)
        above, below = power[hz > cut * 9 / 7].sum(), power[hz < cut].sum()
        assert (name.startswith("anchor")) == (cut < 12_000)
        if cut < 12_000:
            assert above / below < 1e-4
    assert json.loads(next(v for n, v, _ in rows if n == "anchor 7 kHz")) == {"low_pass_hz": 7000, "of": "reference"}


@LITE
def test_where_the_post_screening_leaves_nobody_it_is_said(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra")
    rater_session = begin(world, "deaf", "mushra")
    for shown in screens(rater_session):
        send(world, rater_session, shown, dict.fromkeys(systems_of(world, shown["trial"]["trial"])[0], 50), None)
    found = results_of(world, "mushra")
    assert found["tables"]["post_screen"]["dropped"] == 1
    assert "The post-screening excluded all raters." in html(found)
    assert "50.0" in markdown(found)


@LITE
def test_anchors_that_came_along_are_the_only_ones(world: World, tmp_path: Path) -> None:
    folder = folder_of_sounds(tmp_path / "sounds")
    (folder / "teal").rename(folder / "anchor own")
    config = replace(load_template("mushra"), gates=Gates(level=False))
    build_campaign(world.listening, "mushra", config, read_manifest(folder), seed=5)
    assert {s.name for s in world.all(System)} == {"osprey", "reference", "anchor own"}
