"""What is rated: systems, items, clips, and the stimuli that they make together."""

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel


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
