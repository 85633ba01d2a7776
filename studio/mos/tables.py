"""The store's tables: campaigns, what is rated, who rates, and what they answered.

Table classes do not validate (a table row takes any score): what comes from outside passes through a ``Create`` class,
and a CHECK constraint stands behind it. What leaves is a ``Public`` class. Times are UTC seconds since 1970.
The schema itself is written by studio.mos.migrations; these classes only read and write it.
"""

from typing import Literal

from pydantic import ConfigDict
from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._,:=+?()\-]*$"
Outcome = Literal["a", "b", "tie", "both_bad"]


class Campaign(SQLModel, table=True):
    """A listening test; ``config`` is studio.mos.config.CampaignConfig as JSON."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    kind: str
    state: str = "draft"  # draft | open | closed
    seed: int = Field(sa_type=BigInteger)
    config: str
    created_at: float


class System(SQLModel, table=True):
    """One voice + speaker + options under test, or a reference or anchor. Nothing of it reaches a rater."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    role: str = "test"  # test | reference | anchor
    voice: str = "{}"


class Item(SQLModel, table=True):
    """A script: what is said. Training, trap and gold items never enter a mean."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    text: str = ""
    role: str = "test"  # test | training | trap | gold
    expected: str | None = None  # a score, or a system's name


class Clip(SQLModel, table=True):
    """Audio by content address; the samples lie in the clip folder."""

    sha: str = Field(primary_key=True)
    rate_hz: int
    samples: int = Field(sa_type=BigInteger)
    derived_from: str | None = None


class Stimulus(SQLModel, table=True):
    """An item as one system says it, with what normalising did to it."""

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


class Rater(SQLModel, table=True):
    """One person in one campaign. ``identity`` is a keyed hash: who they are elsewhere is in ``panel`` only."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    identity: str
    pseudonym: str
    role: str = "panel"  # panel | preview
    stage: str
    consent_version: int | None = None
    panel: str = "{}"  # PROLIFIC_PID and its like, for paying; wiped with the rater
    device: str = "{}"
    joined_at: float
    seen_at: float
    finished_at: float | None = None
    accept: str = "unknown"  # pay them: ok | fail | unknown
    use: str = "unknown"  # analyse them


class Trial(SQLModel, table=True):
    """One screen for one rater, issued by the server under an id that nobody can guess."""

    id: str = Field(primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    rater_id: int = Field(foreign_key="rater.id")
    position: int
    role: str = "test"  # test | training | trap | gold | repeat
    unit: str
    lead: int  # the stimulus in slot 0: orders are balanced by it
    item_id: int = Field(foreign_key="item.id")
    issued_at: float | None = None
    released: int = 0  # 1: the rater went away, so somebody else was given the unit


class Slot(SQLModel, table=True):
    """A place on a screen and what it plays: the realised order."""

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    stimulus_id: int = Field(foreign_key="stimulus.id")
    place: str = "candidate"  # candidate | reference


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


class Take(SQLModel, table=True):
    """What a voice said on a live screen while the rater typed (slot 0), or while the same keys came again (slot 1).

    Append-only: a rater may type anew until they answer, and the last take of each slot is what they judge.
    """

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    number: int = Field(primary_key=True)
    at: float
    typed: str  # studio.mos.takes.Typing as JSON
    trace: str  # its address in the clip folder
    rate_hz: int
    samples: int = Field(sa_type=BigInteger)
    latency_ms: float | None  # t5 - t0 of the trace: from the last word that was needed to the first audible sample
    late_ms: float  # the latest key against its recorded time; 0 where the rater typed


class Passage(SQLModel, table=True):
    """A rater passed a stage (consent, screening, headphones, ...), and how; the funnel is drawn from these."""

    id: int | None = Field(default=None, primary_key=True)
    rater_id: int = Field(foreign_key="rater.id")
    stage: str
    verdict: str = "ok"  # ok | fail | unknown
    at: float
    data: str = "{}"


class Removal(SQLModel, table=True):
    """A rater who asked to be forgotten: how many answers went with them, so that counts stay honest."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    pseudonym: str
    answers: int
    at: float


class Deal(SQLModel, table=True):
    """A mark drawn anew whenever a screen of the campaign is given, given back or deleted; kept by the database."""

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    mark: str


class Look(SQLModel, table=True):
    """A look at the stopping rule, taken once ``raters`` had finished, and what was seen."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    raters: int
    met: int
    why: str
    at: float


class Secret(SQLModel, table=True):
    """Keys made at first start (the owner's token only as a hash), and which campaign is the studio's own demo."""

    name: str = Field(primary_key=True)
    value: str


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


class AnswerPublic(SQLModel):
    """The acknowledgement: the answer is on disk."""

    trial: str
    attempt: int
    counted: bool
    repeated: bool = False


class SlotPublic(SQLModel):
    """A place on the screen and where its sound is fetched; the address is good for this rater only."""

    slot: int
    place: str
    url: str


class TrialPublic(SQLModel):
    """A screen as a rater sees it: nothing in it tells the system."""

    trial: str
    position: int
    of: int
    practice: bool
    text: str | None
    slots: list[SlotPublic]
    break_before: bool = False
