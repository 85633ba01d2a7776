"""How a rater who is done with one part of a sitting comes to the next."""

import time
from collections.abc import Callable

from sqlmodel import Session

from studio.mos.campaign.config import CampaignConfig
from studio.mos.rating.campaigns import Running, problems
from studio.mos.rating.dealing import is_full
from studio.mos.rating.parts import config_of, later_parts
from studio.mos.rating.sittings import is_over, known, last_word
from studio.mos.rating.taking_over import take_over
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater


def furthest(session: Session, rater: Rater) -> Rater:
    """The rater's row in the last part that they have come to."""
    campaign = session.get(Campaign, rater.campaign_id)
    if not is_over(rater) or campaign is None or campaign.id is None:
        return rater
    for later, _ in later_parts(session, config_of(campaign), campaign.id):
        rater = _there(session, later, rater) or rater
        if not is_over(rater):
            break
    return rater


def enter_next(session: Session, rater: Rater, run: Running, run_of: Callable[[Campaign], Running]) -> Rater:
    """The rater where they are to go on: in this part until they are done, then in the next one that has room for them.

    They have agreed already: the parts of a sitting have one consent (studio.mos.rating.parts). Where no part is left
    they are asked for a last word.
    """
    if not is_over(rater):
        return rater
    for campaign, config in later_parts(session, run.config, run.id):
        there = _there(session, campaign, rater)
        if there is None and _has_room(session, campaign, rater.role, run_of):
            there = _entered(session, campaign, config, rater)
        rater = there or rater
        if not is_over(rater):
            return rater
    return last_word(session, rater) if run.config.then or rater.part > 1 else rater


def _there(session: Session, campaign: Campaign, rater: Rater) -> Rater | None:
    assert campaign.id is not None, "rows from the database have ids"
    return known(session, campaign.id, rater.identity)


def _entered(session: Session, campaign: Campaign, config: CampaignConfig, before: Rater) -> Rater:
    assert campaign.id is not None, "rows from the database have ids"
    now = time.time()
    rater = Rater(
        campaign_id=campaign.id,
        identity=before.identity,
        pseudonym=before.pseudonym,
        role=before.role,
        stage="instructions",  # unless something is asked before
        part=before.part + 1,
        consent_version=before.consent_version,
        panel=before.panel,
        device=before.device,
        joined_at=now,
        seen_at=now,
    )
    session.add(rater)
    session.flush()
    take_over(session, rater, config)
    return rater


def _has_room(session: Session, campaign: Campaign, role: str, run_of: Callable[[Campaign], Running]) -> bool:
    if role == "preview":
        return campaign.state != "draft" or not problems(session, campaign)
    return campaign.state == "open" and not is_full(session, run_of(campaign))
