"""The nets of a table: each fitted by its recipe, changed as the table says, and packed as a voice.

What is fitted already is not fitted again: a state belongs to a recipe and to a corpus, whatever the net is called.
"""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.material import read_texts
from studio.bench.tables.definition import Net, TableDefinition
from studio.core.cards import read_card, sha256_of
from studio.core.errors import BadFile, BadOption, NeedsPackage, StudioError
from studio.core.printable import escaped
from studio.core.shipped import RECIPES, VOICES
from studio.engine.families.bpe import FILE as BPE_FILE
from studio.engine.loop import open_engine
from studio.engine.voices import pick_device
from studio.text.normalise import best
from studio.train.families.registry import fitting_of, untaught
from studio.train.loop.fitting import Fitting, run
from studio.train.pack import pack_voice
from studio.train.recipes.recipe import Recipe, read_recipe
from studio.train.taught import Ear, Speaking, speak_taught


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where and by what nets are made.

    Attributes:
        work: folder of everything that is made on the way; a stopped run goes on there.
        features: folder of encoded shards; vocoders: folder of <name>.safetensors and <name>.json.
        bpe: a byte-pair encoding for families that need one; a net of a voice has that voice's.
        teacher_texts: texts that the teacher of a distillation speaks, one a line; without them there is none.
        steps: of every net; 0 takes the recipes' own.
        threads: of arithmetic on a CPU.
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
        """Where the voices are that were made."""
        return self.work / "voices"


def voice_name(net: Net, seed: int) -> str:
    """Of a net fitted with the recipe's seed, or with one so much greater."""
    return f"{net.name}-{seed}" if seed else net.name


def prepare(shop: Workshop, table: TableDefinition, seeds: int) -> dict[str, Recipe]:
    """The recipe of every voice that a table needs, written into the work folder, once all is there to make them.

    Raises:
        BadOption: the nets are not of the same corpus, steps and seed, or an encoding is missing.
        BadFile: a vocoder is missing, or the texts of a distillation.
    """
    found = write_recipes(shop, table, seeds)
    if error := next(lacking(shop, table, found), None):
        raise error
    return found


def write_recipes(shop: Workshop, table: TableDefinition, seeds: int) -> dict[str, Recipe]:
    """The recipe of every voice that a table needs, written into the work folder. Raises BadOption, BadFile."""
    found: dict[str, Recipe] = {}
    if shop.teacher_texts is not None:
        read_texts(shop.teacher_texts)
    for net in table.nets:
        for seed in range(seeds):
            path = shop.work / "recipes" / f"{voice_name(net, seed)}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_changed(shop, net, seed), encoding="utf-8")
            try:
                found[voice_name(net, seed)] = read_recipe(path)
            except BadOption as error:
                raise BadOption(f"net {net.name!r}: {error.what}", error.do) from error
    corpora = {json.dumps([one.corpus.speakers, one.corpus.validation_shards]) for one in found.values()}
    # What goes on from a shipped voice has that voice's steps behind it, others begin: alike is whoever begins alike.
    # A net that goes on from another of the table has steps of its own, as the paper's has.
    steps: dict[str | None, set[int]] = defaultdict(set)
    for net in table.nets:
        if not net.after:
            steps[net.voice] |= {_steps(found[voice_name(net, seed)]) for seed in range(seeds)}
    if len(corpora) > 1 or any(len(of) > 1 for of in steps.values()):
        raise BadOption(
            f"the nets of table {table.paper} are not of the same speakers, unseen shards and steps",
            "give --steps, or change their recipes: a table compares what was trained alike, of nets that begin alike",
        )
    return found


def lacking(shop: Workshop, table: TableDefinition, recipes: Mapping[str, Recipe]) -> Iterator[StudioError]:
    """What is not at hand and must be there before the nets are made: features, voices, vocoders, an encoding."""
    for speaker in dict.fromkeys(speaker for one in recipes.values() for speaker in one.corpus.speakers):
        if not any(shop.features.glob(f"{speaker}-*.safetensors")):
            yield BadFile(f"{shop.features} has no features of {speaker}", "make them with `studio train features`")
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
                f"make it by a recipe with [vocoders.{name}]: `studio train vocoder --recipe FILE --name {name}`",
            )
        bpe = _bpe(shop, net)
        if _reads_bpe(recipes[net.name]) and (bpe is None or not bpe.is_file()):
            yield BadOption(
                f"{net.name} needs a byte-pair encoding", "make one with `studio train bpe`, and give --bpe FILE"
            )


