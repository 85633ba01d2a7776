"""The table of interim looks at a stopping rule."""

from sqlmodel import Field, SQLModel


class Look(SQLModel, table=True):
    """A look at the stopping rule, taken once ``raters`` had finished, and what was seen."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    raters: int
    met: int
    why: str
    at: float
