"""Kinds of test that ask for scores: ACR, DCR, CCR, P.835, MUSHRA-style and MUSHRA."""

from collections.abc import Sequence
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.kinds.base import AnswerMark, CountedAnswer, Kind, StimulusStock, score_marks
from studio.mos.kinds.tables import (
    asking_tables,
    comparison_tables,
    ratings_of,
    score_tables,
    screened_tables,
    screening,
)
from studio.mos.kinds.units import (
    mushra_units,
    page_units,
    pair_units_with_reference,
    single_units,
    units_with_reference,
)
from studio.mos.stats.columns import ScoreScale
from studio.mos.store.tables.answers import AnswerCreate

P835_SCALES = ("SIG", "BAK", "OVRL")


class ScoreKind(Kind):
    """Scores of every question for every sound of a trial."""

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """Requires one score per question and sound. Raises BadAnswer."""
        return score_marks(config, range(slots), answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question."""
        return {"questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in config.questions}}


class AcrKind(ScoreKind):
    """Absolute category rating: one sound, any number of questions (ITU-T P.800; two in paper 000)."""

    name = "acr"
    title = "Absolute category rating (MOS)"
    about = "Raters hear one sound at a time and score it, 1 to 5 for instance; the mean is the MOS."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption without a question."""
        if not config.questions:
            raise BadOption("an ACR test needs a question", "add one with its scale")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per stimulus."""
        return single_units(stock)


class DcrKind(ScoreKind):
    """Degradation category rating: a reference, then another version (ITU-T P.800, annex D)."""

    name = "dcr"
    title = "Degradation category rating (DMOS)"
    about = "Raters hear a reference, then another version, and say how much worse that one is, 1 to 5."
    has_duplicates = True  # the null pairs

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there are only questions of 1 to 5."""
        if not config.questions or config.choices or any((q.low, q.high) != (1, 5) for q in config.questions):
            raise BadOption("a degradation is rated from 1 to 5", "set a question of that scale, and no choices")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per stimulus, beside its reference."""
        return units_with_reference(stock)


class CcrKind(Kind):
    """Comparison category rating (CMOS): the second of two sounds against the first (ITU-T P.800, annex E)."""

    name = "ccr"
    title = "Comparison category rating (CMOS)"
    about = "Raters hear two versions in turn and say how the second compares with the first, -3 to +3."
    is_relative = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless every scale is symmetric around 0 and there is no choice."""
        if not config.questions or config.choices or any(q.low != -q.high for q in config.questions):
            raise BadOption("a comparison has scales from -N to N and no choices", "set a question from -3 to 3")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per script and pair; the reference counts as a system."""
        return pair_units_with_reference(stock, config)

    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """Requires one score per question, of the second sound against the first. Raises BadAnswer."""
        return score_marks(config, [1], answer)

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """The tables of every question, with signs corrected for the presented order."""
        tables = {q.id: comparison_tables(answers, q.id, q.low, q.high, config.baseline) for q in config.questions}
        return {"comparisons": tables}


class P835Kind(ScoreKind):
    """Speech in noise on three scales, one listening each (ITU-T P.835); the order of the first two is balanced."""

    name = "p835"
    title = "Speech signal, background and overall (P.835)"
    about = "Raters hear a sound in noise three times and score speech, background and the whole, each from 1 to 5."
    required_plays = len(P835_SCALES)

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless exactly the three scales of the recommendation are asked, 1 to 5."""
        ids = sorted(q.id for q in config.questions)
        if ids != sorted(P835_SCALES) or config.choices or any((q.low, q.high) != (1, 5) for q in config.questions):
            raise BadOption(
                f"P.835 asks {', '.join(P835_SCALES)}, each from 1 to 5", "keep these three questions, and no choices"
            )

    def question_orders(self, config: CampaignConfig) -> list[str]:
        """Signal or background first, overall last."""
        return ["SIG BAK OVRL", "BAK SIG OVRL"]

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per stimulus."""
        return single_units(stock)

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """The tables of each scale, and the effect of the question order."""
        questions = sorted(config.questions, key=lambda q: P835_SCALES.index(q.id))
        return {
            "questions": {q.id: score_tables(answers, q.id, q.low, q.high) for q in questions},
            "asking": {q.id: asking_tables(answers, q.id, q.low, q.high) for q in questions},
        }


class ScaleKind(ScoreKind):
    """MUSHRA-style: all systems of a script on one page, without a reference (paper 002)."""

    name = "scale"
    title = "All systems on one page (MUSHRA-style)"
    about = "Raters score every version of a script on one page, each by a slider of 1 to 100."

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there is exactly one question."""
        if len(config.questions) != 1:
            raise BadOption(f"a page of systems asks one question, not {len(config.questions)}", "keep one")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per script."""
        return page_units(stock)


class MushraKind(ScoreKind):
    """MUSHRA (ITU-R BS.1534-3): all systems, a hidden reference and low-pass anchors beside an open reference."""

    name = "mushra"
    title = "MUSHRA with hidden reference and anchors"
    about = "Raters score all versions of a script beside an open reference, 0 to 100; hidden reference, two anchors."
    has_duplicates = True
    needs_anchors = True

    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption unless there is exactly one question of 0 to 100."""
        if (
            len(config.questions) != 1
            or config.choices
            or (config.questions[0].low, config.questions[0].high) != (0, 100)
        ):
            raise BadOption("a MUSHRA page asks one question of 0 to 100", "keep one, and no choices")

    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """One unit per script."""
        return mushra_units(stock)

    def analysed_answers(self, config: CampaignConfig, answers: Sequence[CountedAnswer]) -> Sequence[CountedAnswer]:
        """The answers of raters who pass the post-screening."""
        question = config.questions[0]
        screen = screening(answers, ratings_of(answers, question.id, ScoreScale(question.low, question.high)))
        return answers if screen is None else [a for a in answers if a.rater not in screen[0].dropped]

    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """The tables after post-screening, the excluded raters, and the means over all raters."""
        question = config.questions[0]
        return screened_tables(answers, question.id, question.low, question.high)
