"""Kinds of test that ask for a choice between two sounds: AB, similarity, ABX, live typing and the arena."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import AnswerMark, BadAnswer, CountedAnswer, Kind, StimulusStock, choice_marks, score_marks
from studio.mos.kinds.latency import latency_tables
from studio.mos.kinds.tables import MATCH, choice_tables, identity_tables, score_tables
from studio.mos.kinds.units import abx_units, pair_units
from studio.mos.store.tables.answers import AnswerCreate


class AbKind(Kind):
    """Pair preference, with a tie and 'both bad' if the campaign allows them (paper 001)."""

    name = "ab"
    title = "Pair preference (AB)"
    about = "Raters hear two versions and choose the one that they prefer; gives shares and an Elo ladder."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the choices a and b, or with a scale."""
        if not {"a", "b"} <= set(config.choices) or config.questions:
            raise BadOption("a preference test needs the choices a and b and no scales", "set choices")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per script and pair."""
        return pair_units(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """Requires one choice. Raises BadAnswer."""
        return choice_marks(config, answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """Preferences and Elo."""
        return {"choices": choice_tables(answers, seed)}


class SimilarityKind(AbKind):
    """Forced choice of the sound that is more similar to a reference (speaker similarity in paper 002)."""

    name = "similarity"
    title = "Similarity to a reference (forced choice)"
    about = "Raters hear a reference and two others, and choose the one that is more like it; no tie."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless the choices are a and b."""
        if set(config.choices) != {"a", "b"} or config.questions:
            raise BadOption("a forced choice has the choices a and b, nothing else", "set choices to a and b")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per script and pair, beside the reference."""
        return pair_units(stock, config, reference=True)


class AbxKind(Kind):
    """ABX: identification of X, which is A or B; tests whether a difference is audible."""

    name = "abx"
    title = "Can a difference be heard (ABX)"
    about = "Raters hear A, B and X, which is one of the two, and say which: can a difference be heard at all?"
    has_duplicates = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless the choices are a and b."""
        if set(config.choices) != {"a", "b"} or config.questions:
            raise BadOption("X is a or b, nothing else", "set choices to a and b, and no questions")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """Two units per script and pair, one with each as X."""
        return abx_units(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """Requires one choice. Raises BadAnswer."""
        return choice_marks(config, answer, MATCH)

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """Identification rates by pair and overall."""
        return {"identity": identity_tables(answers)}


class LiveKind(AbKind):
    """Live typing: one voice speaks while the rater types, the other gets the same keystrokes replayed."""

    name = "live"
    title = "Live typing (pair preference)"
    about = "Raters type to two voices that speak while they type, and choose the one that they would rather type to."
    is_live = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the choices a and b."""
        if not {"a", "b"} <= set(config.choices):
            raise BadOption("a live test needs the choices a and b", "set choices; questions may stand beside them")

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """Requires one choice, and one score per question and voice. Raises BadAnswer."""
        marks = choice_marks(config, answer.model_copy(update={"scores": []}))
        if config.questions:
            return marks + score_marks(config, range(slots), answer.model_copy(update={"choices": []}))
        if answer.scores:
            raise BadAnswer("this test asks for a choice alone", "send no scores")
        return marks

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """Preferences and Elo, the scores of every question, and both against latency."""
        tables: dict[str, Any] = {"choices": choice_tables(answers, seed)}
        if config.questions:
            tables["questions"] = {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}
        return tables | {"latency": latency_tables(answers, config.questions)}


class ArenaKind(LiveKind):
    """A standing live test: one battle at a time, on the pair that reduces the ladder's error most."""

    name = "arena"
    title = "Arena (live pair preference, standing)"
    about = "Visitors type, two hidden voices speak it live, a vote tells their names; a public ladder without an end."
    is_standing = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without the choices a and b, or with settings that need an end of the test."""
        super().check(config)
        gates = config.gates
        if config.questions:
            raise BadOption("an arena asks for a choice alone", "set no questions; a live test may have them")
        if config.stop.is_active:
            raise BadOption("an arena has no end, so no stopping rule", "take stop.half_width and stop.decided out")
        if config.repeats or gates.training or gates.traps or gates.golds:
            raise BadOption("an arena gives one battle at a time", "set no repeats, training, traps or golds")

    def screen(self, config: CampaignConfig) -> dict[str, Any]:
        """The page data of a live trial, and the maximal number of characters."""
        return super().screen(config) | {"max_chars": config.arena.max_chars}
