"""What every kind of test can do: make its units, describe its screen, check an answer, analyse the answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from studio.core.errors import StudioError
from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.design import Unit
from studio.mos.store.tables.answers import AnswerCreate


class BadAnswer(StudioError):
    """An answer does not fit its trial; nothing was stored."""

    code = "bad_answer"


@dataclass(frozen=True)
class Stock:
    """What a campaign has to show: scripts, systems by role, and the stimulus of each (script, system)."""

    items: Sequence[int]
    systems: Sequence[int]
    references: Sequence[int]
    baseline: int | None
    stimuli: Mapping[tuple[int, int], int]
    anchors: Sequence[int] = ()
    names: Mapping[int, str] = field(default_factory=dict[int, str])  # of scripts, for what is told of them
    system_names: Mapping[int, str] = field(default_factory=dict[int, str])
    aside: bool = False  # training, traps and golds: what enters no mean may lack the reference


@dataclass(frozen=True)
class Mark:
    """A score or a choice that is to be stored."""

    question: str
    slot: int | None = None
    value: int | None = None
    low: int = 0
    high: int = 0
    outcome: str | None = None


@dataclass(frozen=True)
class Judged:
    """An answer that counts, as the analysis sees it.

    Attributes:
        systems: the system's name in each slot that was judged, in slot order.
        scores: (question, slot) to value.
        outcomes: question to a | b | tie | both_bad, as shown.
        reference: the system whose sound stood beside them as the reference, or as X; None without one.
        mid_anchor: the campaign's mid anchor (MUSHRA); None without one.
        tags: of the script.
        asked: the questions in the order in which they were asked one after another; empty where all stood at once.
        latencies_ms: of each slot's voice in a live test, from the words it needed to its first sound; empty in others.
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
    about: ClassVar[str] = ""  # one sentence for whoever chooses a kind
    relative: ClassVar[bool] = False  # a score says how the second sound compares with the first
    same_sound_twice: ClassVar[bool] = False  # a sound is on the screen twice, and nothing but hearing may tell which
    anchored: ClassVar[bool] = False  # low-pass anchors are made of the reference
    hearings: ClassVar[int] = 1  # how often a sound is to be heard for an answer
    spoken: ClassVar[bool] = False  # what is heard is spoken while the rater types; the clips only say how loud it is
    standing: ClassVar[bool] = False  # it has no end: one screen is given at a time, and its scripts are what was typed

    @abstractmethod
    def check(self, config: CampaignConfig) -> None:
        """Whether the settings fit the kind. Raises BadOption."""

    @abstractmethod
    def assign(self, stock: Stock, config: CampaignConfig) -> list[Unit]:
        """Every unit that is to be rated. Raises BadFile naming what is missing."""

    def orders(self, config: CampaignConfig) -> list[str]:
        """The orders in which questions may be asked one after another, ids with blanks between; none of all at once.

        A rater has one of them in a whole sitting; each is given to as many raters of a unit as another.
        """
        return []

    @abstractmethod
    def validate(self, config: CampaignConfig, slots: int, answer: AnswerCreate) -> list[Mark]:
        """The marks of an answer to a screen with ``slots`` judged slots. Raises BadAnswer."""

    def heeded(self, config: CampaignConfig, answers: Sequence[Judged]) -> Sequence[Judged]:
        """The answers that the means are made of, once the gates have spoken: all of them, unless the kind screens."""
        return answers

    @abstractmethod
    def analyse(self, config: CampaignConfig, answers: Sequence[Judged], *, seed: int = 0) -> dict[str, Any]:
        """Tables with intervals, JSON-safe."""

    def screen(self, config: CampaignConfig) -> dict[str, Any]:
        """What the page needs to draw the questions; the same for every trial, so it tells nothing."""
        return {
            "kind": self.name,
            "prompt": config.prompt,
            "questions": [asdict(q) for q in config.questions],
            "choices": list(config.choices),
            "must_listen": config.must_listen,
            "text_after": config.text_after,
        }


def scored(config: CampaignConfig, slots: Sequence[int], answer: AnswerCreate) -> list[Mark]:
    """Every question of each of these slots exactly once, each within its scale. Raises BadAnswer."""
    if answer.choices:
        raise BadAnswer("this test asks for scores, not for a choice", "send scores")
    marks: list[Mark] = []
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
        marks.append(Mark(score.question, score.slot, score.value, question.low, question.high))
    if wanted:
        raise BadAnswer(f"{len(wanted)} of the questions are not answered", "answer every question of every sound")
    return marks


def chosen(config: CampaignConfig, answer: AnswerCreate, question: str = "preference") -> list[Mark]:
    """The one choice of a pair. Raises BadAnswer."""
    if answer.scores or len(answer.choices) != 1 or answer.choices[0].question != question:
        raise BadAnswer("this test asks for one choice", f"send one choice for the question {question!r}")
    outcome = answer.choices[0].outcome
    if outcome not in config.choices:
        raise BadAnswer(f"{outcome!r} cannot be chosen here", f"choose {', '.join(config.choices)}")
    return [Mark(question, outcome=outcome)]
