"""Texts with the durations of paper 004, and their arrival times."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.ports import SpeakRequest
from studio.core.traces.trace import collect_trace
from studio.engine.engine import LocalEngine

MEANS_S = {"short": 2.64, "medium": 4.08, "long": 7.00, "mixed": 4.54}  # paper 004, Table 1
_MIXED = {"short": 0.34, "medium": 0.335, "long": 0.325}  # shares of the other three whose mean is 4.54 s
_SPREAD = 0.3  # lengths are uniform within this share of the mean
_CALIBRATION = 4  # texts that calibrate the duration of a character


@dataclass(frozen=True)
class Arrivals:
    """Arrival process of queries: ``fixed`` intervals (paper 004, 3.2.1) or ``poisson``."""

    kind: str
    per_s: float
    seconds: float
    seed: int = 0

    def times_s(self) -> list[float]:
        """Arrival time of every query, from 0."""
        if self.kind == "fixed":
            return [k / self.per_s for k in range(int(self.per_s * self.seconds))]
        draw = random.Random(f"arrivals {self.seed} {self.per_s}")
        times = itertools.accumulate(draw.expovariate(self.per_s) for _ in itertools.count())
        return [*itertools.takewhile(lambda at_s: at_s < self.seconds, times)]


def seconds_per_char(engine: LocalEngine, lines: Sequence[str]) -> float:
    """Seconds of speech per character, measured on a few texts."""
    chars, seconds = 0, 0.0
    for line in lines[:_CALIBRATION]:
        utterance = engine.open(SpeakRequest())
        utterance.push_text(line)
        utterance.end()
        trace = collect_trace({}, utterance.events())
        chars, seconds = chars + len(line), seconds + len(trace.pcm) / trace.rate_hz
    return max(seconds, 0.01) / max(chars, 1)


def texts_of(kind: str, count: int, s_per_char: float, lines: Sequence[str], seed: int = 0) -> list[str]:
    """Texts whose speech lasts ``MEANS_S[kind]`` on average: joined sentences, cut at a word."""
    draw = random.Random(f"texts {kind} {seed}")
    words = itertools.cycle(" ".join(lines).split())
    found = []
    for _ in range(count):
        one = draw.choices([*_MIXED], [*_MIXED.values()])[0] if kind == "mixed" else kind
        wanted = MEANS_S[one] * draw.uniform(1.0 - _SPREAD, 1.0 + _SPREAD) / s_per_char
        text = next(words)
        while len(text) + 3 < wanted:  # about half a word of tolerance
            text += " " + next(words)
        found.append(text)
    return found
