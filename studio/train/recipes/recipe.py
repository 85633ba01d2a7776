"""Recipes: everything that decides a training, in one TOML file beside the voice it makes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.core.card_checks import is_file_name
from studio.core.cards import sha256_of
from studio.core.errors import BadFile, BadOption
from studio.core.printable import escaped
from studio.train.recipes.fits import FitRecipe, read_fit
from studio.train.recipes.settings import read_toml, strict

_MOST_TEMPERATURE = 2.0  # that a card may have
_MOST_SEED = 2**63 - 1  # that every generator takes


@dataclass(frozen=True)
class CorpusRecipe:
    """Which sentences are spoken, by whom, how loud.

    Attributes:
        names: speakers' names on the card, where they have others there.
        unseen: of the speakers, those whose speech no training meets: a recording alone tells who they are.
        spoken_by: the voice that spoke most of it in the teacher's place (`studio train taught`), texts of its own
            recipe; empty where the teacher spoke all.
        kinds: texts of each kind in a shard, for `studio train texts`.
        stages: speakers in turn, and shards of each.
    """

    speakers: list[str]
    shard_sentences: int
    validation_shards: int
    min_words: int = 1
    max_words: int = 60
    held_out: dict[str, str] = field(default_factory=dict)
    gain_db: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    teacher: str = "programs"
    spoken_by: str = ""
    kinds: dict[str, int] = field(default_factory=dict)
    stages: list[tuple[list[str], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.speakers or len(set(self.speakers)) < len(self.speakers):
            raise BadOption(f"[corpus] speakers is {self.speakers!r:.100}", "it lists one or more, each once")
        if self.shard_sentences < 1 or self.validation_shards < 0:
            raise BadOption(
                "[corpus] has shards of nothing", "give shard_sentences of 1 or more, validation_shards of 0 or more"
            )

    def named(self) -> dict[str, str]:
        """The teacher's speaker for each speaker of the voice's card, in order."""
        return {self.names.get(speaker, speaker): speaker for speaker in self.speakers}

    def taught_by(self, speaker: str) -> tuple[str, str, float]:
        """The teacher of a card's speaker, which of the teacher's speakers that is, and its gain in dB."""
        own = self.named().get(speaker, speaker)
        return self.teacher, own, self.gain_db.get(own, 0.0)


@dataclass(frozen=True)
class Recipe:
    """One voice's recipe.

    Attributes:
        options: of its family, in force where a listener asks for no other; the family's own defaults unless given.
        default_speaker: who speaks where nobody is asked for; the first one where empty.
        default_vocoder: of those it is packed with; sourcefilter where empty, or the first by name.
    """

    name: str
    title: str
    seed: int
    temperature: float
    corpus: CorpusRecipe
    fit: FitRecipe | None = None
    vocoders: dict[str, dict[str, Any]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    default_speaker: str = ""
    default_vocoder: str = ""

    def of_voice(self) -> FitRecipe:
        """What its net is fitted by. Raises BadOption where it is the recipe of no voice."""
        if self.fit is None:
            raise BadOption(f"the recipe {self.name!r:.100} is of no voice", "a voice's has a [fit]")
        return self.fit

    def __post_init__(self) -> None:
        if not is_file_name(self.name):
            raise BadOption(f"a voice cannot be called {self.name!r:.100}", "use letters, digits, _, - and dots")
        if not 0 <= self.seed <= _MOST_SEED:
            raise BadOption(f"[recipe] seed cannot be {self.seed!r:.40}", f"it is from 0 to {_MOST_SEED}")
        if not 0.0 <= self.temperature <= _MOST_TEMPERATURE:  # NaN is none
            raise BadOption(
                f"[recipe] temperature cannot be {self.temperature!r:.40}",
                f"it is from 0, the likeliest always, to {_MOST_TEMPERATURE:g}",
            )
        unseen, speakers = set(self.corpus.unseen), set(self.corpus.speakers)
        if not unseen:
            return
        if not unseen < speakers:
            raise BadOption(
                f"[corpus] unseen is {sorted(unseen)!r:.100}", "it names some of [corpus] speakers, and not all of them"
            )
        if self.fit is not None and not self.fit.is_told_by_recordings:
            raise BadOption(
                f"the family {self.fit.family!r} learns who its speakers are, and [corpus] has unseen ones",
                "leave out unseen, or fit ist, dsm, or s5 and t5 with reference_frames",
            )


def read_recipe(path: Path) -> Recipe:
    """Read a recipe strictly.

    Raises:
        BadOption: keys are unknown or missing, or a value cannot be.
        BadFile: it cannot be read.
    """
    try:
        data = read_toml(path)
    except (OSError, ValueError) as error:
        raise BadFile(f"the recipe {path} cannot be read: {error}", "give a TOML file with --recipe") from error
    corpus = strict(CorpusRecipe, data.pop("corpus", {}), "corpus")
    fit = read_fit(data.pop("fit")) if "fit" in data else None
    return strict(Recipe, {**data, "corpus": corpus, "fit": fit}, "recipe")


def vocoder_settings(recipe: Recipe, name: str) -> dict[str, Any]:
    """The settings of a vocoder's fit, of the kind it is called after unless it says ``vocoder``.

    Raises BadOption when the recipe has none of that name.
    """
    if name not in recipe.vocoders:
        raise BadOption(
            f"the recipe has no vocoder {name!r}", f"it has {', '.join(map(escaped, recipe.vocoders)) or 'none'}"
        )
    return {"vocoder": name} | recipe.vocoders[name]


def check_held_out(recipe: Recipe, texts: Path) -> set[str]:
    """Sentences that must not be trained on. Raises BadFile when a file's sha256 is not the recipe's."""
    sentences: set[str] = set()
    for name, sha in recipe.corpus.held_out.items():
        path = texts / name
        if not path.is_file() or sha256_of(path) != sha:
            raise BadFile(f"{path} is not the file that the recipe names", f"its sha256 must be {sha}")
        sentences |= {line.strip().lower() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()}
    return sentences
