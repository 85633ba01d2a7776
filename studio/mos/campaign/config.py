"""Campaign settings: frozen pydantic dataclasses, read strictly from JSON or TOML, and campaign templates."""

import json
import re
import tomllib
from dataclasses import asdict, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tomlkit
from pydantic import Field, TypeAdapter, field_validator, model_validator
from pydantic.dataclasses import dataclass

from studio.core.checks import MAX_WHOLE
from studio.core.errors import BadFile, BadOption
from studio.core.files import read_toml
from studio.mos.campaign.gates import STRICT, Gates, Share, Whole
from studio.mos.campaign.names import check_name
from studio.mos.store.json_columns import read_strict
from studio.mos.store.tables import Campaign

Spending = Literal["obrien_fleming", "pocock"]
Choice = Literal["a", "b", "tie", "both_bad"]
Score = Annotated[int, Field(ge=-100, le=100)]
_STRICT = STRICT
_FOLDER = Path(__file__).parents[1] / "presets"
_SHARED = "shared"


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
    """Completion link of raters who finished, and of the other outcomes."""

    refused: CompletionLink = field(default_factory=CompletionLink)  # the rater declined the consent
    # rejected by the screening or a required check
    screened_out: CompletionLink = field(default_factory=CompletionLink)
    full: CompletionLink = field(default_factory=CompletionLink)  # all quotas were filled

    def for_stage(self, stage: str) -> CompletionLink:
        """The link of a final stage: done, refused, screened_out or full; empty for other stages."""
        ends = {"done": self, "refused": self.refused, "screened_out": self.screened_out, "full": self.full}
        return ends.get(stage, CompletionLink())


@dataclass(frozen=True, config=_STRICT)
class StopRule:
    """When to stop recruiting; with both criteria set, either is sufficient."""

    # maximal half-width of the 95% interval of every system (or pair)
    half_width: Annotated[float, Field(gt=0)] | None = None
    decided: bool = False  # every pair of systems differs significantly, corrected for all pairs and looks
    # rising numbers of finished raters (passing the gates) at which the rule is evaluated
    looks: list[Whole] = field(default_factory=lambda: [20, 40, 60, 80, 100])
    # alpha spending of ``decided`` over the looks; ``obrien_fleming`` keeps most of it for the end
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
class Margins:
    """Largest harmless differences, declared before the test: "no worse than the baseline by more than this"."""

    # difference of two means, or a CMOS, in steps of the scale (points on a scale of 100)
    score: Annotated[float, Field(gt=0, le=100)] | None = None
    # distance of the share of votes from one half; 0.05 allows 45 of 100 votes
    share: Annotated[float, Field(gt=0, lt=0.5)] | None = None


@dataclass(frozen=True, config=_STRICT)
class Arena:
    """Settings of the kind ``arena``."""

    min_votes: Annotated[int, Field(ge=1, le=100_000)] = 30  # votes on a system; below, its rank is provisional
    per_day: Annotated[int, Field(ge=1, le=1000)] = 20  # battles of one rater within 24 hours
    per_pair: Annotated[int, Field(ge=1, le=1000)] = 5  # battles of one rater on one pair of systems, in total
    explore: Share = 0.2  # share of battles with a random pair instead of the most informative one
    max_chars: Annotated[int, Field(ge=20, le=2000)] = 300  # maximal length of a typed text


@dataclass(frozen=True, config=_STRICT)
class CampaignConfig:
    """One listening test."""

    kind: str  # a name in studio.mos.kinds.registry
    # scores per stimulus (acr, dcr, scale, mushra) or per pair (ccr)
    questions: list[Question] = field(default_factory=list[Question])
    choices: list[Choice] = field(default_factory=list[Choice])  # allowed answers on a pair (ab, similarity, abx)
    prompt: str = ""  # the question about a pair
    # quota of each unit (stimulus, pair or page); in an ABX test a pair is two units, one with each as X
    raters_per_stimulus: Annotated[int, Field(ge=1, le=10_000)] = 7
    # replace raters whom a gate or the post-screening excludes, until each unit has its quota of counted raters
    replace_excluded: bool = True
    # test trials per rater, without traps, golds and training
    trials_per_sitting: Annotated[int, Field(ge=1, le=500)] = 10
    pairs: Literal["all", "baseline"] = "all"  # all pairs of systems, or every system against ``baseline``
    baseline: str | None = None
    break_after: Annotated[int, Field(ge=0, le=500)] = 0
    must_listen: Share = 1.0  # share of each clip that must be played before answering
    # whether raters see the script; with ``text_after`` only after all sounds were played, so that the text does not
    # bias the rating
    show_text: bool = True
    text_after: bool = False
    # systems may lack scripts: pairs and pages are formed from the existing sounds; else a missing sound is an error
    incomplete: bool = False
    repeats: Annotated[int, Field(ge=0, le=50)] = 0  # trials per session that are shown twice, for self-consistency
    # integrated: equal loudness of all sounds (BS.1770); active: equal active speech level (P.56, without pauses);
    # keep: as in the files
    levels: Literal["integrated", "active", "keep"] = "integrated"
    narrowband: bool = False  # accept 8 kHz sounds, for telephone speech
    then: str = ""  # name of the campaign with which the session continues
    gates: Gates = field(default_factory=Gates)
    texts: Texts = field(default_factory=Texts)
    completion: Completion = field(default_factory=Completion)
    stop: StopRule = field(default_factory=StopRule)
    margins: Margins = field(default_factory=Margins)
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
_MARGINS = TypeAdapter(Margins)


