"""Who rates: raters, the stages that they passed, and how many were forgotten."""

from sqlmodel import Field, SQLModel


class Rater(SQLModel, table=True):
    """One person in one campaign. ``identity`` is a keyed hash: who they are elsewhere is in ``panel`` only.

    In the campaigns that are later parts of one sitting a person has the identity and pseudonym of the first.
    """

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
    part: int = 1  # of a sitting through several campaigns


class Passage(SQLModel, table=True):
    """A rater passed a stage (consent, screening, headphones, ...), and how; the funnel is drawn from these."""

    id: int | None = Field(default=None, primary_key=True)
    rater_id: int = Field(foreign_key="rater.id")
    stage: str
    verdict: str = "ok"  # ok | fail | unknown
    at: float
    data: str = "{}"


class Removal(SQLModel, table=True):
    """A rater who asked to be forgotten: how many answers went with them, so that counts stay honest.

    By ``person`` a merge knows them in another database (studio.mos.rating.forgetting.person_of); removals of older
    studios have none.
    """

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    pseudonym: str
    answers: int
    at: float
    person: str = ""
