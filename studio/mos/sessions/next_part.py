"""Transition of a rater from one part of a session to the next."""

import time
from collections.abc import Callable

from sqlmodel import Session

from studio.mos.campaign.config import CampaignConfig
from studio.mos.sessions.assignment import is_full
from studio.mos.sessions.campaigns import LoadedCampaign, opening_problems
from studio.mos.sessions.carry_over import carry_over
from studio.mos.sessions.parts import campaign_config, later_parts
from studio.mos.sessions.stages import enter_comments, find_rater, is_part_finished
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater


def current_part(session: Session, rater: Rater) -> Rater:
    """The rater's row in their current part."""
    campaign = session.get(Campaign, rater.campaign_id)
    if not is_part_finished(rater) or campaign is None or campaign.id is None:
        return rater
    for later, _ in later_parts(session, campaign_config(campaign), campaign.id):
        rater = _rater_in(session, later, rater) or rater
        if not is_part_finished(rater):
            break
    return rater


def enter_next_part(
    session: Session, rater: Rater, run: LoadedCampaign, run_of: Callable[[Campaign], LoadedCampaign]
) -> Rater:
    """The rater's row to continue with: this part until it is finished, then the next part with room.

    The parts of a session share one consent (studio.mos.sessions.parts). After the last part comments are requested.
    """
    if not is_part_finished(rater):
        return rater
    for campaign, config in later_parts(session, run.config, run.id):
        there = _rater_in(session, campaign, rater)
        if there is None and _has_room(session, campaign, rater.role, run_of):
            there = _create_rater(session, campaign, config, rater)
        rater = there or rater
        if not is_part_finished(rater):
            return rater
    return enter_comments(session, rater) if run.config.then or rater.part > 1 else rater


def _rater_in(session: Session, campaign: Campaign, rater: Rater) -> Rater | None:
    assert campaign.id is not None, "rows from the database have ids"
    return find_rater(session, campaign.id, rater.identity)


def _create_rater(session: Session, campaign: Campaign, config: CampaignConfig, before: Rater) -> Rater:
    assert campaign.id is not None, "rows from the database have ids"
    now = time.time()
    rater = Rater(
        campaign_id=campaign.id,
        identity=before.identity,
        pseudonym=before.pseudonym,
        role=before.role,
        stage="instructions",  # replaced by ``carry_over``
        part=before.part + 1,
        consent_version=before.consent_version,
        panel=before.panel,
        device=before.device,
        joined_at=now,
        seen_at=now,
    )
    session.add(rater)
    session.flush()
    carry_over(session, rater, config)
    return rater


def _has_room(session: Session, campaign: Campaign, role: str, run_of: Callable[[Campaign], LoadedCampaign]) -> bool:
    if role == "preview":
        return campaign.state != "draft" or not opening_problems(session, campaign)
    return campaign.state == "open" and not is_full(session, run_of(campaign))
