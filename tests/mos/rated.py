"""Campaigns built from WAV files by ``building.build`` and rated through the service's calls."""

import wave
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mos.world import ACR, RATE_HZ, RaterSession, World

from studio.mos.campaign.config import CampaignConfig, Gates, Question
from studio.mos.sessions.campaigns import set_state
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.database import Store
from studio.mos.store.tables import AnswerCreate, ChoiceCreate, PlayCreate, ScoreCreate

SYSTEMS = ("heron", "osprey", "teal")
NASTY = '=HYPERLINK("http://x")<script>alert(1)</script> \u2028\'quoted\', "twice"\nand a second line'
MOS = replace(
    ACR,
    questions=[Question("naturalness", "How natural?", 1, 5), Question("coherence", "How coherent?", 1, 5)],
    raters_per_stimulus=9,
    trials_per_sitting=6,
)
PAIRS = replace(
    MOS, kind="ab", questions=[], choices=["a", "b", "tie", "both_bad"], prompt="Which is better?", trials_per_sitting=9
)
PAGE = replace(MOS, kind="scale", questions=[Question("quality", "How good?", 1, 100)], trials_per_sitting=3)
CHECKED = replace(MOS, gates=Gates(level=False, traps=1, golds=1, min_variance=0.1, reject_after=1))


def write_sounds(folder: Path, items: int = 3, checks: Sequence[str] = ()) -> Path:
    """Half a second of tone per system and script, and per role in ``checks``; returns the folder."""
    names = [("", f"item{i}") for i in range(items)] + [(role, f"{role}1") for role in checks]
    for k, system in enumerate(SYSTEMS):
        for n, (role, item) in enumerate(names):
            path = folder / role / system / f"{item}{'=3' if role else ''}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            tone = 4000 * np.sin(2 * np.pi * (200 + 70 * k + 31 * n) * np.arange(RATE_HZ // 2) / RATE_HZ)
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
                file.writeframes(tone.astype("<i2").tobytes())
    lines = [f"{item}|The sentence of {item}." for _, item in names]
    (folder / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def campaign(
    world: World, folder: Path, config: CampaignConfig, name: str = "first", checks: Sequence[str] = ()
) -> str:
    """Build and open a campaign; returns its name."""
    manifest = read_manifest(write_sounds(folder / "sounds", checks=checks))
    build_campaign(world.listening, name, config, manifest, seed=11)
    world.store.write_now(lambda session: set_state(session, name, "open").id)
    return name


def a_world(folder: Path) -> World:
    """Listening tests on an SQLite file."""
    return World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")


def given(shown: dict[str, Any], rng: Random, comment: str = "", check: int = 3) -> AnswerCreate:
    """A random answer to a screen; ``check`` for a trap or gold (recognised by its text)."""
    trial, screen = shown["trial"], shown["screen"]
    judged = [s["slot"] for s in trial["slots"] if s["place"] == "candidate"]
    is_check = trial["text"] is not None and ("trap" in trial["text"] or "gold" in trial["text"])

    def score(question: dict[str, Any]) -> int:
        return check if is_check else rng.randint(question["low"], question["high"])

    return AnswerCreate(
        trial=trial["trial"],
        scores=[ScoreCreate(question=q["id"], slot=s, value=score(q)) for q in screen["questions"] for s in judged],
        choices=[ChoiceCreate(question="preference", outcome=rng.choice(screen["choices"]))]
        if screen["choices"]
        else [],
        plays=[PlayCreate(slot=s["slot"], plays=1 + s["slot"], heard_ms=500.0 + s["slot"]) for s in trial["slots"]],
        response_ms=1000.0 + rng.randint(0, 500),
        comment=comment,
    )


def rate(world: World, who: str, name: str = "first", screens: int = 99, **how: Any) -> RaterSession:
    """A rater answers a number of screens of a campaign, and finishes if none is left."""
    rater_session, rng = world.join(who, name), Random(who)
    rater_session.to_trials()
    for _ in range(screens):
        shown = rater_session.next()
        if shown["stage"] != "trials":
            rater_session.send("comments", comment=f"{NASTY} at the end")
            break
        world.listening.answer(rater_session.rater_id, given(shown, rng, **how)).result(30)
    return rater_session
