"""The view of the current stage for a rater's browser; read-only."""

from collections.abc import Callable
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.sessions import arena, parts, stages
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.carry_over import earlier_screening_answers, rater_stages
from studio.mos.sessions.environment import PAIRS
from studio.mos.sessions.headphones import CHECK_SOUNDS
from studio.mos.sessions.stage_order import FINAL_STAGES
from studio.mos.sessions.stage_order import ordered_stages as ordered_stages
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.trials import Slot, SlotPublic, Trial, TrialPublic

ClipKey = Callable[[str, int], str]


def stage_view(session: Session, run: LoadedCampaign, rater: Rater, key: ClipKey) -> tuple[dict[str, Any], str | None]:
    """The view of a rater's stage, and the id of a trial that is shown for the first time.

    Args:
        key: signature of a clip's URL, from (trial, slot).
    """
    config, texts = run.config, run.config.texts
    stage, rest = rater.stage, None
    if run.kind.is_standing and stage == "trials" and not stages.open_trials(session, rater)[0]:
        stage, rest = "rest", arena.battle_wait(session, run, rater)
    out, new = _base_view(session, run, stage, rater), None
    match stage:
        case "screening":
            said = earlier_screening_answers(session, rater, config)
            asked = [s for s in config.gates.screening if s.id not in said]
            out["questions"] = [{"id": s.id, "prompt": s.prompt, "options": s.options} for s in asked]
        case "instructions":
            out["text"] = texts.instructions
        case "headphones":
            out |= {"check": config.gates.headphones, "sounds": CHECK_SOUNDS}
        case "environment":
            out |= {"check": "environment", "sounds": PAIRS}
        case "trials":
            trial, new = _trial(session, run, rater, key)
            out |= {"screen": run.kind.screen(config), "trial": trial.model_dump()}
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
    asked = {"text": texts.consent, "version": texts.consent_version} if stage == "consent" else {}
    return _base_view(session, run, stage) | asked


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
        way = (config if rater is None else parts.first_config(session, rater, config)).completion.for_stage(stage)
        out |= {"code": way.code, "redirect": way.redirect_url}
    return out


def _trial(session: Session, run: LoadedCampaign, rater: Rater, key: ClipKey) -> tuple[TrialPublic, str | None]:
    at = stages.progress(session, rater)
    assert at.trial is not None, "a rater at the trials has one left"
    every = run.config.break_after
    public = TrialPublic(
        trial=at.trial.id,
        position=at.answered,
        of=0 if run.kind.is_standing else at.of,
        practice=at.trial.role == "training",
        text=run.texts[at.trial.item_id] if run.config.show_text else None,
        asked=at.trial.asked.split(),
        slots=_slots(session, run, at.trial, key),
        break_before=bool(every and at.answered and at.answered % every == 0),
    )
    return public, at.trial.id if at.trial.issued_at is None else None


def _slots(session: Session, run: LoadedCampaign, trial: Trial, key: ClipKey) -> list[SlotPublic]:
    rows = session.exec(select(Slot).where(Slot.trial_id == trial.id).order_by(col(Slot.slot))).all()
    if run.kind.is_live:  # spoken on demand, there is no file
        return [SlotPublic(slot=s.slot, place=s.place, url="") for s in rows]
    return [
        SlotPublic(slot=s.slot, place=s.place, url=f"clip/{trial.id}/{s.slot}/{key(trial.id, s.slot)}") for s in rows
    ]
