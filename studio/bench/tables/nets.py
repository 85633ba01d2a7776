"""The nets of a table, each trained by its recipe with the table's changes and packed as a voice.

Finished trainings are reused: a state is identified by recipe and corpus, not by the net's name.
"""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.material import read_texts
from studio.bench.tables.definition import Net, TableDefinition
from studio.core.cards import read_card, sha256_of
from studio.core.checks import escape_unprintable
from studio.core.errors import BadFile, BadOption, StudioError, needs
from studio.core.folders import RECIPES, VOICES
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import FILE as BPE_FILE
from studio.engine.voices import pick_device
from studio.text.normalise import best
from studio.train.distillation import DistillationOptions, Transcribe, distil
from studio.train.families.registry import training_for, without_teacher
from studio.train.fit.loop import run
from studio.train.fit.training import FamilyTraining
from studio.train.pack import pack_voice
from studio.train.recipes.recipe import Recipe, read_recipe


@dataclass(frozen=True, kw_only=True)
class TableWorkspace:
    """Inputs and folders of the trainings.

    Attributes:
        work: folder of intermediate files, from which a stopped run resumes.
        features: folder of encoded shards; vocoders: folder of <name>.safetensors and <name>.json.
        bpe: byte-pair encoding for families that need one; a net from a voice uses the voice's.
        teacher_texts: texts for the teacher of a distillation, one a line; without them distilled rows are left out.
        steps: training steps of every net; 0 for the recipes'.
        threads: CPU threads.
    """

    work: Path
    features: Path
    vocoders: Path
    bpe: Path | None = None
    teacher_texts: Path | None = None
    steps: int = 0
    device: str = "auto"
    threads: int | None = None
    recipes: Path = RECIPES
    shipped: Path = VOICES

    @property
    def voices(self) -> Path:
        """Folder of the packed voices."""
        return self.work / "voices"


def voice_name(net: Net, seed: int) -> str:
    """Voice name of a net trained with the recipe's seed plus ``seed``."""
    return f"{net.name}-{seed}" if seed else net.name


def prepare(shop: TableWorkspace, table: TableDefinition, seeds: int) -> dict[str, Recipe]:
    """Write the recipe of every voice that a table needs into the work folder, and check the inputs.

    Raises:
        BadOption: nets with different corpora, steps or seeds, or a missing encoding.
        BadFile: a missing vocoder, or missing texts of a distillation.
    """
    recipes = write_recipes(shop, table, seeds)
    if error := next(missing_inputs(shop, table, recipes), None):
        raise error
    return recipes


def write_recipes(shop: TableWorkspace, table: TableDefinition, seeds: int) -> dict[str, Recipe]:
    """Write the recipe of every voice that a table needs into the work folder. Raises BadOption, BadFile."""
    recipes: dict[str, Recipe] = {}
    if shop.teacher_texts is not None:
        read_texts(shop.teacher_texts)
    for net in table.nets:
        for seed in range(seeds):
            path = shop.work / "recipes" / f"{voice_name(net, seed)}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_changed(shop, net, seed), encoding="utf-8")
            try:
                recipes[voice_name(net, seed)] = read_recipe(path)
            except BadOption as error:
                raise BadOption(f"net {net.name!r}: {error.what}", error.do) from error
    corpora = {json.dumps([one.corpus.speakers, one.corpus.validation_shards]) for one in recipes.values()}
    # Nets that start from the same kind of weights must have equal steps. A net that continues another one of the table
    # has additional steps, as in the paper.
    steps: dict[str | None, set[int]] = defaultdict(set)
    for net in table.nets:
        if not net.after:
            steps[net.voice] |= {_steps(recipes[voice_name(net, seed)]) for seed in range(seeds)}
    if len(corpora) > 1 or any(len(of) > 1 for of in steps.values()):
        raise BadOption(
            f"the nets of table {table.paper} are not of the same speakers, unseen shards and steps",
            "give --steps, or change their recipes: a table compares nets with equal training",
        )
    return recipes


