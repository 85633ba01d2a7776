"""What a campaign is set to: frozen dataclasses, read strictly from JSON or TOML and written back the same."""

import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from studio.core.errors import BadOption
from studio.core.numbers import is_number
from studio.mos.campaign.names import check_name

Spending = Literal["obrien_fleming", "pocock"]
Choice = Literal["a", "b", "tie", "both_bad"]
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A question answered by a whole number from ``low`` to ``high``; ``labels`` names some of them."""

    id: str
    prompt: str
    low: int
    high: int
    labels: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Screen:
    """A question before the test; with ``accept`` only those answers go on."""

    id: str
    prompt: str
    options: list[str]
    accept: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Gates:
    """What stands before and between the trials, and what the analysis may leave out.

    Attributes:
        environment: whether raters do P.808's environment test; ``environment_required`` turns away who fails it twice.
        training: clips for practice, like ``traps`` and ``golds`` so many in each sitting.
        min_variance: of a rater's scores; 0 judges nobody.
        max_repeat_distance: mean distance between the answers to a screen that was shown twice, as a share of the
            scale (another choice is 1); 0 judges nobody.
        pace: raters who cannot have heard what they say they heard, because their answers came sooner after the screen
            than the sounds last, are not analysed.
        min_consensus: correlation of a rater's answers with the mean of the others'; 0 judges nobody.
        consensus_required: who is below it is not analysed; else that is told for information alone.
        consensus_answers: fewest answers of a rater who is judged.
        consensus_by: whether others' means are of each stimulus (pair and script), or of each system (pair).
    """

    headphones: Literal["none", "woods", "huggins"] = "none"
    headphones_required: bool = False
    environment: bool = False
    environment_required: bool = False
    level: bool = True
    screening: list[Screen] = field(default_factory=list[Screen])
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
            raise BadOption("gates.environment_required has nothing to require", "set gates.environment, too")
        if not 0 <= self.min_consensus <= 1:
            raise BadOption(f"gates.min_consensus is {self.min_consensus}", "it is a correlation, 0 to 1")
        if self.consensus_required and not self.min_consensus:
            raise BadOption("gates.consensus_required has nothing to require", "set gates.min_consensus, too")
        if self.consensus_answers < 3:
            raise BadOption(f"gates.consensus_answers is {self.consensus_answers}", "a correlation needs 3 or more")


@dataclass(frozen=True)
class Texts:
    """What the rater reads; the consent has a version, and every rater's row says which one was agreed to."""

    title: str = "Listening test"
    consent: str = ""
    consent_version: int = 1
    instructions: str = ""
    thanks: str = "Thank you. Your answers are saved."
    language: str = "en"


@dataclass(frozen=True)
class WayOut:
    """What a panel wants back of somebody who leaves: a code to show, an address to go to."""

    code: str | None = None
    redirect_url: str | None = None

    def __post_init__(self) -> None:
        """Raises BadOption for an address that is none of a page."""
        if self.redirect_url is not None and not re.match("https?://", self.redirect_url, re.IGNORECASE):
            raise BadOption(f"completion.redirect_url is {self.redirect_url!r:.80}", "begin it with https://")


@dataclass(frozen=True)
class Completion(WayOut):
    """The same of raters who finished, whose every answer is saved; panels pay others by other codes.

    Attributes:
        refused: who did not agree to the consent.
        screened_out: whom the screening, or a headphone check that was required, turned away.
        full: who came when every stimulus had its raters.
    """

    refused: WayOut = field(default_factory=WayOut)
    screened_out: WayOut = field(default_factory=WayOut)
    full: WayOut = field(default_factory=WayOut)

    def of(self, stage: str) -> WayOut:
        """The way out at the end of a sitting: done, refused, screened_out or full; none anywhere else."""
        ends = {"done": self, "refused": self.refused, "screened_out": self.screened_out, "full": self.full}
        return ends.get(stage, WayOut())


