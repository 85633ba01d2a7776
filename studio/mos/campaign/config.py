"""Campaign settings: frozen pydantic dataclasses, read strictly from JSON or TOML values."""

import json
import re
from dataclasses import asdict, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, field_validator, model_validator
from pydantic.dataclasses import dataclass

from studio.core.checks import MAX_WHOLE
from studio.core.errors import BadOption
from studio.mos.campaign.names import check_name
from studio.mos.store.json_columns import read_strict
from studio.mos.store.tables import Campaign

Spending = Literal["obrien_fleming", "pocock"]
Choice = Literal["a", "b", "tie", "both_bad"]
Score = Annotated[int, Field(ge=-100, le=100)]
Whole = Annotated[int, Field(ge=0, le=MAX_WHOLE)]
Share = Annotated[float, Field(ge=0, le=1)]
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_STRICT)
class Question:
    """A question with integer scores from ``low`` to ``high``; ``labels`` names some of them."""

    id: str
    prompt: str
    low: Score
    high: Score
    labels: dict[str, str] = field(default_factory=dict[str, str])

    @model_validator(mode="after")
    def _rises(self) -> "Question":
        if self.low >= self.high:
            raise BadOption(
                f"the scale of question {self.id!r} is {self.low} to {self.high}",
                "low must be below high, both within -100 to 100",
            )
        return self


@dataclass(frozen=True, config=_STRICT)
class ScreeningQuestion:
    """A screening question; if ``accept`` is set, other answers end the session."""

    id: str
    prompt: str
    options: list[str]
    accept: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, config=_STRICT)
