"""Trials assigned to raters, their slots, takes of live trials, and a trial's public view."""

from sqlalchemy import BigInteger
from sqlmodel import Field, SQLModel


class Trial(SQLModel, table=True):
    """One trial of one rater, under an unguessable id."""

    id: str = Field(primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    rater_id: int = Field(foreign_key="rater.id")
    position: int
    role: str = "test"  # test | training | trap | gold | repeat
    unit: str
    lead: int  # the stimulus in slot 0, by which orders are balanced
    item_id: int = Field(foreign_key="item.id")
    issued_at: float | None = None
    released: int = 0  # 1: the rater was idle or left, so the unit may be assigned again
    asked: str = ""  # question ids in their order if asked one after another; empty: all at once


class Slot(SQLModel, table=True):
    """A slot of a trial and its stimulus: the presented order."""

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    stimulus_id: int = Field(foreign_key="stimulus.id")
    place: str = "candidate"  # candidate | reference


class AssignmentMark(SQLModel, table=True):
    """A random mark that a database trigger replaces whenever a campaign's trials are assigned, released or deleted."""

    __tablename__ = "deal"  # pyright: ignore[reportAssignmentType]

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    mark: str


class SlotPublic(SQLModel):
    """A slot and the URL of its sound, which is valid for this rater only."""

    slot: int
    place: str
    url: str


class TrialPublic(SQLModel):
    """A trial as a rater sees it; blinded: nothing in it reveals the system."""

    trial: str
    position: int
    of: int  # 0 where there is no end
    practice: bool
    text: str | None
    asked: list[str]
    slots: list[SlotPublic]
    break_before: bool = False


class Take(SQLModel, table=True):
    """Speech of a voice on a live trial while the rater typed (slot 0), or with the same keystrokes replayed (slot 1).

    Append-only: a rater may type again until they answer; the last take of each slot is rated.
    """

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    number: int = Field(primary_key=True)
    at: float
    typed: str  # studio.mos.sessions.takes.Typing as JSON
    trace: str  # its address in the clip folder
    rate_hz: int
    samples: int = Field(sa_type=BigInteger)
    latency_ms: float | None  # t5 - t0 of the trace: from the last required word to the first audible sample
    late_ms: float  # delay of the voice by late keystrokes; 0 where the rater typed
    script: str = ""  # in an arena, a hash of the typed text (studio.mos.store.access.Access.script_of)
