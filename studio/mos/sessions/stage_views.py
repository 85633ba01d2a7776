"""Data for a rater's browser: view of the current stage (read-only), audio, and the preview of a draft."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from studio.core.clips import wav_bytes
from studio.core.errors import BadFile, BadOption
from studio.core.sound_files import read_pcm
from studio.mos.campaign.config import campaign_config
from studio.mos.campaign.design import AssignedUnit, AssignmentCounts, Unit, order_stimuli
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.kinds.base import StimulusStock
from studio.mos.kinds.registry import Kind, kind_of
from studio.mos.sessions import hearing_checks, parts, stages
from studio.mos.sessions.assignment import battle_wait
from studio.mos.sessions.campaigns import LoadedCampaign, load_campaign
from studio.mos.sessions.carry_over import earlier_screening_answers, rater_stages
from studio.mos.sessions.parts import FINAL_STAGES, ordered_stages
from studio.mos.store.access import Access, Forbidden
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import Campaign, Clip, Item, Rater, Slot, Stimulus, System

ClipKey = Callable[[str, int], str]
_log = logging.getLogger(__name__)


def stage_view(session: Session, run: LoadedCampaign, rater: Rater, key: ClipKey) -> tuple[dict[str, Any], str | None]:
    """The view of a rater's stage, and the id of a trial that is shown for the first time.

    ``key``: signature of a clip's URL, from (trial, slot).
    """
    config, texts = run.config, run.config.texts
    stage, rest = rater.stage, None
    if run.kind.is_standing and stage == "trials" and not stages.open_trials(session, rater)[0]:
        stage, rest = "rest", battle_wait(session, run, rater)
    out, new = _base_view(session, run, stage, rater), None
    match stage:
        case "screening":
            earlier = earlier_screening_answers(session, rater, config)
            questions = [s for s in config.gates.screening if s.id not in earlier]
            out["questions"] = [_public_question(s) for s in questions]
        case "instructions":
            out["text"] = texts.instructions
        case "headphones":
            out |= {"check": config.gates.headphones, "sounds": hearing_checks.CHECK_SOUNDS}
        case "environment":
            out |= {"check": "environment", "sounds": hearing_checks.PAIRS}
        case "trials":
            trial, new = _trial(session, run, rater, key)
            out |= {"screen": run.kind.screen(config), "trial": trial}
            if run.kind.is_live:
                out["screen"] |= {"rate_hz": run.rate_hz}  # equal for all voices
        case "rest":
            out |= {} if rest is None else {"why": rest.why, "wait_s": rest.wait_s}
        case "done":
            out["text"] = texts.thanks
        case _:
            pass
    return out, new


def visitor_view(session: Session, run: LoadedCampaign, stage: str) -> dict[str, Any]:
    """The view of a visitor without a row: consent, refused or full."""
    texts = run.config.texts
    consent = {"text": texts.consent, "version": texts.consent_version} if stage == "consent" else {}
    if consent and run.kind.is_standing:
        consent["instructions"] = texts.instructions  # an arena has one screen before the first battle
    return _base_view(session, run, stage) | consent


def _base_view(session: Session, run: LoadedCampaign, stage: str, rater: Rater | None = None) -> dict[str, Any]:
    config, number = run.config, 1 if rater is None else rater.part
    steps = ordered_stages(config) if rater is None else rater_stages(session, rater, config)
    texts = config.texts
    part = parts.part_position(session, config, run.id, number)
    if part is not None and part["n"] < part["of"] and stage != "comments":
        steps = [step for step in steps if step != "comments"]  # they come in the last part
    out: dict[str, Any] = {"stage": stage, "title": texts.title, "language": texts.language, "stages": steps}
    if part is not None and stage not in ("comments", *FINAL_STAGES):
        out["part"] = part
    if stage in FINAL_STAGES:
        link = (config if rater is None else parts.first_config(session, rater, config)).completion.for_stage(stage)
        out |= {"code": link.code, "redirect": link.redirect_url}
    return out


def _trial(session: Session, run: LoadedCampaign, rater: Rater, key: ClipKey) -> tuple[dict[str, Any], str | None]:
    """A rater's next trial, without data that reveals a system, and its id if it was not shown before."""
    at = stages.progress(session, rater)
    assert at.trial is not None, "a rater at the trials has one left"
    trial, every = at.trial, run.config.break_after
    slots = session.exec(select(Slot).where(Slot.trial_id == trial.id).order_by(col(Slot.slot))).all()
    view = {
        "trial": trial.id,
        "position": at.answered,
        "of": 0 if run.kind.is_standing else at.of,  # 0 where there is no end
        "practice": trial.role == "training",
        "text": run.texts[trial.item_id] if run.config.show_text else None,
        "asked": trial.asked.split(),
        "slots": [
            # live speech has no file; the URL of a clip is valid for this rater only
            {"slot": s.slot, "place": s.place, "url": "" if run.kind.is_live else _clip_url(trial.id, s.slot, key)}
            for s in slots
        ],
        "break_before": bool(every and at.answered and at.answered % every == 0),
    }
    return view, trial.id if trial.issued_at is None else None


