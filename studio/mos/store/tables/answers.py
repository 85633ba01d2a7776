"""Answers of raters: tables, requests and responses.

SQLModel table classes do not validate: input passes through a ``Create`` class, backed by CHECK constraints. Output is
a ``Public`` class.
"""

from typing import Literal

from pydantic import ConfigDict
from sqlmodel import Field, SQLModel

Outcome = Literal["a", "b", "tie", "both_bad"]


class Answer(SQLModel, table=True):
    """A rater's answer to a trial. Append-only; the first attempt counts, later ones are stored beside it."""

    id: int | None = Field(default=None, primary_key=True)
    trial_id: str = Field(foreign_key="trial.id")
    attempt: int
    counted: int
    received_at: float
    response_ms: float
    comment: str = ""
    digest: str
    missing: str = ""  # why a live trial was skipped: late | failed | mute


class Score(SQLModel, table=True):
    """A score within its scale."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    question: str = Field(primary_key=True)
    slot: int = Field(primary_key=True)
    value: int
    low: int
    high: int


class Choice(SQLModel, table=True):
    """A choice between the slots of a trial: ``a`` is slot 0 and ``b`` is slot 1."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    question: str = Field(primary_key=True)
    outcome: str


class Play(SQLModel, table=True):
    """How often and how long a slot was played before the answer."""

    answer_id: int = Field(foreign_key="answer.id", primary_key=True)
    slot: int = Field(primary_key=True)
    plays: int
    heard_ms: float


class _Create(SQLModel):
    """Client input: strict types, unknown fields are rejected."""

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
    """Playback as reported by a client."""

    slot: int = Field(ge=0, le=63)
    plays: int = Field(ge=0, le=10_000)
    heard_ms: float = Field(ge=0, le=86_400_000)


class AnswerCreate(_Create):
    """An answer as a client sends it, with bounded fields."""

    trial: str = Field(schema_extra={"pattern": "^[0-9a-f]{8,64}$"})  # SQLModel ignores ``regex``
    scores: list[ScoreCreate] = Field(default_factory=list, max_length=640)
    choices: list[ChoiceCreate] = Field(default_factory=list, max_length=10)
    plays: list[PlayCreate] = Field(default_factory=list, max_length=64)
    response_ms: float = Field(default=0.0, ge=0, le=86_400_000)
    comment: str = Field(default="", max_length=4000)
    skipped: bool = False  # a live trial whose voices could not be played correctly


class AnswerPublic(SQLModel):
    """Acknowledgement: the answer is on disk. In an arena it names the systems in slot order."""

    trial: str
    attempt: int
    counted: bool
    repeated: bool = False
    voices: list[str] | None = None
    titles: list[str] | None = None  # readable titles of ``voices``
