"""The table of takes on live screens."""

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel


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
    late_ms: float  # by how much late keys told on the voice; 0 where the rater typed
    script: str = ""  # in an arena, what stands for the text that was typed (studio.mos.store.access.Access.script_of)
