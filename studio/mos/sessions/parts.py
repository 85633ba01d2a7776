"""Structure of a session: its stages in order, and its parts.

A campaign names the next part (``then``), so that kinds of test can be combined. Each part is a campaign with its own
results; consent and identity are shared.
"""

from collections.abc import Iterator

from sqlmodel import Session, col, select

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig, campaign_config
from studio.mos.kinds.registry import kind_of
from studio.mos.store.tables import Campaign, Rater

MAX_PARTS = 10


def next_campaign(session: Session, config: CampaignConfig) -> Campaign | None:
    """The campaign with which a session continues; None if it ends here or that campaign was deleted."""
    if not config.then:
        return None
    return session.exec(select(Campaign).where(Campaign.name == config.then)).first()


def later_parts(session: Session, config: CampaignConfig, first: int) -> Iterator[tuple[Campaign, CampaignConfig]]:
    """The parts after the campaign ``first`` in order, with their settings; stops at a repeated campaign.

    Also stops before a part that no longer matches the first (another consent or language, or no end).
    """
    at, seen = config, {first}
    while len(seen) < MAX_PARTS:
        campaign = next_campaign(session, at)
        if campaign is None or campaign.id is None or campaign.id in seen:
            return
        at = campaign_config(campaign)
        if part_mismatch(config, at):
            return
        seen.add(campaign.id)
        yield campaign, at


def part_position(session: Session, config: CampaignConfig, first: int, part: int = 1) -> dict[str, int] | None:
    """Position of a part among those that are not closed; None for a session of one part."""
    later = [campaign for campaign, _ in later_parts(session, config, first) if campaign.state != "closed"]
    return {"n": part, "of": part + len(later)} if part > 1 or later else None


def first_config(session: Session, rater: Rater, config: CampaignConfig) -> CampaignConfig:
    """The settings of a rater's first part, whose completion codes and URLs the panel knows."""
    if rater.part == 1:
        return config
    first = session.exec(
        select(Campaign)
        .join(Rater, Rater.campaign_id == Campaign.id)  # type: ignore[arg-type]
        .where(Rater.identity == rater.identity, Rater.part == 1)
    ).first()
    return config if first is None else campaign_config(first)


def preceding_campaigns(session: Session, campaign: Campaign) -> list[tuple[Campaign, CampaignConfig]]:
    """The campaigns whose next part is this one, with their settings."""
    others = session.exec(select(Campaign).where(Campaign.id != campaign.id).order_by(col(Campaign.created_at)))
    campaigns = [(other, campaign_config(other)) for other in others]
    return [(other, config) for other, config in campaigns if config.then == campaign.name]


def part_mismatch(first: CampaignConfig, later: CampaignConfig) -> str:
    """Why a test cannot be a later part after the first; empty if it can."""
    if kind_of(later.kind).is_standing:
        return "is a standing test, which has no end"
    one, other = first.texts, later.texts
    differs = {
        "language": one.language != other.language,
        "consent": one.consent != other.consent,
        "version of the consent": one.consent_version != other.consent_version,
    }
    what = [name for name, is_other in differs.items() if is_other]
    return f"has another {' and another '.join(what)}" if what else ""


def follow_candidates(session: Session, campaign: Campaign, config: CampaignConfig) -> list[dict[str, str]]:
    """Candidates for the next part, newest first; ``but`` is the reason against one."""
    rows = session.exec(select(Campaign).where(Campaign.id != campaign.id).order_by(col(Campaign.created_at).desc()))
    ends = [row for row in rows if not kind_of(row.kind).is_standing]
    return [
        {
            "name": r.name,
            "kind": kind_of(r.kind).title,
            "state": r.state,
            "but": part_mismatch(config, campaign_config(r)),
        }
        for r in ends
    ]


def check_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> None:
    """Check that a session that begins here can be completed; parts that are only closed are reported last.

    Raises BadOption: a part is missing, closed, repeated, without end, or has another consent or language.
    """
    if not config.then:
        return
    if kind_of(config.kind).is_standing:
        raise BadOption("a standing test has no end, so no other test can follow it", "remove the next test")
    at, seen, closed = config, {campaign.name}, list[Campaign]()
    while at.then:
        after = next_campaign(session, at)
        if after is None:
            raise BadOption(
                f"this test continues with {at.then!r:.100}, which does not exist",
                "create it first, or choose another next test",
            )
        if after.name in seen:
            raise BadOption(
                f"{after.name!r} would be repeated in this session", "let the last part go on with no other test"
            )
        if len(seen) == MAX_PARTS:
            raise BadOption(f"the session has more than {MAX_PARTS} parts", "let one of them go on with no other test")
        at = campaign_config(after)
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


BEFORE_TRIALS = ("screening", "instructions", "level", "headphones", "environment")
END_STAGES = ("done", "screened_out", "withdrawn", "full")
FINAL_STAGES = ("done", "refused", "screened_out", "full")  # with a completion code or URL
MAX_TRIES = 2  # at the headphone check, and at the environment test


def ordered_stages(config: CampaignConfig) -> list[str]:
    """The stages of a campaign in order. In a session of several parts, comments come in the last part only."""
    gates = config.gates
    stages = ["consent"]
    stages += ["screening"] if gates.screening else []
    stages += ["instructions"]
    stages += ["level"] if gates.level else []  # before the tones, which need the level
    stages += ["headphones"] if gates.headphones != "none" else []
    stages += ["environment"] if gates.environment else []  # at the same level, over the same headphones
    return [*stages, "trials", "comments", "done"]


def next_stage(order: list[str], stage: str) -> str:
    """The stage after ``stage``."""
    return order[order.index(stage) + 1]
