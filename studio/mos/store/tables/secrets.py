"""The table of keys."""

from sqlmodel import Field, SQLModel


class Secret(SQLModel, table=True):
    """Keys made at first start (the owner's token only as a hash), and which campaign is the studio's own demo."""

    name: str = Field(primary_key=True)
    value: str
