"""Degradation category rating: a reference, then how much worse another sound is (ITU-T P.800, annex D)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import score_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import graded
from studio.mos.store.tables.answers import AnswerCreate


class Dcr(Kind):
    """Degradation mean opinion score."""

    name = "dcr"
    title = "Degradation category rating (DMOS)"
    about = "Raters hear a reference, then another version, and say how much worse that one is, 1 to 5."
    same_sound_twice = True  # the null pairs

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there are questions of 1 to 5 and nothing else."""
        if not config.questions or config.choices or any((q.low, q.high) != (1, 5) for q in config.questions):
            raise BadOption("a degradation is rated from 1 to 5", "set a question of that scale, and no choices")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each stimulus, its reference beside it."""
        return graded(stock)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every question once. Raises BadAnswer."""
        return scored(config, range(slots), answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question."""
        return {"questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}}