def _clip_url(trial: str, slot: int, key: ClipKey) -> str:
    return f"clip/{trial}/{slot}/{key(trial, slot)}"


_CACHED_CLIPS = 50_000

RaterOf = Callable[[Session, int], tuple[Rater, LoadedCampaign]]


class RaterSounds:
    """Serves audio to raters; each URL is valid for one rater."""

    def __init__(self, store: Store, clips: ClipFolder, access: Access, rater_of: RaterOf) -> None:
        self._store, self._clips, self._access, self._rater_of = store, clips, access, rater_of
        self._known = lru_cache(_CACHED_CLIPS)(self._look_up)

    def clip(self, rater_id: int, trial: str, slot: int, key: str) -> Path | bytes:
        """The file of a clip, or blinded bytes if the trial may contain the same sound twice.

        Raises Forbidden: the URL was not issued to this rater; BadFile: the clip is missing or damaged (the log names
        it, the error does not).
        """
        self._access.check_clip(rater_id, trial, slot, key)
        sha, samples = self._known(trial, slot)
        try:
            path = self._clips.intact_path(sha)
            return path if samples is None else blinded_wav(path, samples, self._access.clip_seed(trial, slot))
        except BadFile as error:
            _log.error("a rater cannot hear a clip: %s", error)
            raise BadFile("this sound is missing or damaged", "report it to the people who run this test") from error

    def headphone(self, rater_id: int, index: int) -> bytes:
        """A WAV file of the rater's headphone check. Raises BadOption for a wrong index."""
        run, seed = self._check(rater_id, "headphones")
        return hearing_checks.headphone_trial(run.config.gates.headphones, seed, index).wav

    def environment(self, rater_id: int, index: int) -> bytes:
        """A WAV file of the rater's environment test, two per pair. Raises BadOption for a wrong index."""
        return hearing_checks.environment_wav(self._check(rater_id, "environment")[1], index)

    def _look_up(self, trial: str, slot: int) -> tuple[str, int | None]:
        """Address of a clip, and the common length of the trial's clips if they are blinded."""
        with self._store.read() as session:
            rows = session.exec(
                select(Slot.slot, Clip.sha, Clip.samples, Campaign.kind)
                .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
                .join(Clip, col(Clip.sha) == col(Stimulus.clip_sha))
                .join(Campaign, col(Campaign.id) == col(Stimulus.campaign_id))
                .where(Slot.trial_id == trial)
            ).all()
        for at, sha, _, kind in rows:
            if at == slot:
                longest = max(samples for _, _, samples, _ in rows)
                return sha, longest if kind_of(kind).has_duplicates else None
        raise Forbidden("there is no such sound", "reload the page")

    def _check(self, rater_id: int, stage: str) -> tuple[LoadedCampaign, int]:
        """A rater's campaign and the seed of their current check."""
        with self._store.read() as session:
            rater, run = self._rater_of(session, rater_id)
            return run, stages.check_seed(rater, stages.count_tries(session, rater, stage))