def missing_inputs(
    shop: TableWorkspace, table: TableDefinition, recipes: Mapping[str, Recipe]
) -> Iterator[StudioError]:
    """Missing inputs: features, voices, vocoders, an encoding."""
    for speaker in dict.fromkeys(speaker for one in recipes.values() for speaker in one.corpus.speakers):
        if not any(shop.features.glob(f"{speaker}-*.safetensors")):
            yield BadFile(f"{shop.features} has no features of {speaker}", "create them with `studio train features`")
    for voice in dict.fromkeys(voice for net in table.nets for voice in (net.voice, net.like) if voice):
        weights = _weights(shop, voice)
        if weights is not None and not weights.is_file():
            yield BadFile(f"there are no weights of {voice}, {weights}", "restore them from the repository")
    there = sorted(path.stem for path in shop.vocoders.glob("*.safetensors"))
    for net in table.nets:
        if not there or (net.vocoder and net.vocoder not in there):
            name = net.vocoder or "NAME"
            yield BadFile(
                f"{shop.vocoders} has no vocoder {net.vocoder or 'at all'} for {net.name}",
                f"train it with a recipe with [vocoders.{name}]: `studio train vocoder --recipe FILE --name {name}`",
            )
        bpe = _bpe(shop, net)
        if _reads_bpe(recipes[net.name]) and (bpe is None or not bpe.is_file()):
            yield BadOption(
                f"{net.name} needs a byte-pair encoding", "create one with `studio train bpe`, and give --bpe FILE"
            )


def make(
    shop: TableWorkspace, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe], hear: Transcribe
) -> Path:
    """Train a net unless it is trained, and pack it; returns its voice's folder.

    Args:
        recipes: recipes of every voice, from ``prepare``; dependencies must have been made before.
        hear: filter of the teacher's sounds, for a distillation.
    """
    name = voice_name(net, seed)
    recipe = recipes[name]
    state = _state(shop, table, net, seed, recipes)
    done = state / "done"
    if not done.is_file():
        start, like = _weights(shop, net.voice), _weights(shop, net.like)
        if net.teacher:
            start, fitting = _distillation(shop, table, net, seed, recipes, hear)
        else:
            fitting = training_for(recipe)
        state.mkdir(parents=True, exist_ok=True)
        if BPE_FILE in fitting.voice_files:
            bpe = _bpe(shop, net)
            assert bpe is not None, "prepare has looked"
            shutil.copyfile(bpe, state / BPE_FILE)
        run(fitting, shop.features, state, pick_device(shop.device), shop.threads, start, like)
        done.touch()
    folder = pack_voice(recipe, state, _vocoders(shop, net), shop.voices)
    shutil.copyfile(shop.work / "recipes" / f"{name}.toml", folder / "recipe.toml")
    return folder


def _state(shop: TableWorkspace, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe]) -> Path:
    """State folder of a net, named by a digest of its inputs."""
    recipe = recipes[voice_name(net, seed)]
    assert recipe.fit is not None, "prepare has read it"
    needs = [_state(shop, table, table.net(one), seed, recipes).name for one in (net.after, net.teacher) if one]
    if net.teacher:
        needs.append(_texts_digest(shop))
    needs += [sha256_of(path) for voice in (net.voice, net.like) if (path := _weights(shop, voice))]
    return shop.work / "fits" / f"{recipe.fit.family}-{_digest(shop, recipe, _bpe(shop, net), needs)}"


def _weights(shop: TableWorkspace, voice: str) -> Path | None:
    """The weights of a shipped voice; None without a name. Raises BadVoice."""
    if not voice:
        return None
    card = read_card(shop.shipped / voice)
    return shop.shipped / voice / f"{card.family}.safetensors"


def _bpe(shop: TableWorkspace, net: Net) -> Path | None:
    """The byte-pair encoding of a net, if its family needs one."""
    return shop.shipped / net.voice / BPE_FILE if net.voice else shop.bpe


