"""Settings of the checks before and between the trials, and of the exclusion of raters."""

import math
from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from studio.core.checks import MAX_WHOLE
from studio.core.errors import BadOption

MAX_TEXT_CHARS = 1000  # of an answer in free text
Whole = Annotated[int, Field(ge=0, le=MAX_WHOLE)]
Share = Annotated[float, Field(ge=0, le=1)]
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=STRICT)
class ScreeningQuestion:
    """A question before the trials: a choice of ``options``, a line of text, or a number.

    Attributes:
        accept: accepted options of a choice; any other answer ends the session. Empty: all are accepted.
        low: lower limit of a number; ``high``: upper limit; None: no limit.
        optional: whether it may be left empty.
    """

    id: str
    prompt: str
    options: list[str] = field(default_factory=list[str])
    accept: list[str] = field(default_factory=list[str])
    answer: Literal["choice", "text", "number"] = "choice"
    low: Annotated[float, Field(ge=-1e9, le=1e9)] | None = None
    high: Annotated[float, Field(ge=-1e9, le=1e9)] | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _is_consistent(self) -> "ScreeningQuestion":
        if self.low is not None and self.high is not None and self.low > self.high:
            raise BadOption(f"the screening question {self.id!r:.40} has low above high", "exchange them")
        return self

    def read(self, sent: object) -> str | float | None:
        """The validated answer of a browser; "" if an optional answer was omitted, None if it is invalid."""
        text = str(sent).strip() if isinstance(sent, (str, int, float)) and not isinstance(sent, bool) else ""
        if not text:
            return "" if self.optional else None
        if self.answer == "text":
            return text[:MAX_TEXT_CHARS].replace("\0", "")
        if self.answer == "number":
            return self._number(text)
        return text if text in self.options else None

    def _number(self, text: str) -> float | None:
        try:
            value = float(text.replace(",", "."))
        except ValueError:
            return None
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not math.isfinite(value) or not low <= value <= high:
            return None
        return int(value) if value == int(value) else value


@dataclass(frozen=True, config=STRICT)
class Gates:
    """Checks before and between the trials, and exclusion criteria of the analysis.

    Attributes:
        environment: whether raters do P.808's environment test; ``environment_required`` rejects raters who fail twice.
        training: number of practice clips per session; ``traps`` and ``golds`` likewise.
        min_variance: minimal variance of a rater's scores; 0 disables the gate.
        max_repeat_distance: mean distance between the answers to a repeated trial, as a share of the scale (another
            choice is 1); 0 disables the gate.
        side_bias: p value below which a rater of pairs who chooses one side too often is excluded (exact binomial test;
            the order of pairs is balanced); 0 disables the gate.
        reject_after: number of failed traps from which a rater is not paid. Panels require two, or one in studies of up
            to five minutes. Raters with fewer failed traps are to be reviewed by a person.
        pace: excludes raters whose answers came faster than the sounds last.
        min_consensus: correlation of a rater's answers with the mean of the others'; 0 disables the gate.
        consensus_required: whether raters below ``min_consensus`` are excluded or only reported.
        consensus_answers: minimal number of answers for this gate.
        consensus_by: whether the others' means are per stimulus (pair and script) or per system (pair).
    """

    headphones: Literal["none", "woods", "huggins"] = "none"
    headphones_required: bool = False
    environment: bool = False
    environment_required: bool = False
    level: bool = True
    screening: list[ScreeningQuestion] = field(default_factory=list[ScreeningQuestion])
    training: Whole = 0
    traps: Whole = 0
    golds: Whole = 0
    min_variance: Annotated[float, Field(ge=0)] = 0.0
    max_repeat_distance: Share = 0.0
    side_bias: Annotated[float, Field(ge=0, le=0.2)] = 0.01
    reject_after: Annotated[int, Field(ge=1, le=20)] = 2
    pace: bool = False
    min_consensus: Share = 0.0
    consensus_required: bool = False
    consensus_answers: Annotated[int, Field(ge=3, le=MAX_WHOLE)] = 10  # a correlation needs 3 or more
    consensus_by: Literal["stimulus", "system"] = "stimulus"

    @model_validator(mode="after")
    def _is_consistent(self) -> "Gates":
        if self.environment_required and not self.environment:
            raise BadOption("gates.environment_required needs gates.environment", "set gates.environment, too")
        if self.consensus_required and not self.min_consensus:
            raise BadOption("gates.consensus_required needs gates.min_consensus", "set gates.min_consensus, too")
        return self