def blinded_wav(path: Path, samples: int, seed: int) -> bytes:
    """A clip padded with silence to ``samples`` and with random lowest bits (noise at about -93 dBFS).

    All sounds of a trial get the same length, and two copies of one sound different bytes. This does not protect
    against subtracting one sound from another. Raises BadFile: the clip cannot be read.
    """
    pcm, rate_hz = read_pcm(path)
    longer = np.zeros((max(samples, len(pcm)), *pcm.shape[1:]), np.int16)
    longer[: len(pcm)] = pcm
    bits = np.random.default_rng(seed).integers(2, size=longer.shape, dtype=np.int16)
    return wav_bytes((longer & np.int16(-2)) | bits, rate_hz)


_PREVIEW_TRIALS = 3
_SYSTEMS, _REFERENCE = (1, 2), 3  # placeholder ids for a draft without systems


def preview(session: Session, campaign: Campaign) -> dict[str, Any]:
    """The stages of a session and its first trials, in the format of ``/mos/next``.

    An incomplete draft gets one trial without sounds. A live test has no trials here.
    """
    config = campaign_config(campaign)
    kind, texts = kind_of(config.kind), config.texts
    try:
        run = load_campaign(session, campaign)
        units = [
            *run.training[:1],
            *Random(campaign.seed).sample(list(run.units), min(_PREVIEW_TRIALS, len(run.units))),
        ]
    except (BadFile, BadOption):
        units = _placeholder_units(kind, campaign)
    if kind.is_live:
        units = []
    rng = Random(campaign.seed)
    trial_units = [order_stimuli(unit, AssignmentCounts(), rng) for unit in units]
    text_of = {i.id: i.text for i in session.exec(select(Item).where(Item.campaign_id == campaign.id))}
    usual = next(filter(None, text_of.values()), "The text of a script stands here.")
    question_order = next(iter(kind.orders), "").split()
    trials = [
        {
            "trial": f"preview-{at}",
            "position": at,
            "of": len(trial_units),
            "practice": False,
            "text": text_of.get(one.unit.item_id, usual) if config.show_text else None,
            "slots": _preview_slots(session, one),
            "break_before": False,
            "asked": question_order,
        }
        for at, one in enumerate(trial_units)
    ]
    return {
        "title": texts.title,
        "language": texts.language,
        "stages": [stage for stage in ordered_stages(config) if stage != "comments" or not config.then],
        "consent": {"text": texts.consent, "version": texts.consent_version},
        "screening": [_public_question(s) for s in config.gates.screening],
        "instructions": texts.instructions,
        "thanks": texts.thanks,
        "screen": kind.screen(config),
        "trials": trials,
    }


def _public_question(question: ScreeningQuestion) -> dict[str, Any]:
    """A screening question for the page, without the accepted answers."""
    return {key: value for key, value in asdict(question).items() if key != "accept"}


def _preview_slots(session: Session, assigned: AssignedUnit) -> list[dict[str, Any]]:
    """The slots of a trial with script and system of each sound, None without a sound."""
    return [
        {"slot": slot, "place": where, "sound": _sound(session, stimulus)}
        for slot, (stimulus, where) in enumerate(assigned.played())
    ]


def _sound(session: Session, stimulus: int) -> dict[str, str] | None:
    row = session.get(Stimulus, stimulus) if stimulus > 0 else None
    item, system = (session.get(Item, row.item_id), session.get(System, row.system_id)) if row else (None, None)
    return None if item is None or system is None else {"item": item.name, "system": system.name}


def _placeholder_units(kind: Kind, campaign: Campaign) -> list[Unit]:
    """One trial of placeholder systems; their stimulus ids are negative."""
    config = campaign_config(campaign)
    for references in ([], [_REFERENCE]):
        systems = [*_SYSTEMS, *references]
        stock = StimulusStock([0], _SYSTEMS, references, _SYSTEMS[0], {(0, system): -system for system in systems})
        try:
            return kind.assign(stock, config)[:1]
        except (BadFile, BadOption):
            continue
    return []
