"""What is rated: systems, items, clips, and the stimuli that they make together."""

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel


class System(SQLModel, table=True):
    """One voice + speaker + options under test, or a reference or anchor. Nothing of it reaches a rater."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    role: str = "test"  # test | reference | anchor
    voice: str = "{}"


class Item(SQLModel, table=True):
    """A script: what is said. Training, trap and gold items never enter a mean; tags are divided by semicolons."""

    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    name: str
    text: str = ""
    role: str = "test"  # test | training | trap | gold
    expected: str | None = None  # a score, or a system's name
    tags: str = ""


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
