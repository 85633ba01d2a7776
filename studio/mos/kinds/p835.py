"""Speech in noise, judged on three scales: the speech signal, the background, the whole (ITU-T P.835)."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import asking_tables, score_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import singles
from studio.mos.store.tables.answers import AnswerCreate

SCALES = ("SIG", "BAK", "OVRL")


class P835(Kind):
    """Three mean opinion scores of a sound that is heard anew for each; the order of the first two is balanced."""

    name = "p835"
    title = "Speech signal, background and overall (P.835)"
    about = "Raters hear a sound in noise three times and score speech, background and the whole, each from 1 to 5."
    hearings = len(SCALES)

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless the three scales of the recommendation are asked, 1 to 5, and nothing else."""
        asked = sorted(q.id for q in config.questions)
        if asked != sorted(SCALES) or config.choices or any((q.low, q.high) != (1, 5) for q in config.questions):
            raise BadOption(
                f"P.835 asks {', '.join(SCALES)}, each from 1 to 5", "keep these three questions, and no choices"
            )

    def orders(self, config: CampaignConfig) -> list[str]:
        """Signal or background first, always the whole last."""
        return ["SIG BAK OVRL", "BAK SIG OVRL"]

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each stimulus."""
        return singles(stock)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every scale once. Raises BadAnswer."""
        return scored(config, range(slots), answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of each scale, and what the order of asking did to it."""
        asked = sorted(config.questions, key=lambda q: SCALES.index(q.id))
        return {
            "questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in asked},
            "asking": {q.id: asking_tables(answers, q.id, q.low, q.high) for q in asked},
        }
