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
