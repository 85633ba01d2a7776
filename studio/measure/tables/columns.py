"""What the columns of a table mean."""

from dataclasses import dataclass
from typing import Literal

Type = Literal["text", "integer", "number", "boolean"]


@dataclass(frozen=True)
class Column:
    """One column: its name, the type of its values (empty where it does not apply), and what it says."""

    name: str
    type: Type
    meaning: str
