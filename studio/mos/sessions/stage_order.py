"""Names and order of a session's stages."""

from studio.mos.campaign.config import CampaignConfig

BEFORE_TRIALS = ("screening", "instructions", "level", "headphones", "environment")
END_STAGES = ("done", "screened_out", "withdrawn", "full")
FINAL_STAGES = ("done", "refused", "screened_out", "full")  # with a completion code or URL
MAX_TRIES = 2  # at the headphone check, and at the environment test


def ordered_stages(config: CampaignConfig) -> list[str]:
    """The stages of a campaign in order. In a session of several parts, comments come in the last part only."""
    gates = config.gates
    found = ["consent"]
    found += ["screening"] if gates.screening else []
    found += ["instructions"]
    found += ["level"] if gates.level else []  # before the tones, which need the level
    found += ["headphones"] if gates.headphones != "none" else []
    found += ["environment"] if gates.environment else []  # at the same level, over the same headphones
    return [*found, "trials", "comments", "done"]


def next_stage(order: list[str], stage: str) -> str:
    """The stage that follows one."""
    return order[order.index(stage) + 1]
