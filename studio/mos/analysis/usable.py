"""Raters whose answers do not count: excluded by a gate or by the post-screening of MUSHRA. They are replaced."""

from functools import partial

from sqlmodel import Session, col, or_, select

from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import excluded_raters
from studio.mos.analysis.versions import VersionedCache, results_version
from studio.mos.campaign.config import campaign_config
from studio.mos.kinds.tables import post_screened
from studio.mos.sessions.assignment import is_idle
from studio.mos.store.tables import Campaign, Rater

_unusable_by_campaign = VersionedCache[tuple[str, int], frozenset[str]](256)


def unusable_raters(session: Session, campaign: Campaign) -> frozenset[str]:
    """Pseudonyms of raters whose answers enter no table; cached until the campaign changes."""
    key = (str(session.get_bind().engine.url), campaign.id or 0)
    version, make = results_version(session, campaign), partial(_unusable, session, campaign)
    return _unusable_by_campaign.get(key, version, make)[1]


def _unusable(session: Session, campaign: Campaign) -> frozenset[str]:
    config, excluded = campaign_config(campaign), excluded_raters(session, campaign)
    if campaign.kind == "mushra":
        answers = load_answers(session, campaign.id or 0, everyone=True)
        excluded |= set(post_screened(config, [a for a in answers if a.rater not in excluded]))
    return frozenset(excluded)


def replaced_raters(session: Session, campaign: Campaign) -> set[int]:
    """Ids of raters to be replaced: unusable ones who finished or left. Others may still become usable."""
    if not campaign_config(campaign).replace_excluded:
        return set()
    unusable = unusable_raters(session, campaign)
    rows = session.exec(
        select(Rater.id, Rater.pseudonym).where(
            Rater.campaign_id == campaign.id,
            Rater.role == "panel",
            or_(col(Rater.stage) != "trials", is_idle()),
        )
    )
    return {number for number, name in rows if number is not None and name in unusable}
