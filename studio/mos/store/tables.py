"""The tables of the database, and the requests and responses of raters.

SQLModel table classes do not validate: input passes through a ``Create`` class, backed by CHECK constraints. Output is
a ``Public`` class.
"""

from typing import Literal

from pydantic import ConfigDict
from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel

Outcome = Literal["a", "b", "tie", "both_bad"]


class Campaign(SQLModel, table=True):
    """A listening test; ``config`` is studio.mos.campaign.config.CampaignConfig as JSON."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    kind: str
    state: str = "draft"  # draft | open | closed
    seed: int = Field(sa_type=BigInteger)
    config: str
    created_at: float


class Look(SQLModel, table=True):
    """An evaluation of the stopping rule after ``raters`` raters had finished, and its result."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    raters: int
    met: int
    why: str
    at: float


class Secret(SQLModel, table=True):
    """Keys created at first start (the owner's token as a hash only), and the ids of the demo campaigns."""

    name: str = Field(primary_key=True)
    value: str


class System(SQLModel, table=True):
    """A voice, speaker and options under test, or a reference or anchor. Never visible to raters."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    role: str = "test"  # test | reference | anchor
    voice: str = "{}"


class Item(SQLModel, table=True):
    """A script. Training, trap and gold items never enter a mean; tags are separated by semicolons."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    text: str = ""
    role: str = "test"  # test | training | trap | gold
    expected: str | None = None  # a score, or a system's name
    tags: str = ""


class Clip(SQLModel, table=True):
    """Audio by content address; the samples are in the clip folder."""

    sha: str = Field(primary_key=True)
    rate_hz: int
    samples: int = Field(sa_type=BigInteger)
    derived_from: str | None = None


class Stimulus(SQLModel, table=True):
    """An item spoken by a system, with its level normalisation."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    item_id: int = Field(foreign_key="item.id")
    system_id: int = Field(foreign_key="system.id")
    clip_sha: str = Field(foreign_key="clip.sha")
    source_rate_hz: int
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float
    trace: str | None = None


class Prediction(SQLModel, table=True):
    """MOS of a clip as predicted by a model, keyed by the clip and the model's weights."""

    clip_sha: str = Field(foreign_key="clip.sha", primary_key=True)
    weights: str = Field(primary_key=True)  # their sha256
    predictor: str
    version: str
    mos: float
    at: float


class Rater(SQLModel, table=True):
    """One person in one campaign. ``identity`` is a keyed hash; identifiers of a panel are in ``panel`` only.

    In later parts of a session a person keeps the identity and pseudonym of the first part.
    """

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    identity: str
    pseudonym: str
    role: str = "panel"  # panel | preview
    stage: str
    consent_version: int | None = None
    panel: str = "{}"  # PROLIFIC_PID and similar, for payment; erased with the rater
    device: str = "{}"
    joined_at: float
    seen_at: float
    finished_at: float | None = None
    accept: str = "unknown"  # whether to pay them: ok | fail | unknown
    use: str = "unknown"  # whether to analyse them
    part: int = 1  # position of this campaign in a session of several


class Passage(SQLModel, table=True):
    """A rater's result of a stage (consent, screening, headphones, ...)."""

    id: int | None = Field(default=None, primary_key=True)
    rater_id: int = Field(foreign_key="rater.id")
    stage: str
    verdict: str = "ok"  # ok | fail | unknown
    at: float
    data: str = "{}"


class Removal(SQLModel, table=True):
    """An erased rater and the number of their answers, so that counts stay correct.

    ``person`` identifies them in a merge (studio.mos.sessions.erasure.person_of); removals of older versions have none.
    """

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    pseudonym: str
    answers: int
    at: float
    person: str = ""


class Trial(SQLModel, table=True):
    """One trial of one rater, under an unguessable id."""

    id: str = Field(primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    rater_id: int = Field(foreign_key="rater.id")
    position: int
    role: str = "test"  # test | training | trap | gold | repeat
    unit: str
    lead: int  # the stimulus in slot 0, by which orders are balanced
    item_id: int = Field(foreign_key="item.id")
    issued_at: float | None = None
    released: int = 0  # 1: the rater was idle or left, so the unit may be assigned again
    asked: str = ""  # question ids in their order if asked one after another; empty: all at once


class Slot(SQLModel, table=True):
    """A slot of a trial and its stimulus: the presented order."""

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    stimulus_id: int = Field(foreign_key="stimulus.id")
    place: str = "candidate"  # candidate | reference


class AssignmentMark(SQLModel, table=True):
    """A random mark that a database trigger replaces whenever a campaign's trials are assigned, released or deleted."""

    __tablename__ = "deal"  # pyright: ignore[reportAssignmentType]

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    mark: str


class Take(SQLModel, table=True):
    """Speech of a voice on a live trial while the rater typed (slot 0), or with the same keystrokes replayed (slot 1).

    Append-only: a rater may type again until they answer; the last take of each slot is rated.
    """

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    number: int = Field(primary_key=True)
    at: float
    typed: str  # studio.mos.sessions.takes.Typing as JSON
    trace: str  # its address in the clip folder
    rate_hz: int
    samples: int = Field(sa_type=BigInteger)
    latency_ms: float | None  # t5 - t0 of the trace: from the last required word to the first audible sample
    late_ms: float  # delay of the voice by late keystrokes; 0 where the rater typed
    script: str = ""  # in an arena, a hash of the typed text (studio.mos.store.access.Access.script_of)


class Answer(SQLModel, table=True):
    """A rater's answer to a trial. Append-only; the first attempt counts, later ones are stored but not counted."""

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


def row_id(row: Campaign | System | Item | Stimulus | Rater | Answer) -> int:
    """The id of a row that is in the database."""
    assert row.id is not None, "rows in the database have ids"
    return row.id
