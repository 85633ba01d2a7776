"""Which of two voices is better to type to: one speaks while the rater types, the other hears the same keys again."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.kinds.ab import Ab
from studio.mos.kinds.analysis import choice_tables, score_tables
from studio.mos.kinds.base import BadAnswer, Judged, Mark, chosen, scored
from studio.mos.kinds.latency import latency_tables
from studio.mos.store.tables.answers import AnswerCreate


class Live(Ab):
    """Pair preference of voices that speak while the rater types, and scores of each where questions are asked."""

    name = "live"
    title = "Live typing (pair preference)"
    about = "Raters type to two voices that speak while they type, and choose the one that they would rather type to."
    spoken = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the two choices."""
        if not {"a", "b"} <= set(config.choices):
            raise BadOption("a live test needs the choices a and b", "set choices; questions may stand beside them")

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """One choice, and every question of both voices once where there are any. Raises BadAnswer."""
        marks = chosen(config, answer.model_copy(update={"scores": []}))
        if config.questions:
            return marks + scored(config, range(slots), answer.model_copy(update={"choices": []}))
        if answer.scores:
            raise BadAnswer("this test asks for a choice alone", "send no scores")
        return marks

    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """Preferences and Elo, the scores of every question, and both against latency."""
        tables: dict[str, Any] = {"choices": choice_tables(answers, seed)}
        if config.questions:
            tables["questions"] = {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}
        return tables | {"latency": latency_tables(answers, config.questions)}
