"""Preview of a draft's stages and trials for its owner; stores nothing."""

import json
from random import Random
from typing import Any

from sqlmodel import Session, select

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import from_json
from studio.mos.campaign.design import AssignedUnit, AssignmentCounts, Unit, order_stimuli
from studio.mos.kinds.base import Kind, StimulusStock
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.stage_order import ordered_stages
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Item, Stimulus, System

SCREENS = 3
_SYSTEMS, _REFERENCE = (1, 2), 3  # placeholder ids for a draft without systems


def preview(session: Session, campaign: Campaign) -> dict[str, Any]:
    """The stages of a session and its first trials, in the format of ``/mos/next``.

    An incomplete draft gets one trial without sounds. A live test has no trials here.
    """
    config = from_json(json.loads(campaign.config))
    kind, texts = kind_of(config.kind), config.texts
    try:
        run = load_campaign(session, campaign)
        units = [*run.training[:1], *Random(campaign.seed).sample(list(run.units), min(SCREENS, len(run.units)))]
    except (BadFile, BadOption):
        units = _made_up(kind, campaign)
    if kind.is_live:
        units = []
    rng = Random(campaign.seed)
    placed = [order_stimuli(unit, AssignmentCounts(), rng) for unit in units]
    said = {i.id: i.text for i in session.exec(select(Item).where(Item.campaign_id == campaign.id))}
    usual = next(filter(None, said.values()), "The text of a script stands here.")
    asked = next(iter(kind.question_orders(config)), "").split()
    trials = [
        {
            "trial": f"preview-{at}",
            "position": at,
            "of": len(placed),
            "practice": False,
            "text": said.get(one.unit.item_id, usual) if config.show_text else None,
            "slots": _slots(session, one),
            "break_before": False,
            "asked": asked,
        }
        for at, one in enumerate(placed)
    ]
    return {
        "title": texts.title,
        "language": texts.language,
        "stages": [stage for stage in ordered_stages(config) if stage != "comments" or not config.then],
        "consent": {"text": texts.consent, "version": texts.consent_version},
        "screening": [{"id": s.id, "prompt": s.prompt, "options": s.options} for s in config.gates.screening],
        "instructions": texts.instructions,
        "thanks": texts.thanks,
        "screen": kind.screen(config),
        "trials": trials,
    }


def _slots(session: Session, assigned: AssignedUnit) -> list[dict[str, Any]]:
    """The slots of a trial with script and system of each sound, None without a sound."""
    played = [(stimulus, "candidate") for stimulus in assigned.order]
    played += [(assigned.unit.reference, "reference")] if assigned.unit.reference is not None else []
    return [
        {"slot": slot, "place": where, "sound": _sound(session, stimulus)}
        for slot, (stimulus, where) in enumerate(played)
    ]


def _sound(session: Session, stimulus: int) -> dict[str, str] | None:
    row = session.get(Stimulus, stimulus) if stimulus > 0 else None
    item, system = (session.get(Item, row.item_id), session.get(System, row.system_id)) if row else (None, None)
    return None if item is None or system is None else {"item": item.name, "system": system.name}


def _made_up(kind: Kind, campaign: Campaign) -> list[Unit]:
    """One trial of placeholder systems; their stimulus ids are negative."""
    config = from_json(json.loads(campaign.config))
    for references in ([], [_REFERENCE]):
        everybody = [*_SYSTEMS, *references]
        stock = StimulusStock([0], _SYSTEMS, references, _SYSTEMS[0], {(0, system): -system for system in everybody})
        try:
            return kind.assign(stock, config)[:1]
        except (BadFile, BadOption):
            continue
    return []
