"""Campaign settings: frozen dataclasses with strict parsing from JSON or TOML values."""

import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from studio.core.checks import is_number
from studio.core.errors import BadOption
from studio.mos.campaign.names import check_name

Spending = Literal["obrien_fleming", "pocock"]
Choice = Literal["a", "b", "tie", "both_bad"]
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A question with integer scores from ``low`` to ``high``; ``labels`` names some of them."""

    id: str
    prompt: str
    low: int
    high: int
    labels: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ScreeningQuestion:
    """A screening question; if ``accept`` is set, other answers end the session."""

    id: str
    prompt: str
    options: list[str]
    accept: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
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
    training: int = 0
    traps: int = 0
    golds: int = 0
    min_variance: float = 0.0
    max_repeat_distance: float = 0.0
    pace: bool = False
    min_consensus: float = 0.0
    consensus_required: bool = False
    consensus_answers: int = 10
    consensus_by: Literal["stimulus", "system"] = "stimulus"

    def __post_init__(self) -> None:
        """Raises BadOption on a number outside its range."""
        for name in ("training", "traps", "golds", "min_variance"):
            if getattr(self, name) < 0:
                raise BadOption(f"gates.{name} is {getattr(self, name)}", "it is 0 or more")
        if not 0 <= self.max_repeat_distance <= 1:
            raise BadOption(
                f"gates.max_repeat_distance is {self.max_repeat_distance}", "it is a share of the scale, 0 to 1"
            )
        if self.environment_required and not self.environment:
            raise BadOption("gates.environment_required needs gates.environment", "set gates.environment, too")
        if not 0 <= self.min_consensus <= 1:
            raise BadOption(f"gates.min_consensus is {self.min_consensus}", "it is a correlation, 0 to 1")
        if self.consensus_required and not self.min_consensus:
            raise BadOption("gates.consensus_required needs gates.min_consensus", "set gates.min_consensus, too")
        if self.consensus_answers < 3:
            raise BadOption(f"gates.consensus_answers is {self.consensus_answers}", "a correlation needs 3 or more")


@dataclass(frozen=True)
class Texts:
    """Texts for raters. The consent has a version, which is stored with each rater."""

    title: str = "Listening test"
    consent: str = ""
    consent_version: int = 1
    instructions: str = ""
    thanks: str = "Thank you. Your answers are saved."
    language: str = "en"


@dataclass(frozen=True)
class CompletionLink:
    """Completion code and redirect URL for a recruiting panel."""

    code: str | None = None
    redirect_url: str | None = None

    def __post_init__(self) -> None:
        """Raises BadOption unless the URL is http or https."""
        if self.redirect_url is not None and not re.match("https?://", self.redirect_url, re.IGNORECASE):
            raise BadOption(f"completion.redirect_url is {self.redirect_url!r:.80}", "begin it with https://")


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class StopRule:
    """When to stop recruiting; with both criteria set, either is sufficient.

    Attributes:
        half_width: maximal half-width of the 95% interval of every system (or pair).
        decided: every pair of systems differs significantly, corrected for all pairs and looks.
        looks: rising numbers of finished raters (passing the gates) at which the rule is evaluated.
        spending: alpha spending of ``decided`` over the looks; ``obrien_fleming`` keeps most of it for the end.
    """

    half_width: float | None = None
    decided: bool = False
    looks: list[int] = field(default_factory=lambda: [20, 40, 60, 80, 100])
    spending: Spending = "obrien_fleming"

    def __post_init__(self) -> None:
        """Raises BadOption unless the half-width is positive and the looks rise."""
        if self.half_width is not None and not self.half_width > 0:
            raise BadOption(f"stop.half_width is {self.half_width}", "it is above 0")
        if not self.looks or self.looks[0] < 2 or sorted(set(self.looks)) != self.looks:
            raise BadOption(f"stop.looks are {self.looks}", "give rising numbers of raters, from 2 on")
        if self.spending not in get_args(Spending):
            raise BadOption(f"stop.spending is {self.spending!r}", f"it may be {', '.join(get_args(Spending))}")

    @property
    def is_active(self) -> bool:
        """Whether a criterion is set."""
        return self.half_width is not None or self.decided


@dataclass(frozen=True)
class Arena:
    """Settings of the kind ``arena``.

    Attributes:
        min_votes: votes on a system before the ladder ranks it.
        per_day: battles of one rater within 24 hours.
        per_pair: battles of one rater on one pair of systems, in total.
        explore: share of battles with a random pair instead of the most informative one.
        max_chars: maximal length of a typed text.
    """

    min_votes: int = 30
    per_day: int = 20
    per_pair: int = 5
    explore: float = 0.2
    max_chars: int = 300

    def __post_init__(self) -> None:
        """Raises BadOption on a number outside its range."""
        for name, low, high in _ARENA_RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadOption(f"arena.{name} is {value}", f"it may be {low} to {high}")


_ARENA_RANGES: tuple[tuple[str, float, float], ...] = (
    ("min_votes", 1, 100_000),
    ("per_day", 1, 1000),
    ("per_pair", 1, 1000),
    ("explore", 0.0, 1.0),
    ("max_chars", 20, 2000),
)


@dataclass(frozen=True)
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
    raters_per_stimulus: int = 7
    trials_per_sitting: int = 10
    pairs: Literal["all", "baseline"] = "all"
    baseline: str | None = None
    break_after: int = 0
    must_listen: float = 1.0
    show_text: bool = True
    text_after: bool = False
    repeats: int = 0
    narrowband: bool = False
    then: str = ""
    gates: Gates = field(default_factory=Gates)
    texts: Texts = field(default_factory=Texts)
    completion: Completion = field(default_factory=Completion)
    stop: StopRule = field(default_factory=StopRule)
    arena: Arena = field(default_factory=Arena)

    def __post_init__(self) -> None:
        """Raises BadOption on a number outside its range."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadOption(f"{name} is {value}", f"it may be {low} to {high}")
        if self.then:
            check_name(self.then)
        for question in self.questions:
            if not -100 <= question.low < question.high <= 100:
                raise BadOption(
                    f"the scale of question {question.id!r} is {question.low} to {question.high}",
                    "low must be below high, both within -100 to 100",
                )
        most = (self.trials_per_sitting + 1) // 2  # trials of the first half are repeated in the second
        if self.repeats > most:
            raise BadOption(
                f"repeats is {self.repeats} with {self.trials_per_sitting} trials per session", f"{most} at most"
            )
        if len({q.id for q in self.questions}) < len(self.questions):
            raise BadOption("two questions have the same id", "give each its own")


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("raters_per_stimulus", 1, 10_000),
    ("trials_per_sitting", 1, 500),
    ("break_after", 0, 500),
    ("must_listen", 0.0, 1.0),
    ("repeats", 0, 50),
)