@dataclass(frozen=True)
class StopRule:
    """When to let nobody new in; where both are asked for, either is enough.

    Attributes:
        half_width: the 95% interval of every system (of every pair, where pairs are judged) reaches at most so far.
        decided: every pair of systems differs beyond doubt, corrected for all pairs and all looks.
        looks: numbers of finished raters, whom the gates keep, at which the rule is looked at; the first is the least,
            the last the most that are planned. There may be as many as wanted.
        spending: how the error of ``decided`` is spread over the looks; ``obrien_fleming`` keeps it for the end.
    """

    half_width: float | None = None
    decided: bool = False
    looks: list[int] = field(default_factory=lambda: [20, 40, 60, 80, 100])
    spending: Spending = "obrien_fleming"

    def __post_init__(self) -> None:
        """Raises BadOption on a width of nought, or looks that do not rise."""
        if self.half_width is not None and not self.half_width > 0:
            raise BadOption(f"stop.half_width is {self.half_width}", "it is above 0")
        if not self.looks or self.looks[0] < 2 or sorted(set(self.looks)) != self.looks:
            raise BadOption(f"stop.looks are {self.looks}", "give rising numbers of raters, from 2 on")
        if self.spending not in get_args(Spending):
            raise BadOption(f"stop.spending is {self.spending!r}", f"it may be {', '.join(get_args(Spending))}")

    @property
    def acts(self) -> bool:
        """Whether there is a rule at all."""
        return self.half_width is not None or self.decided


@dataclass(frozen=True)
class Arena:
    """What a standing arena keeps to (the kind ``arena``).

    Attributes:
        min_votes: on a system before the ladder ranks it.
        per_day: battles of one rater within 24 hours.
        per_pair: battles of one rater on one pair of systems, ever.
        explore: share of battles whose pair is drawn at random and not by what sharpens the ladder most.
        max_chars: of what a rater types.
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
        kind: a name of studio.mos.kinds.
        questions: what is scored on every stimulus (acr, dcr, scale, mushra) or on a pair (ccr).
        choices: what may be answered on a pair (ab, similarity, abx).
        prompt: the question asked about a pair.
        raters_per_stimulus: how many raters each unit (stimulus, pair or page) is to have; in an ABX test a pair is
            two units, one with either as X.
        trials_per_sitting: test trials of one rater; traps, golds and training come on top.
        pairs: all pairs of systems, or every system against ``baseline``.
        must_listen: share of each clip that is to be played before the answer may be sent.
        show_text: whether raters see what is said; with ``text_after`` only once they have heard every sound of the
            screen, so that they judge what they heard and not what they read.
        repeats: trials of a sitting that are shown twice, for self-consistency.
        narrowband: sounds of 8 kHz are taken, too: the test is about telephone speech.
        then: the campaign that a sitting goes on with once this one is done: a test of another kind, say.
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
        most = (self.trials_per_sitting + 1) // 2  # those of the first half come again in the second
        if self.repeats > most:
            raise BadOption(
                f"repeats is {self.repeats} with {self.trials_per_sitting} trials a sitting", f"{most} at most"
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
        return _checked(value in args, value, where, f"one of {', '.join(map(str, args))}")
    if origin in (Union, UnionType):
        inner = next(a for a in args if a is not type(None))
        return None if value is None else _value(inner, value, where)
    if origin is list:
        _checked(isinstance(value, list), value, where, "a list")
        return [_value(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        _checked(isinstance(value, dict), value, where, "a table")
        return {str(k): _value(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float:
        _checked(is_number(value), value, where, "a number")
        return float(value)
    if hint is int:
        return _checked(isinstance(value, int) and is_number(value), value, where, "a whole number")
    if hint is bool:
        return _checked(isinstance(value, bool), value, where, "true or false")
    return _checked(isinstance(value, str), value, where, "text")


def _checked(good: bool, value: Any, where: str, allowed: str) -> Any:
    if not good:
        raise BadOption(f"{where} is {value!r}", f"it must be {allowed}")
    return value
