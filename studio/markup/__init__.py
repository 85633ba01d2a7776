"""Markup: the formats in which texts are written."""

from typing import Literal

Markup = Literal["plain", "markdown", "ssml", "breaks"]
