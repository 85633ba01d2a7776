"""Sittings of several parts: a campaign names the one that goes on where it ends, so that kinds of test can follow.

Each part is a campaign of its own, with its own results; one consent and one identity hold for all of them.
"""

import json
from collections.abc import Iterator

from sqlmodel import Session, col, select

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
        if part_mismatch(config, at):
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


def named_by(session: Session, campaign: Campaign) -> list[tuple[Campaign, CampaignConfig]]:
    """The campaigns that go on with this one, with their settings."""
    others = session.exec(select(Campaign).where(Campaign.id != campaign.id).order_by(col(Campaign.created_at)))
    found = [(other, config_of(other)) for other in others]
    return [(other, config) for other, config in found if config.then == campaign.name]


def part_mismatch(first: CampaignConfig, later: CampaignConfig) -> str:
    """Why a test cannot be a later part of a sitting that begins with another one; empty where it can."""
    if kind_of(later.kind).standing:
        return "is a standing test, which has no end"
    one, other = first.texts, later.texts
    differs = {
        "language": one.language != other.language,
        "consent": one.consent != other.consent,
        "version of the consent": one.consent_version != other.consent_version,
    }
    what = [name for name, is_other in differs.items() if is_other]
    return f"has another {' and another '.join(what)}" if what else ""


def may_follow(session: Session, campaign: Campaign, config: CampaignConfig) -> list[dict[str, str]]:
    """The tests that may come after one in the same sitting, newest first; ``but`` says why one would not."""
    rows = session.exec(select(Campaign).where(Campaign.id != campaign.id).order_by(col(Campaign.created_at).desc()))
    ends = [row for row in rows if not kind_of(row.kind).standing]
    return [
        {"name": r.name, "kind": kind_of(r.kind).title, "state": r.state, "but": part_mismatch(config, config_of(r))}
        for r in ends
    ]


def check_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> None:
    """Whether a sitting that begins here can go on to its end.

    What cannot be mended by opening a test is told first.

    Raises:
        BadOption: a part is not there or not open, comes again, has no end, or has another consent or language.
    """
    if not config.then:
        return
    if kind_of(config.kind).standing:
        raise BadOption("a standing test has no end, so no other test can follow it", "let it go on with no other test")
    at, seen, closed = config, {campaign.name}, list[Campaign]()
    while at.then:
        after = following(session, at)
        if after is None:
            raise BadOption(
                f"this test goes on with {at.then!r:.100}, and no test is called so",
                "make that one first, or choose another to go on with",
            )
        if after.name in seen:
            raise BadOption(
                f"{after.name!r} comes again after itself in this sitting", "let the last part go on with no other test"
            )
        if len(seen) == MOST_PARTS:
            raise BadOption(f"the sitting has more than {MOST_PARTS} parts", "let one of them go on with no other test")
        at = config_of(after)
        if why := part_mismatch(config, at):
            raise BadOption(
                f"{after.name!r}, which comes after this test, {why}",
                "raters agree once, for all parts: give each the same consent, version of the consent and language"
                if "another" in why
                else "choose another test to go on with",
            )
        closed += [after] if after.state != "open" else []
        seen.add(after.name)
    if closed:
        raise BadOption(
            f"{closed[-1].name!r}, which comes after this test, is not open", "open the parts from the last one on"
        )
