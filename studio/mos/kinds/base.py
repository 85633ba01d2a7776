"""The interface of a kind of test: create units, describe the trial page, validate and analyse answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from studio.core.errors import StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.store.tables.answers import AnswerCreate


class BadAnswer(StudioError):
    """An answer does not fit its trial and was not stored."""

    code = "bad_answer"


@dataclass(frozen=True)
class StimulusStock:
    """A campaign's stimuli: ids of scripts, of systems by role, and the stimulus of each (script, system)."""

    items: Sequence[int]
    systems: Sequence[int]
    references: Sequence[int]
    baseline: int | None
    stimuli: Mapping[tuple[int, int], int]
    anchors: Sequence[int] = ()
    names: Mapping[int, str] = field(default_factory=dict[int, str])  # of scripts, for messages
    system_names: Mapping[int, str] = field(default_factory=dict[int, str])
    is_unscored: bool = False  # training, traps and golds, which may lack the reference


@dataclass(frozen=True)
class AnswerMark:
    """A validated score or choice to store."""

    question: str
    slot: int | None = None
    value: int | None = None
    low: int = 0
    high: int = 0
    outcome: str | None = None


@dataclass(frozen=True)
class CountedAnswer:
    """A counted answer for the analysis.

    Attributes:
        systems: name of the system in each rated slot, in slot order.
        scores: (question, slot) to value.
        outcomes: question to a | b | tie | both_bad, as shown.
        reference: system of the open reference, or of X; None without one.
        mid_anchor: the campaign's mid anchor (MUSHRA); None without one.
        tags: of the script.
        asked: question ids in their order if asked one after another; else empty.
        latencies_ms: per slot in a live test, from the required words to the first sound; else empty.
    """

    rater: str
    item: str
    systems: Sequence[str]
    scores: Mapping[tuple[str, int], int]
    outcomes: Mapping[str, str]
    reference: str | None = None
    mid_anchor: str | None = None
    tags: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    latencies_ms: tuple[float | None, ...] = ()


class Kind(ABC):
    """One kind of listening test."""

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str] = ""  # one sentence for experimenters
    is_relative: ClassVar[bool] = False  # a score compares the second sound with the first
    has_duplicates: ClassVar[bool] = False  # a trial may contain the same sound twice, so clips are blinded
    needs_anchors: ClassVar[bool] = False  # low-pass anchors are derived from the reference
    required_plays: ClassVar[int] = 1  # plays of a sound per answer
    is_live: ClassVar[bool] = False  # spoken while the rater types; clips only set the level
    is_standing: ClassVar[bool] = False  # no end: one trial at a time, typed texts are the scripts

    @abstractmethod
    def check(self, config: CampaignConfig) -> None:
        """Raises BadOption if the settings do not fit the kind."""

    @abstractmethod
    def assign(self, stock: StimulusStock, config: CampaignConfig) -> list[Unit]:
        """All units to rate. Raises BadFile naming missing stimuli."""

    def question_orders(self, config: CampaignConfig) -> list[str]:
        """Balanced orders of questions asked one after another, as ids separated by spaces; empty if asked at once.

        A rater keeps one order for a whole session.
        """
        return []

    @abstractmethod
    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[AnswerMark]:
        """The marks of an answer to a trial with ``slots`` rated slots. Raises BadAnswer."""

    def analysed_answers(self, config: CampaignConfig, answers: Sequence[CountedAnswer]) -> Sequence[CountedAnswer]:
        """The answers that enter the means, after the gates: all, unless the kind has a post-screening."""
        return answers

    @abstractmethod
    def analyse(self, config: CampaignConfig, answers: Sequence[CountedAnswer], *, seed: int = 0) -> dict[str, Any]:
        """Tables with intervals, JSON-safe."""

    def screen(self, config: CampaignConfig) -> dict[str, Any]:
        """Page data of the questions; equal for every trial, so it reveals nothing."""
        return {
            "kind": self.name,
            "prompt": config.prompt,
            "questions": [asdict(q) for q in config.questions],
            "choices": list(config.choices),
            "must_listen": config.must_listen,
            "text_after": config.text_after,
        }


def score_marks(config: CampaignConfig, slots: Sequence[int], answer: AnswerCreate) -> list[AnswerMark]:
    """Marks of an answer that scores every question of these slots exactly once. Raises BadAnswer."""
    if answer.choices:
        raise BadAnswer("this test asks for scores, not for a choice", "send scores")
    marks: list[AnswerMark] = []
    wanted = {(q.id, slot): q for q in config.questions for slot in slots}
    for score in answer.scores:
        question = wanted.pop((score.question, score.slot), None)
        if question is None:
            raise BadAnswer(
                f"no question {score.question!r} is open for slot {score.slot}", "answer each question once"
            )
        if not question.low <= score.value <= question.high:
            raise BadAnswer(
                f"the score {score.value} is outside the scale", f"it goes from {question.low} to {question.high}"
            )
        marks.append(AnswerMark(score.question, score.slot, score.value, question.low, question.high))
    if wanted:
        raise BadAnswer(f"{len(wanted)} of the questions are not answered", "answer every question of every sound")
    return marks


def choice_marks(config: CampaignConfig, answer: AnswerCreate, question: str = "preference") -> list[AnswerMark]:
    """The mark of an answer with exactly one choice. Raises BadAnswer."""
    if answer.scores or len(answer.choices) != 1 or answer.choices[0].question != question:
        raise BadAnswer("this test asks for one choice", f"send one choice for the question {question!r}")
    outcome = answer.choices[0].outcome
    if outcome not in config.choices:
        raise BadAnswer(f"{outcome!r} cannot be chosen here", f"choose {', '.join(config.choices)}")
    return [AnswerMark(question, outcome=outcome)]
