"""ABX: which of two sounds is X? Whether a difference can be heard at all."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.analysis import MATCH, identity_tables
from studio.mos.kinds.base import Judged, Kind, Mark, Stock, chosen
from studio.mos.kinds.units import identified
from studio.mos.store.tables.answers import AnswerCreate


class Abx(Kind):
    """Identification of X, which is A or B."""

    name = "abx"
    title = "Can a difference be heard (ABX)"
    about = "Raters hear A, B and X, which is one of the two, and say which: can a difference be heard at all?"
    same_sound_twice = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption when anything but a and b may be chosen."""
        if set(config.choices) != {"a", "b"} or config.questions:
            raise BadOption("X is a or b, nothing else", "set choices to a and b, and no questions")

    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """Two units for each script and pair, one with either of them as X."""
        return identified(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """One choice. Raises BadAnswer."""
        return chosen(config, answer, MATCH)

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """How often X was found, by pair and in all."""
        return {"identity": identity_tables(answers)}
