"""What texts are written in."""

from typing import Literal

Markup = Literal["plain", "markdown", "ssml", "breaks"]
