"""A standing arena: whoever comes types a text, two hidden voices speak it, and a vote tells their names."""

from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.kinds.live import Live


class ArenaKind(Live):
    """A live pair preference that has no end: a battle at a time, each on the pair that sharpens the ladder most."""

    name = "arena"
    title = "Arena (live pair preference, standing)"
    about = "Visitors type, two hidden voices speak it live, a vote tells their names; a public ladder without an end."
    standing = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the two choices, or with what only a test with an end has."""
        super().check(config)
        gates = config.gates
        if config.questions:
            raise BadOption("an arena asks for a choice alone", "set no questions; a live test may have them")
        if config.stop.acts:
            raise BadOption("an arena has no end, so no stopping rule", "take stop.half_width and stop.decided out")
        if config.repeats or gates.training or gates.traps or gates.golds:
            raise BadOption("an arena gives one battle at a time", "set no repeats, training, traps or golds")

    def screen(self, config: CampaignConfig) -> dict[str, Any]:
        """Beside what a live screen has, how much may be typed."""
        return super().screen(config) | {"max_chars": config.arena.max_chars}
