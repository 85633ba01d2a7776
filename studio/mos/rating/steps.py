"""The steps of a sitting: their names, and the order in which a campaign has them."""

from studio.mos.campaign.config import CampaignConfig

BEFORE_TRIALS = ("screening", "instructions", "level", "headphones", "environment")
ENDS = ("done", "screened_out", "withdrawn", "full")
LAST = ("done", "refused", "screened_out", "full")  # ends with a code or an address to go back to
TRIES = 2  # at the headphone check, and at the environment test


def stages(config: CampaignConfig) -> list[str]:
    """The stages of a campaign, in order; of a sitting of several parts, the last word is asked for at its end."""
    gates = config.gates
    found = ["consent"]
    found += ["screening"] if gates.screening else []
    found += ["instructions"]
    found += ["level"] if gates.level else []  # before the tones, which are to be heard at it
    found += ["headphones"] if gates.headphones != "none" else []
    found += ["environment"] if gates.environment else []  # at the same level, over the same headphones
    return [*found, "trials", "comments", "done"]


def next_step(order: list[str], stage: str) -> str:
    """The stage that follows one."""
    return order[order.index(stage) + 1]
