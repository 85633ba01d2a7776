"""All systems of a script on one page, each on one scale, no reference (the MUSHRA-style test of paper 002)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import score_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import pages
from studio.mos.store.tables.answers import AnswerCreate


class Scale(Kind):
    """MUSHRA-style scores without a reference."""

    name = "scale"
    title = "All systems on one page (MUSHRA-style)"
    about = "Raters score every version of a script on one page, each by a slider of 1 to 100."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there is exactly one question."""
        if len(config.questions) != 1:
            raise BadOption(f"a page of systems asks one question, not {len(config.questions)}", "keep one")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each script."""
        return pages(stock)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every sound once. Raises BadAnswer."""
        return scored(config, range(slots), answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question."""
        return {"questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}}
