"""What is spoken under load: texts that last as long as paper 004's, and when they come."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.ports import SpeakRequest
from studio.core.traces.trace import collect
from studio.engine.loop import LocalEngine

MEANS_S = {"short": 2.64, "medium": 4.08, "long": 7.00, "mixed": 4.54}  # paper 004, Table 1
_MIXED = {"short": 0.34, "medium": 0.335, "long": 0.325}  # shares that make 4.54 s of the other three
_SPREAD = 0.3  # lengths are drawn evenly within so much of the mean
_CALIBRATION = 4  # texts spoken to learn how long a character lasts


@dataclass(frozen=True)
class Arrivals:
    """When queries come: ``fixed`` spreads them evenly (paper 004, 3.2.1), ``poisson`` draws the gaps."""

    kind: str
    per_s: float
    seconds: float
    seed: int = 0

    def times_s(self) -> list[float]:
        """Of every query, from 0 on."""
        if self.kind == "fixed":
            return [k / self.per_s for k in range(int(self.per_s * self.seconds))]
        draw = random.Random(f"arrivals {self.seed} {self.per_s}")
        times = itertools.accumulate(draw.expovariate(self.per_s) for _ in itertools.count())
        return [*itertools.takewhile(lambda at_s: at_s < self.seconds, times)]


def seconds_per_char(engine: LocalEngine, lines: Sequence[str]) -> float:
    """How long a voice speaks for a character, by speaking a few texts."""
    chars, seconds = 0, 0.0
    for line in lines[:_CALIBRATION]:
        utterance = engine.open(SpeakRequest())
        utterance.push_text(line)
        utterance.end()
        trace = collect({}, utterance.events())
        chars, seconds = chars + len(line), seconds + len(trace.pcm) / trace.rate_hz
    return max(seconds, 0.01) / max(chars, 1)


def texts_of(kind: str, count: int, s_per_char: float, lines: Sequence[str], seed: int = 0) -> list[str]:
    """Texts whose speech lasts ``MEANS_S[kind]`` on average: sentences joined, and cut at a word."""
    draw = random.Random(f"texts {kind} {seed}")
    words = itertools.cycle(" ".join(lines).split())
    found = []
    for _ in range(count):
        one = draw.choices([*_MIXED], [*_MIXED.values()])[0] if kind == "mixed" else kind
        wanted = MEANS_S[one] * draw.uniform(1.0 - _SPREAD, 1.0 + _SPREAD) / s_per_char
        text = next(words)
        while len(text) + 3 < wanted:  # half a word more or less is left to chance
            text += " " + next(words)
        found.append(text)
    return found
