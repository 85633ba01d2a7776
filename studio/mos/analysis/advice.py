"""What a lab should know of a test before raters come, though nothing of it keeps the test from being opened."""

import json

from sqlmodel import Session

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.analysis.consensus_reach import consensus_reach
from studio.mos.analysis.planned import sittings_needed
from studio.mos.campaign.config import CampaignConfig, from_json
from studio.mos.rating.campaigns import Running, running
from studio.mos.rating.parts import named_by, part_mismatch
from studio.mos.store.tables.campaigns import Campaign

_FEW = 0.2  # of careful raters: a gate that fails more of them is worth a word


def advice(session: Session, campaign: Campaign) -> list[StudioError]:
    """Settings that do something else than they say: what it is, and what may be done."""
    config = from_json(json.loads(campaign.config))
    try:
        run = running(session, campaign)
    except (BadFile, BadOption):
        run = None  # what it lacks is told elsewhere
    return [*_on_parts(session, campaign, config), *_on_consensus(config, run)]


def _on_parts(session: Session, campaign: Campaign, config: CampaignConfig) -> list[StudioError]:
    """Tests that go on with this one, and whose raters will not come to it."""
    found: list[StudioError] = []
    for other, first in named_by(session, campaign):
        if why := part_mismatch(first, config):
            found.append(
                BadOption(
                    f"{other.name!r} goes on with this test, which {why}: its raters will end before it",
                    "give both the same consent, version of the consent and language",
                )
            )
        elif other.state == "open" and campaign.state == "closed":
            found.append(
                BadOption(
                    f"{other.name!r} goes on with this test, which is closed: its raters end before it",
                    "open this test again, or close the other",
                )
            )
    return found


def _on_consensus(config: CampaignConfig, run: Running | None) -> list[StudioError]:
    """A gate of agreement with the others that can judge nobody, or that hardly anybody passes."""
    gates = config.gates
    if not gates.min_consensus:
        return []
    if config.kind == "abx":
        return [
            BadOption("agreement with the others judges nobody: in an ABX test what is right is known", "set it to 0")
        ]
    if gates.min_consensus == 1:
        return [BadOption("nobody reaches an agreement of 1 with the others", "set a lower correlation")]
    if run is None:
        return []
    reach = consensus_reach(run)
    if not reach.comparable and gates.consensus_by == "stimulus":
        hint = "let two raters or more hear each sound, or compare by system"
        return [BadOption("agreement with the others judges nobody: nobody hears what another hears", hint)]
    if reach.comparable < gates.consensus_answers:
        return [
            BadOption(
                f"agreement with the others judges nobody: a sitting has {reach.comparable} answers beside which there "
                f"are others', and {gates.consensus_answers} are asked for",
                "ask for fewer answers, or give each rater more screens",
            )
        ]
    if reach.below is not None and reach.below > _FEW:
        return [
            BadOption(
                f"{round(100 * reach.below)}% of careful raters would be below an agreement of {gates.min_consensus:g} "
                f"with the others, in simulated tests of {sittings_needed(run)} raters with usual variances",
                "set a lower correlation, let more raters hear each sound, or compare by system",
            )
        ]
    return []
