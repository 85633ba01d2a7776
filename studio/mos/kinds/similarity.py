"""Which of two sounds is more like a reference: forced choice, no tie (speaker similarity in paper 002)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import choice_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, chosen
from studio.mos.kinds.units import pairs
from studio.mos.store.tables.answers import AnswerCreate


class Similarity(Kind):
    """Forced-choice similarity to a reference."""

    name = "similarity"
    title = "Similarity to a reference (forced choice)"
    about = "Raters hear a reference and two others, and choose the one that is more like it; no tie."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption when anything but a and b may be chosen."""
        if set(config.choices) != {"a", "b"} or config.questions:
            raise BadOption("a forced choice has the choices a and b, nothing else", "set choices to a and b")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each script and pair, the reference beside it."""
        return pairs(stock, config, reference=True)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """One choice. Raises BadAnswer."""
        return chosen(config, answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """Preferences and Elo."""
        return {"choices": choice_tables(answers, seed)}
