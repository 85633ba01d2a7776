"""Raters, the stages that they passed, and removals."""

from sqlmodel import Field, SQLModel


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
    part: int = 1  # of a session through several campaigns


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
