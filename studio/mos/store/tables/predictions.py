"""The table of predicted opinions."""

from sqlmodel import Field, SQLModel


class Prediction(SQLModel, table=True):
    """The MOS that a predictor foresees for a clip, by the clip's content and its own weights. Nobody's answer."""

    clip_sha: str = Field(foreign_key="clip.sha", primary_key=True)
    weights: str = Field(primary_key=True)  # their sha256
    predictor: str
    version: str
    mos: float
    at: float