def make(shop: Workshop, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe], hear: Ear) -> Path:
    """Fit a net where it is not fitted, and pack it; answers its voice's folder.

    Args:
        recipes: of every voice, from ``prepare``; those that a net is made from were made before it.
        hear: tells which of the teacher's sounds are kept, where there is a distillation.
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
            fitting = fitting_of(recipe)
        state.mkdir(parents=True, exist_ok=True)
        if BPE_FILE in fitting.beside:
            bpe = _bpe(shop, net)
            assert bpe is not None, "prepare has looked"
            shutil.copyfile(bpe, state / BPE_FILE)
        run(fitting, shop.features, state, pick_device(shop.device), shop.threads, start, like)
        done.touch()
    folder = pack_voice(recipe, state, _vocoders(shop, net), shop.voices)
    shutil.copyfile(shop.work / "recipes" / f"{name}.toml", folder / "recipe.toml")
    return folder


def _state(shop: Workshop, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe]) -> Path:
    """Where a net is fitted: by all that decides it."""
    recipe = recipes[voice_name(net, seed)]
    assert recipe.fit is not None, "prepare has read it"
    needs = [_state(shop, table, table.net(one), seed, recipes).name for one in (net.after, net.teacher) if one]
    if net.teacher:
        needs.append(_texts_digest(shop))
    needs += [sha256_of(path) for voice in (net.voice, net.like) if (path := _weights(shop, voice))]
    return shop.work / "fits" / f"{recipe.fit.family}-{_digest(shop, recipe, _bpe(shop, net), needs)}"


def _weights(shop: Workshop, voice: str) -> Path | None:
    """The weights of a shipped voice; None without a name. Raises BadVoice."""
    if not voice:
        return None
    card = read_card(shop.shipped / voice)
    return shop.shipped / voice / f"{card.family}.safetensors"


def _bpe(shop: Workshop, net: Net) -> Path | None:
    """The encoding that a net reads text by, where its family needs one."""
    return shop.shipped / net.voice / BPE_FILE if net.voice else shop.bpe


def _distillation(
    shop: Workshop, table: TableDefinition, net: Net, seed: int, recipes: Mapping[str, Recipe], hear: Ear
) -> tuple[Path, Fitting]:
    """The weights that a distillation begins from, and the training, once the teacher has spoken."""
    assert shop.teacher_texts is not None, "rows without it are left out"
    student, teacher = (_state(shop, table, table.net(one), seed, recipes) for one in (net.after, net.teacher))
    taught = shop.work / "taught" / f"{teacher.name}-{_texts_digest(shop)}"
    recipe = recipes[voice_name(net, seed)]
    if not (taught / "done").is_file():
        voice = voice_name(table.net(net.teacher), seed)
        engine = open_engine(shop.voices, best(), shop.device, voice_names=[voice])
        try:
            texts, how = read_texts(shop.teacher_texts), Speaking(hear=hear)
            speak_taught(engine, recipe.corpus.named(), texts, taught, recipe.seed, how)
        finally:
            engine.close()
        (taught / "done").touch()
    return student / "s5.safetensors", fitting_of(recipe, teacher / "t5.safetensors", taught)


def _texts_digest(shop: Workshop) -> str:
    assert shop.teacher_texts is not None, "rows without it are left out"
    return hashlib.sha256(shop.teacher_texts.read_bytes()).hexdigest()[:8]


def _reads_bpe(recipe: Recipe) -> bool:
    """Whether a net reads text by a byte-pair encoding."""
    return BPE_FILE in fitting_of(untaught(recipe)).beside


def _steps(recipe: Recipe) -> int:
    assert recipe.fit is not None, "a table's recipe has a [fit]"
    return recipe.fit.steps


def _changed(shop: Workshop, net: Net, seed: int) -> str:
    """A net's recipe as a file."""
    try:
        import tomlkit
    except ImportError as error:
        raise NeedsPackage("recipes are changed with tomlkit", "pip install 'streaming-tts-studio[train]'") from error
    path = shop.shipped / net.voice / "recipe.toml" if net.voice else shop.recipes / net.recipe
    written: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    if "fit" not in written:
        raise BadOption(f"the recipe {path.name} of {net.name!r} has no [fit]", "name one that fits a net")
    _change(written, net.change, net)
    written["name"] = voice_name(net, seed)
    said = written.get("seed")
    if isinstance(said, int) and not isinstance(said, bool):  # else whoever reads it says what is wrong
        written["seed"] = said + seed
    if shop.steps and isinstance(written["fit"], Mapping):
        written["fit"]["steps"] = shop.steps
    return tomlkit.dumps(written)


def _change(written: Any, change: Mapping[str, Any], net: Net) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping):
            if not isinstance(written.get(key), Mapping):
                of = net.recipe or net.voice
                raise BadOption(
                    f"net {net.name!r} changes [{escaped(key)}], which {of} has not", "change what is there"
                )
            _change(written[key], value, net)
        else:
            written[key] = value


def _digest(shop: Workshop, recipe: Recipe, bpe: Path | None, needs: Sequence[str]) -> str:
    """Of all that decides a state: the recipe without its names, the corpus' shards, the encoding, and ``needs``."""
    assert recipe.fit is not None
    shards = sorted((path.name, path.stat().st_size) for path in shop.features.glob("*.safetensors"))
    encoding = bpe.read_bytes() if bpe and _reads_bpe(recipe) else b""
    corpus = [recipe.corpus.speakers, recipe.corpus.validation_shards]
    said = [recipe.fit.family, vars(recipe.fit), corpus, recipe.seed, recipe.temperature, shards, *needs]
    written = json.dumps(said, sort_keys=True, default=vars).encode()
    return hashlib.sha256(written + encoding).hexdigest()[:12]


def _vocoders(shop: Workshop, net: Net) -> Path:
    """The folder of vocoders that a voice is packed with."""
    if not net.vocoder:
        return shop.vocoders
    folder = shop.work / "vocoders" / net.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(shop.vocoders / f"{net.vocoder}.safetensors", folder / f"{net.vocoder}.safetensors")
    about = json.loads((shop.vocoders / f"{net.vocoder}.json").read_text(encoding="utf-8"))
    about["config"] |= net.vocoder_config
    (folder / f"{net.vocoder}.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