def margins_of(config: CampaignConfig, margin: float) -> Margins:
    """Margins with one value: ``share`` in a preference test, else ``score``. Raises BadOption."""
    name = "share" if config.choices else "score"
    return read_strict(_MARGINS, json.dumps({name: margin}), "margins")


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


def template_names() -> list[str]:
    """Names for ``load_template``."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _SHARED)


def load_template(name: str) -> CampaignConfig:
    """Load a preset, with the shared consent. Raises BadOption if it does not exist.

    Quality questions of an ACR test on 1 to 5 get the labels of P.800.
    """
    if name not in template_names():
        raise BadOption(f"there is no template {name!r}", f"there are {', '.join(template_names())}")
    data = _read(name)
    data["texts"] = {**_read(_SHARED)["texts"], **data["texts"]}
    data["texts"] = {key: text.strip() for key, text in data["texts"].items()}
    for question in data.get("questions", []):
        if data["kind"] == "acr" and question["id"] == "quality" and (question["low"], question["high"]) == (1, 5):
            question.setdefault("labels", quality_labels("en"))
    return from_json(data)


def with_settings(name: str, path: Path | None) -> CampaignConfig:
    """A template with overrides from a TOML file; tables are merged, lists replaced.

    Raises BadFile: the file cannot be read; BadOption: the template does not exist, or a setting is unknown or out of
    range.
    """
    config = load_template(name)
    return config if path is None else override_settings(config, path)


def override_settings(config: CampaignConfig, path: Path) -> CampaignConfig:
    """Override settings with those of a TOML file. Raises as ``with_settings``."""
    try:
        own = read_toml(path)
    except (OSError, ValueError) as error:
        raise BadFile(f"the settings {path} cannot be read: {error}", "give a TOML file with settings") from error
    return from_json(_merged(to_json(config), own))


def quality_labels(language: str) -> dict[str, str]:
    """Labels of the five-point listening-quality scale (ITU-T P.800, B.4.5), by score "1" to "5". Raises BadOption."""
    known = _read(_SHARED)["labels"]
    if language not in known:
        raise BadOption(
            f"there are no labels in {language!r}", f"there are labels in {', '.join(known)}; or write your own"
        )
    return dict(known[language])


def check_language(config: CampaignConfig) -> None:
    """Raises BadOption for a test in another language with the default English consent."""
    language = config.texts.language
    if re.split("[-_]", language.lower())[0] == "en":
        return
    texts = [load_template(name).texts for name in template_names()]
    same = [name for name in _TRANSLATED if getattr(config.texts, name) in {getattr(t, name) for t in texts}]
    if "consent" in same:
        raise BadOption(
            f"the test is in {language!r:.40}, and its consent in English",
            f"write {' and '.join(f'texts.{name}' for name in same)} in that language",
        )


_TRANSLATED = ("title", "consent", "instructions", "thanks")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in own.items():
        known = base.get(key)
        both = isinstance(value, dict) and isinstance(known, dict)
        out[key] = _merged(cast("dict[str, Any]", known), cast("dict[str, Any]", value)) if both else value
    return out


def to_toml(config: CampaignConfig) -> str:
    """All settings as TOML, so that the file is independent of its template. None is omitted: TOML has no null."""
    return tomlkit.dumps(_set(to_json(config)))  # pyright: ignore[reportUnknownMemberType]


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        known = {key: _set(one) for key, one in cast("dict[str, Any]", value).items() if one is not None}
        return {key: one for key, one in known.items() if one != {}}
    if isinstance(value, list):
        return [_set(one) for one in cast("list[Any]", value)]
    return tomlkit.string(value, multiline=True) if isinstance(value, str) and "\n" in value else value
