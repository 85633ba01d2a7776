"""Campaigns of CCR, DCR, ABX and MUSHRA from a folder of sounds, and what their screens really play."""

import json
import re
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mos.world import RaterSession, World
from sqlmodel import col, select

from studio.core.sound_files import read_mono
from studio.mos.analysis.results import results
from studio.mos.campaign.config import CampaignConfig, Gates, load_template
from studio.mos.import_export.export import export_rows
from studio.mos.sessions.campaigns import find_campaign, set_state
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.tables import AnswerCreate, ChoiceCreate, PlayCreate, ScoreCreate, Slot, Stimulus, System

NAMES = ("osprey", "reference", "teal")
ITEMS = 4
RATE_HZ = 24_000


def named_in(text: str, words: tuple[str, ...]) -> list[str]:
    """The words that `text` contains outside random tokens, which contain any three letters now and then."""
    text = re.sub(r"[\w-]{20,}", "", text)
    return [word for word in words if word in text]


def folder_of_sounds(folder: Path) -> Path:
    """Noise, with energy above every anchor's cutoff; each system has another length."""
    rng = np.random.default_rng(3)
    for k, system in enumerate(NAMES):
        for item in range(ITEMS):
            path = folder / system / f"item{item}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            pcm = rng.normal(0, 1500, round((0.55 + 0.03 * k) * RATE_HZ)).clip(-9000, 9000)
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
                file.writeframes(pcm.astype("<i2").tobytes())
    return folder


def campaign(world: World, folder: Path, name: str, **settings: Any) -> CampaignConfig:
    """An opened campaign of a template, without gates for raters."""
    base = load_template(name)
    texts = replace(base.texts, consent_version=3)
    config = replace(base, gates=Gates(level=False), texts=texts, **{"trials_per_sitting": 4, **settings})
    build_campaign(world.listening, name, config, read_manifest(folder_of_sounds(folder)), seed=5)
    world.store.write_now(lambda session: set_state(session, name, "open").id)
    return config


def systems_of(world: World, trial: str) -> tuple[dict[int, str], str | None]:
    """What a screen really plays: the rated systems by slot, and the one beside them."""
    with world.store.read() as session:
        rows = session.exec(
            select(Slot.slot, Slot.place, System.name)
            .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
            .join(System, col(System.id) == col(Stimulus.system_id))
            .where(Slot.trial_id == trial)
        ).all()
    beside = [name for _, place, name in rows if place == "reference"]
    return {slot: name for slot, place, name in rows if place == "candidate"}, beside[0] if beside else None


def send(
    world: World,
    rater_session: RaterSession,
    shown: dict[str, Any],
    scores: dict[int, int],
    choice: str | None,
    heard_ms: dict[int, float] | None = None,
) -> None:
    trial, screen = shown["trial"], shown["screen"]
    asked = "match" if screen["kind"] == "abx" else "preference"
    answer = AnswerCreate(
        trial=trial["trial"],
        scores=[ScoreCreate(question=q["id"], slot=s, value=v) for q in screen["questions"] for s, v in scores.items()],
        choices=[ChoiceCreate(question=asked, outcome=choice)] if choice else [],  # type: ignore[arg-type]
        plays=[
            PlayCreate(slot=s["slot"], plays=1, heard_ms=(heard_ms or {}).get(s["slot"], 700.0)) for s in trial["slots"]
        ],
        response_ms=900.0,
    )
    world.listening.answer(rater_session.rater_id, answer).result(30)


def results_of(world: World, name: str) -> dict[str, Any]:
    found = world.read(results, name)
    json.dumps(found, allow_nan=False)
    return found


def rows_of(world: World, name: str) -> list[dict[str, Any]]:
    with world.store.read() as session:
        return list(export_rows(session, find_campaign(session, name)))


def screens(rater_session: RaterSession) -> Iterator[dict[str, Any]]:
    while (shown := rater_session.next())["stage"] == "trials":
        yield shown


def samples(folder: Path, data: bytes) -> np.ndarray:
    path = folder / "fetched.wav"
    path.write_bytes(data)
    return read_mono(path)[0].astype(np.int64)