def to_json(config: CampaignConfig) -> dict[str, Any]:
    """A campaign's settings as JSON values."""
    return asdict(config)


def from_json(data: Any) -> CampaignConfig:
    """Settings from JSON or TOML values. Raises BadOption on unknown keys, missing keys or wrong types."""
    return _read(CampaignConfig, data, "campaign")


def _read(kind: type[T], data: Any, where: str) -> T:
    if not isinstance(data, dict):
        raise BadOption(f"[{where}] is not a table", "give keys and values")
    table = cast("dict[str, Any]", data)
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(str(k) for k in set(table) - known)
    if unknown:
        raise BadOption(f"[{where}] has unknown keys: {', '.join(unknown)}", f"known are {', '.join(sorted(known))}")
    values = {name: _value(hints[name], value, f"{where}.{name}") for name, value in table.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise BadOption(f"[{where}] is not complete: {error}", f"it takes {', '.join(sorted(known))}") from error


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _read(hint, value, where)
    if origin is Literal:
        return _require(value in args, value, where, f"one of {', '.join(map(str, args))}")
    if origin in (Union, UnionType):
        inner = next(a for a in args if a is not type(None))
        return None if value is None else _value(inner, value, where)
    if origin is list:
        _require(isinstance(value, list), value, where, "a list")
        return [_value(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        _require(isinstance(value, dict), value, where, "a table")
        return {str(k): _value(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float:
        _require(is_number(value), value, where, "a number")
        return float(value)
    if hint is int:
        return _require(isinstance(value, int) and is_number(value), value, where, "a whole number")
    if hint is bool:
        return _require(isinstance(value, bool), value, where, "true or false")
    return _require(isinstance(value, str), value, where, "text")


def _require(good: bool, value: Any, where: str, allowed: str) -> Any:
    if not good:
        raise BadOption(f"{where} is {value!r}", f"it must be {allowed}")
    return value
