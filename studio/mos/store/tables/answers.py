"""What raters answered: the tables, what a client may send, and what it is told.

Table classes do not validate (a table row takes any score): what comes from outside passes through a ``Create`` class,
and a CHECK constraint stands behind it. What leaves is a ``Public`` class.
"""

from typing import Literal

from pydantic import ConfigDict
from sqlmodel import Field, SQLModel

Outcome = Literal["a", "b", "tie", "both_bad"]


class Answer(SQLModel, table=True):
    """What a rater sent for a trial. Append-only; the first attempt counts, later ones are kept beside it."""

    id: int | None = Field(default=None, primary_key=True)
    trial_id: str = Field(foreign_key="trial.id")
    attempt: int
    counted: int
    received_at: float
    response_ms: float
    comment: str = ""
    digest: str
    missing: str = ""  # why there is no answer, where a live screen was skipped: late | failed | mute


class Score(SQLModel, table=True):
    """A score within its scale."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    question: str = Field(primary_key=True)
    slot: int = Field(primary_key=True)
    value: int
    low: int
    high: int


class Choice(SQLModel, table=True):
    """A choice between the slots of a screen: ``a`` is slot 0 and ``b`` is slot 1 as shown."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    question: str = Field(primary_key=True)
    outcome: str


class Play(SQLModel, table=True):
    """How often and how much of a slot was heard before the answer."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    slot: int = Field(primary_key=True)
    plays: int
    heard_ms: float


class _Create(SQLModel):
    """What comes from outside: a number in quotes is no number, and fields that nobody knows are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")  # type: ignore[assignment]


class ScoreCreate(_Create):
    """A score as a client sends it."""

    question: str = Field(max_length=80)
    slot: int = Field(ge=0, le=63)
    value: int = Field(ge=-100, le=100)


class ChoiceCreate(_Create):
    """A choice as a client sends it."""

    question: str = Field(max_length=80)
    outcome: Outcome


class PlayCreate(_Create):
    """What a client says it played."""

    slot: int = Field(ge=0, le=63)
    plays: int = Field(ge=0, le=10_000)
    heard_ms: float = Field(ge=0, le=86_400_000)


class AnswerCreate(_Create):
    """An answer as a client sends it, bounded before anything looks at it."""

    trial: str = Field(schema_extra={"pattern": "^[0-9a-f]{8,64}$"})  # SQLModel takes ``regex`` and forgets it
    scores: list[ScoreCreate] = Field(default_factory=list, max_length=640)
    choices: list[ChoiceCreate] = Field(default_factory=list, max_length=10)
    plays: list[PlayCreate] = Field(default_factory=list, max_length=64)
    response_ms: float = Field(default=0.0, ge=0, le=86_400_000)
    comment: str = Field(default="", max_length=4000)
    skipped: bool = False  # a live screen whose voices could not be heard as they should be


class AnswerPublic(SQLModel):
    """The acknowledgement: the answer is on disk. In an arena it names the systems, in the order of the voices."""

    trial: str
    attempt: int
    counted: bool
    repeated: bool = False
    voices: list[str] | None = None
    titles: list[str] | None = None  # the same in words, for whoever voted