def _distillation(
    shop: TableWorkspace, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe], hear: Transcribe
) -> tuple[Path, FamilyTraining]:
    """Initial weights and training set-up of a distillation, after the teacher has spoken."""
    assert shop.teacher_texts is not None, "rows without it are left out"
    student, teacher = (_state(shop, table, table.net(one), seed, recipes) for one in (net.after, net.teacher))
    taught = shop.work / "taught" / f"{teacher.name}-{_texts_digest(shop)}"
    recipe = recipes[voice_name(net, seed)]
    if not (taught / "done").is_file():
        voice = voice_name(table.net(net.teacher), seed)
        with closing(open_engine(shop.voices, best(), shop.device, voice_names=[voice])) as engine:
            texts, how = read_texts(shop.teacher_texts), DistillationOptions(transcribe=hear)
            distil(engine, recipe.corpus.named(), texts, taught, recipe.seed, how)
        (taught / "done").touch()
    return student / "s5.safetensors", training_for(recipe, teacher / "t5.safetensors", taught)


def _texts_digest(shop: TableWorkspace) -> str:
    assert shop.teacher_texts is not None, "rows without it are left out"
    return hashlib.sha256(shop.teacher_texts.read_bytes()).hexdigest()[:8]


def _reads_bpe(recipe: Recipe) -> bool:
    """Whether a net uses a byte-pair encoding."""
    return BPE_FILE in training_for(without_teacher(recipe)).voice_files


def _steps(recipe: Recipe) -> int:
    assert recipe.fit is not None, "a table's recipe has a [fit]"
    return recipe.fit.steps


def _changed(shop: TableWorkspace, net: Net, seed: int) -> str:
    """A net's recipe as a file."""
    with needs("recipes are changed with tomlkit", "train"):
        import tomlkit
    path = shop.shipped / net.voice / "recipe.toml" if net.voice else shop.recipes / net.recipe
    written: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    if "fit" not in written:
        raise BadOption(f"the recipe {path.name} of {net.name!r} has no [fit]", "name one that fits a net")
    _change(written, net.change, net)
    written["name"] = voice_name(net, seed)
    base_seed = written.get("seed")
    if isinstance(base_seed, int) and not isinstance(base_seed, bool):  # else the reader reports the error
        written["seed"] = base_seed + seed
    if shop.steps and isinstance(written["fit"], Mapping):
        written["fit"]["steps"] = shop.steps
    return tomlkit.dumps(written)


def _change(written: Any, change: Mapping[str, Any], net: Net) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping):
            if not isinstance(written.get(key), Mapping):
                of = net.recipe or net.voice
                raise BadOption(
                    f"net {net.name!r} changes [{escape_unprintable(key)}], which {of} has not", "change what is there"
                )
            _change(written[key], value, net)
        else:
            written[key] = value


def _digest(shop: TableWorkspace, recipe: Recipe, bpe: Path | None, needs: Sequence[str]) -> str:
    """Digest of a state's inputs: the recipe without names, the corpus shards, the encoding, and ``needs``."""
    assert recipe.fit is not None
    shards = sorted((path.name, path.stat().st_size) for path in shop.features.glob("*.safetensors"))
    encoding = bpe.read_bytes() if bpe and _reads_bpe(recipe) else b""
    corpus = [recipe.corpus.speakers, recipe.corpus.validation_shards]
    inputs = [recipe.fit.family, vars(recipe.fit), corpus, recipe.seed, recipe.temperature, shards, *needs]
    written = json.dumps(inputs, sort_keys=True, default=vars).encode()
    return hashlib.sha256(written + encoding).hexdigest()[:12]


def _vocoders(shop: TableWorkspace, net: Net) -> Path:
    """Folder of the vocoders to pack."""
    if not net.vocoder:
        return shop.vocoders
    folder = shop.work / "vocoders" / net.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(shop.vocoders / f"{net.vocoder}.safetensors", folder / f"{net.vocoder}.safetensors")
    about = json.loads((shop.vocoders / f"{net.vocoder}.json").read_text(encoding="utf-8"))
    about["config"] |= net.vocoder_config
    (folder / f"{net.vocoder}.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