class Gates:
    """Checks before and between the trials, and exclusion criteria of the analysis.

    Attributes:
        environment: whether raters do P.808's environment test; ``environment_required`` rejects raters who fail twice.
        training: number of practice clips per session, like ``traps`` and ``golds``.
        min_variance: of a rater's scores; 0 disables the gate.
        max_repeat_distance: mean distance between the answers to a repeated trial, as a share of the scale (another
            choice is 1); 0 disables the gate.
        pace: excludes raters whose answers came faster than the sounds last.
        min_consensus: correlation of a rater's answers with the mean of the others'; 0 disables the gate.
        consensus_required: whether raters below it are excluded; else it is reported only.
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


@dataclass(frozen=True, config=_STRICT)
class Texts:
    """Texts for raters. The consent has a version, which is stored with each rater."""

    title: str = "Listening test"
    consent: str = ""
    consent_version: Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE)] = 1
    instructions: str = ""
    thanks: str = "Thank you. Your answers are saved."
    language: str = "en"


@dataclass(frozen=True, config=_STRICT)
class CompletionLink:
    """Completion code and redirect URL for a recruiting panel."""

    code: str | None = None
    redirect_url: str | None = None

    @field_validator("redirect_url")
    @classmethod
    def _is_web_page(cls, url: str | None) -> str | None:
        if url is not None and not re.match("https?://", url, re.IGNORECASE):
            raise BadOption(f"completion.redirect_url is {url!r:.80}", "begin it with https://")
        return url


@dataclass(frozen=True, config=_STRICT)
class Completion(CompletionLink):
    """Completion link of raters who finished, and of the other outcomes.

    Attributes:
        refused: the rater declined the consent.
        screened_out: rejected by the screening or a required check.
        full: all quotas were filled.
    """

    refused: CompletionLink = field(default_factory=CompletionLink)
    screened_out: CompletionLink = field(default_factory=CompletionLink)
    full: CompletionLink = field(default_factory=CompletionLink)

    def for_stage(self, stage: str) -> CompletionLink:
        """The link of a final stage: done, refused, screened_out or full; empty for other stages."""
        ends = {"done": self, "refused": self.refused, "screened_out": self.screened_out, "full": self.full}
        return ends.get(stage, CompletionLink())


@dataclass(frozen=True, config=_STRICT)
class StopRule:
    """When to stop recruiting; with both criteria set, either is sufficient.

    Attributes:
        half_width: maximal half-width of the 95% interval of every system (or pair).
        decided: every pair of systems differs significantly, corrected for all pairs and looks.
        looks: rising numbers of finished raters (passing the gates) at which the rule is evaluated.
        spending: alpha spending of ``decided`` over the looks; ``obrien_fleming`` keeps most of it for the end.
    """

    half_width: Annotated[float, Field(gt=0)] | None = None
    decided: bool = False
    looks: list[Whole] = field(default_factory=lambda: [20, 40, 60, 80, 100])
    spending: Spending = "obrien_fleming"

    @field_validator("looks")
    @classmethod
    def _rise(cls, looks: list[int]) -> list[int]:
        if not looks or looks[0] < 2 or sorted(set(looks)) != looks:
            raise BadOption(f"stop.looks are {looks}", "give rising numbers of raters, from 2 on")
        return looks

    @property
    def is_active(self) -> bool:
        """Whether a criterion is set."""
        return self.half_width is not None or self.decided


@dataclass(frozen=True, config=_STRICT)
class Arena:
    """Settings of the kind ``arena``.

    Attributes:
        min_votes: votes on a system before the ladder ranks it.
        per_day: battles of one rater within 24 hours.
        per_pair: battles of one rater on one pair of systems, in total.
        explore: share of battles with a random pair instead of the most informative one.
        max_chars: maximal length of a typed text.
    """

    min_votes: Annotated[int, Field(ge=1, le=100_000)] = 30
    per_day: Annotated[int, Field(ge=1, le=1000)] = 20
    per_pair: Annotated[int, Field(ge=1, le=1000)] = 5
    explore: Share = 0.2
    max_chars: Annotated[int, Field(ge=20, le=2000)] = 300


@dataclass(frozen=True, config=_STRICT)
class CampaignConfig:
    """One listening test.

    Attributes:
        kind: a name in studio.mos.kinds.registry.
        questions: scores per stimulus (acr, dcr, scale, mushra) or per pair (ccr).
        choices: allowed answers on a pair (ab, similarity, abx).
        prompt: the question about a pair.
        raters_per_stimulus: quota of each unit (stimulus, pair or page); in an ABX test a pair is two units, one with
            each as X.
        trials_per_sitting: test trials per rater, without traps, golds and training.
        pairs: all pairs of systems, or every system against ``baseline``.
        must_listen: share of each clip that must be played before answering.
        show_text: whether raters see the script; with ``text_after`` only after all sounds were played, so that the
            text does not bias the rating.
        repeats: trials per session that are shown twice, for self-consistency.
        narrowband: accept 8 kHz sounds, for telephone speech.
        then: name of the campaign with which the session continues.
    """

    kind: str
    questions: list[Question] = field(default_factory=list[Question])
    choices: list[Choice] = field(default_factory=list[Choice])
    prompt: str = ""
    raters_per_stimulus: Annotated[int, Field(ge=1, le=10_000)] = 7
    trials_per_sitting: Annotated[int, Field(ge=1, le=500)] = 10
    pairs: Literal["all", "baseline"] = "all"
    baseline: str | None = None
    break_after: Annotated[int, Field(ge=0, le=500)] = 0
    must_listen: Share = 1.0
    show_text: bool = True
    text_after: bool = False
    repeats: Annotated[int, Field(ge=0, le=50)] = 0
    narrowband: bool = False
    then: str = ""
    gates: Gates = field(default_factory=Gates)
    texts: Texts = field(default_factory=Texts)
    completion: Completion = field(default_factory=Completion)
    stop: StopRule = field(default_factory=StopRule)
    arena: Arena = field(default_factory=Arena)

    @model_validator(mode="after")
    def _is_consistent(self) -> "CampaignConfig":
        if self.then:
            check_name(self.then)
        most = (self.trials_per_sitting + 1) // 2  # trials of the first half are repeated in the second
        if self.repeats > most:
            raise BadOption(
                f"repeats is {self.repeats} with {self.trials_per_sitting} trials per session", f"{most} at most"
            )
        if len({q.id for q in self.questions}) < len(self.questions):
            raise BadOption("two questions have the same id", "give each its own")
        return self


_CONFIG = TypeAdapter(CampaignConfig)


def to_json(config: CampaignConfig) -> dict[str, Any]:
    """A campaign's settings as JSON values."""
    return asdict(config)


def from_json(data: Any) -> CampaignConfig:
    """Settings from JSON or TOML values. Raises BadOption on unknown or missing keys, wrong types and limits."""
    try:
        text = json.dumps(data)
    except (TypeError, RecursionError) as error:
        raise BadOption(
            f"the settings cannot be read: {error}", "give numbers, texts, and lists and tables of them"
        ) from error
    return read_strict(_CONFIG, text, "campaign")


def campaign_config(campaign: Campaign) -> CampaignConfig:
    """The settings of a campaign in the database."""
    return read_strict(_CONFIG, campaign.config, "campaign")
