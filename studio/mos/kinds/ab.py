"""Which of two sounds is better, with a tie and 'both bad' where the campaign allows them (paper 001)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import choice_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, chosen
from studio.mos.kinds.units import pairs
from studio.mos.store.tables.answers import AnswerCreate


class Ab(Kind):
    """Pair preference."""

    name = "ab"
    title = "Pair preference (AB)"
    about = "Raters hear two versions and choose the one that they prefer; gives shares and an Elo ladder."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the two choices or with a scale."""
        if not {"a", "b"} <= set(config.choices) or config.questions:
            raise BadOption("a preference test needs the choices a and b and no scales", "set choices")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each script and pair."""
        return pairs(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """One choice. Raises BadAnswer."""
        return chosen(config, answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """Preferences and Elo."""
        return {"choices": choice_tables(answers, seed)}
