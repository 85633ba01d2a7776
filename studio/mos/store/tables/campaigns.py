"""The table of campaigns."""

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel


class Campaign(SQLModel, table=True):
    """A listening test; ``config`` is studio.mos.config.CampaignConfig as JSON."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    kind: str
    state: str = "draft"  # draft | open | closed
    seed: int = Field(sa_type=BigInteger)
    config: str
    created_at: float


class Look(SQLModel, table=True):
    """A look at the stopping rule, taken once ``raters`` had finished, and what was seen."""

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
