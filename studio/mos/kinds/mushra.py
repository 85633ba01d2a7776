"""MUSHRA (ITU-R BS.1534-3): all systems, a hidden reference and low-pass anchors, beside an open reference."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import ratings_of, screened_tables, screening
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, scored
from studio.mos.kinds.units import pages_with_reference
from studio.mos.stats.columns import Scale
from studio.mos.store.tables.answers import AnswerCreate


class Mushra(Kind):
    """Scores of 0 to 100 with hidden reference and anchors."""

    name = "mushra"
    title = "MUSHRA with hidden reference and anchors"
    about = "Raters score all versions of a script beside an open reference, 0 to 100; hidden reference, two anchors."
    same_sound_twice = True
    anchored = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there is exactly one question, of 0 to 100, and nothing else."""
        if (
            len(config.questions) != 1
            or config.choices
            or (config.questions[0].low, config.questions[0].high) != (0, 100)
        ):
            raise BadOption("a MUSHRA page asks one question of 0 to 100", "keep one, and no choices")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """One unit for each script."""
        return pages_with_reference(stock)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """Every sound once, the open reference not. Raises BadAnswer."""
        return scored(config, range(slots), answer)

    def heeded(self, config: CampaignConfig, answers: Sequence[Judged]) -> Sequence[Judged]:
        """Those of raters whom the post-screening keeps."""
        question = config.questions[0]
        screen = screening(answers, ratings_of(answers, question.id, Scale(question.low, question.high)))
        return answers if screen is None else [a for a in answers if a.rater not in screen[0].dropped]

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """The tables of the question after the post-screening; who was left out, and the same with everybody."""
        question = config.questions[0]
        return screened_tables(answers, question.id, question.low, question.high)
