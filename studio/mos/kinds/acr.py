"""Absolute category rating: one sound, any number of questions (ITU-T P.800; two in paper 000)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import score_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import singles
from studio.mos.store.tables.answers import AnswerCreate


class Acr(Kind):
    """Mean opinion score."""

    name = "acr"
    title = "Absolute category rating (MOS)"
    about = "Raters hear one sound at a time and score it, 1 to 5 for instance; the mean is the MOS."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without a question."""
        if not config.questions:
            raise BadOption("an ACR test needs a question", "add one with its scale")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each stimulus."""
        return singles(stock)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every question once. Raises BadAnswer."""
        return scored(config, range(slots), answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question."""
        return {"questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}}
