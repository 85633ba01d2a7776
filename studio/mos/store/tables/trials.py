"""Screens that were given to raters, what each plays, and how a rater sees it."""

from sqlmodel import Field, SQLModel


class Trial(SQLModel, table=True):
    """One screen for one rater, issued by the server under an id that nobody can guess."""

    id: str = Field(primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    rater_id: int = Field(foreign_key="rater.id")
    position: int
    role: str = "test"  # test | training | trap | gold | repeat
    unit: str
    lead: int  # the stimulus in slot 0: orders are balanced by it
    item_id: int = Field(foreign_key="item.id")
    issued_at: float | None = None
    released: int = 0  # 1: the rater went away, so somebody else was given the unit
    asked: str = ""  # the questions in the order in which they are asked one after another; empty: all at once


class Slot(SQLModel, table=True):
    """A place on a screen and what it plays: the realised order."""

    trial_id: str = Field(foreign_key="trial.id", primary_key=True)
    slot: int = Field(primary_key=True)
    stimulus_id: int = Field(foreign_key="stimulus.id")
    place: str = "candidate"  # candidate | reference


class Deal(SQLModel, table=True):
    """A mark drawn anew whenever a screen of the campaign is given, given back or deleted; kept by the database."""

    campaign_id: int = Field(foreign_key="campaign.id", primary_key=True)
    mark: str


class SlotPublic(SQLModel):
    """A place on the screen and where its sound is fetched; the address is good for this rater only."""

    slot: int
    place: str
    url: str


class TrialPublic(SQLModel):
    """A screen as a rater sees it: nothing in it tells the system."""

    trial: str
    position: int
    of: int  # 0 where there is no end
    practice: bool
    text: str | None
    asked: list[str]
    slots: list[SlotPublic]
    break_before: bool = False
