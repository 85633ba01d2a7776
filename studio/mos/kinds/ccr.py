"""Comparison category rating: the second of two sounds against the first, -3 to +3 (ITU-T P.800, annex E; CMOS)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import comparison_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import compared
from studio.mos.store.tables.answers import AnswerCreate


class Ccr(Kind):
    """Comparison category rating."""

    name = "ccr"
    title = "Comparison category rating (CMOS)"
    about = "Raters hear two versions in turn and say how the second compares with the first, -3 to +3."
    relative = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless every scale is as far below nought as above it, or when there is a choice."""
        if not config.questions or config.choices or any(q.low != -q.high for q in config.questions):
            raise BadOption("a comparison has scales from -N to N and no choices", "set a question from -3 to 3")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each script and pair; the reference is one of the systems."""
        return compared(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every question once, of the second sound against the first. Raises BadAnswer."""
        return scored(config, [1], answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question, signs corrected for the order that was realised."""
        tables = {q.id: comparison_tables(answers, q.id, q.low, q.high, config.baseline) for q in config.questions}
        return {"comparisons": tables}
