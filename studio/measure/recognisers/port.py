"""The port of recognisers: what every caller may ask of one."""

from typing import Protocol

import numpy as np

Sound = tuple[np.ndarray, int]  # int16 [T] and its rate in Hz


class Recogniser(Protocol):
    """Says which words it hears: the same sound gives the same answer, whatever came before and in any process."""

    @property
    def about(self) -> dict[str, str]:
        """What saved results say of it: ``name``, ``version`` of its package, ``weights`` and their ``sha256``."""
        ...

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """The words heard in int16 [T] at any rate, as the recogniser writes them; empty where nothing is heard."""
        ...
