"""What a rater of a draft will see, for its owner: worked out anew, and nothing is stored."""

import json
from random import Random
from typing import Any

from sqlmodel import Session, select

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import from_json
from studio.mos.campaign.design import Load, Placed, Unit, place
from studio.mos.kinds.base import Kind, Stock
from studio.mos.kinds.registry import kind_of
from studio.mos.rating.campaigns import running
from studio.mos.rating.steps import stages
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Item, Stimulus, System

SCREENS = 3
_SYSTEMS, _REFERENCE = (1, 2), 3  # of a draft that has none yet


def preview(session: Session, campaign: Campaign) -> dict[str, Any]:
    """The steps of a sitting and its first screens, as ``/mos/next`` would tell them.

    A draft that has not all its sounds yet gets one screen without any. The screens of a live test are spoken for
    raters alone, so there are none.
    """
    config = from_json(json.loads(campaign.config))
    kind, texts = kind_of(config.kind), config.texts
    try:
        run = running(session, campaign)
        units = [*run.training[:1], *Random(campaign.seed).sample(list(run.units), min(SCREENS, len(run.units)))]
    except (BadFile, BadOption):
        units = _made_up(kind, campaign)
    if kind.spoken:
        units = []
    rng = Random(campaign.seed)
    placed = [place(unit, Load(), rng) for unit in units]
    said = {i.id: i.text for i in session.exec(select(Item).where(Item.campaign_id == campaign.id))}
    usual = next(filter(None, said.values()), "The text of a script stands here.")
    asked = next(iter(kind.orders(config)), "").split()
    screens = [
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
        "stages": [stage for stage in stages(config) if stage != "comments" or not config.then],
        "consent": {"text": texts.consent, "version": texts.consent_version},
        "screening": [{"id": s.id, "prompt": s.prompt, "options": s.options} for s in config.gates.screening],
        "instructions": texts.instructions,
        "thanks": texts.thanks,
        "screen": kind.screen(config),
        "trials": screens,
    }


def _slots(session: Session, screen: Placed) -> list[dict[str, Any]]:
    """The places of a screen, with script and system of the sound of each: None where there is none yet."""
    heard = [(stimulus, "candidate") for stimulus in screen.order]
    heard += [(screen.unit.reference, "reference")] if screen.unit.reference is not None else []
    return [
        {"slot": slot, "place": where, "sound": _sound(session, stimulus)}
        for slot, (stimulus, where) in enumerate(heard)
    ]


def _sound(session: Session, stimulus: int) -> dict[str, str] | None:
    row = session.get(Stimulus, stimulus) if stimulus > 0 else None
    item, system = (session.get(Item, row.item_id), session.get(System, row.system_id)) if row else (None, None)
    return None if item is None or system is None else {"item": item.name, "system": system.name}


def _made_up(kind: Kind, campaign: Campaign) -> list[Unit]:
    """One screen of systems that are not there, whose sounds have numbers that no sound has."""
    config = from_json(json.loads(campaign.config))
    for references in ([], [_REFERENCE]):
        everybody = [*_SYSTEMS, *references]
        stock = Stock([0], _SYSTEMS, references, _SYSTEMS[0], {(0, system): -system for system in everybody})
        try:
            return kind.assign(stock, config)[:1]
        except (BadFile, BadOption):
            continue
    return []
