"""Recipes: all settings of a training, in one TOML file beside the voice."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.core.cards import sha256_of
from studio.core.checks import build, check_values, escape_unprintable, is_file_name, number, whole
from studio.core.errors import BadFile, BadOption, bad_file
from studio.core.files import read_toml
from studio.train.recipes.fits import FitRecipe, read_fit

_RULES = {"seed": whole(0, 2**63 - 1), "temperature": number(0, 2)}  # as of any generator, and of a card


@dataclass(frozen=True)
class CorpusRecipe:
    """The sentences, speakers and levels of a corpus.

    Attributes:
        names: speakers' names on the card, where these differ.
        unseen: speakers excluded from training, known by a reference recording only.
        spoken_by: the voice that spoke most of the corpus instead of the teacher (`studio train taught`); empty for
            none.
        kinds: texts of each kind in a shard, for `studio train texts`.
        stages: speakers in turn, and the number of shards of each.
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
                "[corpus] has empty shards", "give shard_sentences of 1 or more, validation_shards of 0 or more"
            )

    def named(self) -> dict[str, str]:
        """The teacher's speaker for each speaker of the card, in order."""
        return {self.names.get(speaker, speaker): speaker for speaker in self.speakers}

    def teacher_of(self, speaker: str) -> tuple[str, str, float]:
        """The teacher of a card's speaker, the teacher's name of that speaker, and the gain in dB."""
        own = self.named().get(speaker, speaker)
        return self.teacher, own, self.gain_db.get(own, 0.0)


@dataclass(frozen=True)
class Recipe:
    """One voice's recipe.

    Attributes:
        options: defaults of the family's options, where they differ from the family's own.
        default_speaker: empty for the first one.
        about: as on the card.
        default_vocoder: empty for sourcefilter, or else the first by name.
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
    about: str = ""
    default_vocoder: str = ""

    def voice_fit(self) -> FitRecipe:
        """The training settings. Raises BadOption if the recipe has none."""
        if self.fit is None:
            raise BadOption(f"the recipe {self.name!r:.100} trains no voice", "add a [fit]")
        return self.fit

    def __post_init__(self) -> None:
        if not is_file_name(self.name):
            raise BadOption(f"a voice cannot be called {self.name!r:.100}", "use letters, digits, _, - and dots")
        check_values(vars(self), _RULES, "[recipe] {} cannot be")
        unseen, speakers = set(self.corpus.unseen), set(self.corpus.speakers)
        if not unseen:
            return
        if not unseen < speakers:
            raise BadOption(
                f"[corpus] unseen is {sorted(unseen)!r:.100}", "it names some of [corpus] speakers, and not all of them"
            )
        if self.fit is not None and not self.fit.uses_reference:
            raise BadOption(
                f"the family {self.fit.family!r} learns who its speakers are, and [corpus] has unseen ones",
                "leave out unseen, or fit ist, dsm, or s5 and t5 with reference_frames",
            )


def read_recipe(path: Path) -> Recipe:
    """Read a recipe strictly. Raises BadOption, BadFile."""
    with bad_file(f"the recipe {path} cannot be read", "give a TOML file with --recipe", ValueError):
        data = read_toml(path)
    corpus = build(CorpusRecipe, data.pop("corpus", {}), "corpus")
    fit = read_fit(data.pop("fit")) if "fit" in data else None
    return build(Recipe, {**data, "corpus": corpus, "fit": fit}, "recipe", _RULES)


def vocoder_settings(recipe: Recipe, name: str) -> dict[str, Any]:
    """A vocoder's training settings; its kind is its name unless ``vocoder`` is given. Raises BadOption."""
    if name not in recipe.vocoders:
        raise BadOption(
            f"the recipe has no vocoder {name!r}",
            f"it has {', '.join(map(escape_unprintable, recipe.vocoders)) or 'none'}",
        )
    return {"vocoder": name} | recipe.vocoders[name]


def read_held_out(recipe: Recipe, texts: Path) -> set[str]:
    """Sentences excluded from training, in lower case. Raises BadFile if a file's sha256 is not the recipe's."""
    sentences: set[str] = set()
    for name, sha in recipe.corpus.held_out.items():
        path = texts / name
        if not path.is_file() or sha256_of(path) != sha:
            raise BadFile(f"{path} is not the file that the recipe names", f"its sha256 must be {sha}")
        sentences |= {line.strip().lower() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()}
    return sentences
