"""Sittings of several parts: a campaign names the one that goes on where it ends, so that kinds of test can follow.

Each part is a campaign of its own, with its own results; one consent and one identity hold for all of them.
"""

import json
from collections.abc import Iterator

from sqlmodel import Session, select

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig, from_json
from studio.mos.kinds.registry import kind_of
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater

MOST_PARTS = 10


def config_of(campaign: Campaign) -> CampaignConfig:
    """A campaign's settings."""
    return from_json(json.loads(campaign.config))


def following(session: Session, config: CampaignConfig) -> Campaign | None:
    """The campaign that a sitting goes on with; None where it ends, or that campaign is no more."""
    if not config.then:
        return None
    return session.exec(select(Campaign).where(Campaign.name == config.then)).first()


def later_parts(session: Session, config: CampaignConfig, first: int) -> Iterator[tuple[Campaign, CampaignConfig]]:
    """The campaigns that come after one, in order, with their settings; none twice, so that a circle has an end.

    Campaigns are deleted, made anew and merged: where one of them does not go with the first any more (it has another
    consent or language, or no end) the sitting ends before it.

    Args:
        first: the campaign that they come after.
    """
    at, seen = config, {first}
    while len(seen) < MOST_PARTS:
        campaign = following(session, at)
        if campaign is None or campaign.id is None or campaign.id in seen:
            return
        at = config_of(campaign)
        if kind_of(at.kind).standing or not _is_agreed(config, at):
            return
        seen.add(campaign.id)
        yield campaign, at


def part_of(session: Session, config: CampaignConfig, first: int, part: int = 1) -> dict[str, int] | None:
    """Which part of how many this is, of those that are not closed; None of a sitting with one alone."""
    later = [campaign for campaign, _ in later_parts(session, config, first) if campaign.state != "closed"]
    return {"n": part, "of": part + len(later)} if part > 1 or later else None


def first_config(session: Session, rater: Rater, config: CampaignConfig) -> CampaignConfig:
    """The settings of the part that a rater came in by: its codes and addresses are what their panel knows."""
    if rater.part == 1:
        return config
    first = session.exec(
        select(Campaign)
        .join(Rater, Rater.campaign_id == Campaign.id)  # type: ignore[arg-type]
        .where(Rater.identity == rater.identity, Rater.part == 1)
    ).first()
    return config if first is None else config_of(first)


def check_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> None:
    """Whether a sitting that begins here can go on to its end.

    Raises:
        BadOption: a part is not there or not open, comes again, has no end, or has another consent or language.
    """
    if not config.then:
        return
    if kind_of(config.kind).standing:
        raise BadOption("a standing test has no end, so nothing comes then", "take the setting then out")
    at, seen = config, {campaign.name}
    while at.then:
        after = following(session, at)
        if after is None:
            raise BadOption(f"then is {at.then!r:.100}, and no campaign is called so", "make and open that one first")
        if after.name in seen:
            raise BadOption(f"{after.name!r} comes again after itself", "let the last part have no then")
        if len(seen) == MOST_PARTS:
            raise BadOption(f"the sitting has more than {MOST_PARTS} parts", "let one of them have no then")
        if after.state != "open":
            raise BadOption(f"{after.name!r}, which comes then, is not open", "open the parts from the last one on")
        at = config_of(after)
        if kind_of(at.kind).standing:
            raise BadOption(f"{after.name!r} is a standing test, which has no end", "let another one come then")
        if not _is_agreed(config, at):
            raise BadOption(
                f"{after.name!r}, which comes then, has another consent or language",
                "raters agree once, for all parts: give each the same consent, consent_version and language",
            )
        seen.add(after.name)


def _is_agreed(first: CampaignConfig, later: CampaignConfig) -> bool:
    """Whether who agreed to the first has agreed to the later one, and can read it."""
    one, other = first.texts, later.texts
    return (one.consent, one.consent_version, one.language) == (other.consent, other.consent_version, other.language)
