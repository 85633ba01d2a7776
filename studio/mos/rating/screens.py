"""What a rater's browser is to show now: looked up, nothing changed."""

from collections.abc import Callable
from typing import Any

from sqlmodel import Session, col, select

from studio.mos.rating import battles, parts, sittings
from studio.mos.rating.campaigns import Running
from studio.mos.rating.environment import PAIRS
from studio.mos.rating.headphones import CHECK_SOUNDS
from studio.mos.rating.steps import LAST, stages
from studio.mos.rating.taking_over import given_answers, steps_of
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.trials import Slot, SlotPublic, Trial, TrialPublic

ClipKey = Callable[[str, int], str]


def shown(session: Session, run: Running, rater: Rater, key: ClipKey) -> tuple[dict[str, Any], str | None]:
    """The stage and what belongs to it; and the screen among it that is shown for the first time.

    Args:
        key: makes the last part of a clip's address, of (trial, slot).
    """
    config, texts = run.config, run.config.texts
    stage, rest = rater.stage, None
    if run.kind.standing and stage == "trials" and not sittings.open_screens(session, rater)[0]:
        stage, rest = "rest", battles.rest_of(session, run, rater)
    out, new = _headed(session, run, stage, rater), None
    match stage:
        case "screening":
            said = given_answers(session, rater, config)
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
            if run.kind.spoken:
                out["screen"] |= {"rate_hz": run.rate_hz}  # the same for every voice of the test
        case "rest":
            out |= {} if rest is None else {"why": rest.why, "wait_s": rest.wait_s}
        case "done":
            out["text"] = texts.thanks
        case _:
            pass
    return out, new


def at_the_door(session: Session, run: Running, stage: str) -> dict[str, Any]:
    """What somebody is shown of whom nothing is kept: the consent, that they refused it, that all places are taken."""
    texts = run.config.texts
    asked = {"text": texts.consent, "version": texts.consent_version} if stage == "consent" else {}
    return _headed(session, run, stage) | asked


def _headed(session: Session, run: Running, stage: str, rater: Rater | None = None) -> dict[str, Any]:
    config, number = run.config, 1 if rater is None else rater.part
    steps = stages(config) if rater is None else steps_of(session, rater, config)
    texts = config.texts
    part = parts.part_of(session, config, run.id, number)
    if part is not None and part["n"] < part["of"] and stage != "comments":
        steps = [step for step in steps if step != "comments"]  # they are for the end of the sitting
    out: dict[str, Any] = {"stage": stage, "title": texts.title, "language": texts.language, "stages": steps}
    if part is not None and stage not in ("comments", *LAST):
        out["part"] = part
    if stage in LAST:
        way = (config if rater is None else parts.first_config(session, rater, config)).completion.of(stage)
        out |= {"code": way.code, "redirect": way.redirect_url}
    return out


def _trial(session: Session, run: Running, rater: Rater, key: ClipKey) -> tuple[TrialPublic, str | None]:
    at = sittings.progress(session, rater)
    assert at.trial is not None, "a rater at the trials has one left"
    every = run.config.break_after
    public = TrialPublic(
        trial=at.trial.id,
        position=at.answered,
        of=0 if run.kind.standing else at.of,
        practice=at.trial.role == "training",
        text=run.texts[at.trial.item_id] if run.config.show_text else None,
        asked=at.trial.asked.split(),
        slots=_slots(session, run, at.trial, key),
        break_before=bool(every and at.answered and at.answered % every == 0),
    )
    return public, at.trial.id if at.trial.issued_at is None else None


def _slots(session: Session, run: Running, trial: Trial, key: ClipKey) -> list[SlotPublic]:
    rows = session.exec(select(Slot).where(Slot.trial_id == trial.id).order_by(col(Slot.slot))).all()
    if run.kind.spoken:  # it is spoken when somebody types, and nothing lies anywhere
        return [SlotPublic(slot=s.slot, place=s.place, url="") for s in rows]
    return [
        SlotPublic(slot=s.slot, place=s.place, url=f"clip/{trial.id}/{s.slot}/{key(trial.id, s.slot)}") for s in rows
    ]
