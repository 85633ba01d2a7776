"""Weights, loss curves and a card put together: a voice's folder."""

import json
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from studio.core.cards import Card, beside, read_card, sha256_of, write_card
from studio.core.errors import BadFile, BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.options import default_options, merge_options
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, family_info
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.registry import build_vocoder
from studio.engine.weights.eightbit import in_eight_bits
from studio.engine.weights.loading import weights_file
from studio.train.families.registry import fitting_of, untaught
from studio.train.loop.weights import begin_from, write_weights
from studio.train.recipes.recipe import CorpusRecipe, Recipe
from studio.train.teachers.choose import open_teacher

MAX_BYTES = 40_000_000
_NO_SIZES = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError, BadVoice)


def pack_voice(recipe: Recipe, state: Path, vocoders: Path, out: Path, *, eight_bits: bool = False) -> Path:
    """Write ``out/<name>``: weights, the card, the curves. A vocoder that a voice beside it has is not written again.

    All of it is made before any of it is put there: what fails leaves the voice as it was.

    Args:
        vocoders: what `studio train vocoder` left, or the folder of a voice whose vocoders this one is to have.
        eight_bits: keep the net's matrices in int8 in place of bfloat16, in half the space.

    Raises:
        BadFile: weights or a vocoder's sizes are missing, damaged, or of another recipe; or the whole would be larger
            than 40 MB.
        BadOption: the recipe fits nothing.
    """
    info = family_info(recipe.of_voice().family)
    weights = state / f"{info.name}.safetensors"
    if not weights.is_file():
        raise BadFile(f"there is no {weights}", "run `studio train fit` first")
    fitting = fitting_of(untaught(recipe))
    net = fitting.fitter.net
    begin_from(net, weights)
    parts: dict[str, nn.Module] = {weights.name: net}
    configs: dict[str, dict[str, Any]] = {}
    for path, config, vocoder in _vocoders_of(vocoders):
        begin_from(vocoder, path)
        configs[path.stem], parts[path.name] = config, vocoder
    if not configs:
        raise BadFile(
            f"there are no vocoders in {vocoders}", "run `studio train vocoder` first, or give the folder of a voice"
        )
    if recipe.default_vocoder and recipe.default_vocoder not in configs:
        raise BadFile(f"{vocoders} has no vocoder {recipe.default_vocoder!r:.100}", f"it has {', '.join(configs)}")
    out.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{recipe.name}-", dir=out))
    try:
        for name, part in parts.items():
            tensors = _finite(part, name)
            is_small = eight_bits and part is net
            write_weights(
                in_eight_bits(tensors) if is_small else {k: _half(v) for k, v in tensors.items()}, made / name
            )
        for name in fitting.beside:
            shutil.copyfile(state / name, made / name)
        size = sum(path.stat().st_size for path in made.iterdir())
        if size > MAX_BYTES:
            raise BadFile(
                f"the voice would be {size / 1e6:.1f} MB", f"it may be {MAX_BYTES / 1e6:.0f} MB; choose smaller sizes"
            )
        sha256 = {name: sha256_of(made / name) for name in (*parts, *fitting.beside)}
        parameters = {Path(name).stem: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
        card = _card(recipe, info, net.config.to_dict(), configs, parameters, sha256)
        write_card(made, replace(card, stored_in="int8" if eight_bits else card.stored_in))
        if (state / "metrics.jsonl").is_file():
            shutil.copyfile(state / "metrics.jsonl", made / "curves.jsonl")
        return _put(made, out / recipe.name, [name for name in parts if name != weights.name], sha256)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _vocoders_of(folder: Path) -> Iterator[tuple[Path, dict[str, Any], Vocoder[Any]]]:
    """Weights, sizes and net of each vocoder that trainings left in a folder, or that a voice has. Raises BadFile."""
    if not (folder / "card.json").is_file():
        for path in sorted(folder.glob("*.safetensors")):
            sizes = path.with_suffix(".json")
            with _told(f"{sizes} holds no sizes of a vocoder", "`studio train vocoder` writes it"):
                config = json.loads(read_bounded(sizes, MAX_SETTINGS_BYTES))["config"]
                vocoder = build_vocoder(path.stem, config)
            yield path, config, vocoder
        return
    with _told(f"{folder} is no voice", "give another voice's folder, or that of `studio train vocoder`"):
        card = read_card(folder)
    for name, config in card.vocoders.items():
        file = f"{name}.safetensors"
        with _told(f"the voice in {folder} lacks the {file} that its card names", "fetch it again"):
            path, vocoder = weights_file(folder, card, file), build_vocoder(name, config)
        yield path, config, vocoder


@contextmanager
def _told(what: str, do: str) -> Generator[None]:
    """Raises BadFile for whatever a file that anybody may have written lets fail."""
    try:
        yield
    except _NO_SIZES as error:
        raise BadFile(f"{what}: {error!s:.200}", do) from error


def _finite(part: nn.Module, name: str) -> dict[str, Tensor]:
    """A net's weights. Raises BadFile where one is no number."""
    tensors = part.state_dict()
    if strange := [key for key, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise BadFile(
            f"{name} holds numbers that are none, in {strange[0]:.80}", "train it again, at a lower peak_rate"
        )
    return tensors


def _put(made: Path, folder: Path, vocoders: Sequence[str], sha256: Mapping[str, str]) -> Path:
    """Move what was made to its place, the card last, without the vocoders that a voice beside it has."""
    folder.mkdir(exist_ok=True)

    for name in vocoders:
        there = (path for path in beside(folder, name, sha256[name]) if path.parent != made)
        if any(sha256_of(path) == sha256[name] for path in there):
            (made / name).unlink()
            (folder / name).unlink(missing_ok=True)
    for path in sorted(made.iterdir(), key=lambda path: path.name == "card.json"):
        path.replace(folder / path.name)
    return folder


def _half(tensor: Tensor) -> Tensor:
    """Half the size in bfloat16; the engine computes in float32 from it."""
    return tensor.bfloat16() if tensor.is_floating_point() else tensor


def _card(
    recipe: Recipe,
    info: FamilyInfo,
    config: dict[str, Any],
    vocoders: dict[str, dict[str, Any]],
    parameters: dict[str, int],
    sha256: dict[str, str],
) -> Card:
    base = dmel.TIME_BASE
    named = recipe.corpus.named()
    options = info.options_for([*named])
    in_force = merge_options(options, recipe.options, default_options(options))
    return Card(
        name=recipe.name,
        family=info.name,
        vocoder=recipe.default_vocoder or ("sourcefilter" if "sourcefilter" in vocoders else next(iter(vocoders))),
        title=recipe.title,
        config=config,
        vocoders=vocoders,
        alphabet=dmel.ALPHABET,
        sample_rate_hz=base.rate_hz,
        frame_samples=base.frame_samples,
        phase=base.phase,
        speakers=tuple(named),
        temperature=recipe.temperature,
        look_ahead_words=info.look_ahead_words,
        delay_frames=base.frame_of_time(config.get("delay_s", 0.0)),
        options=tuple(replace(one, default=in_force[one.name]) for one in options),
        licence="Apache-2.0",
        learned_from=learned_from(recipe.corpus),
        parameters=parameters,
        sha256=sha256,
        notes=" ".join(filter(None, (info.notes, _never_learned(recipe)))),
        default_speaker=recipe.default_speaker,
    )


def learned_from(corpus: CorpusRecipe) -> str:
    """Which texts, who spoke them, and of whom there is a reference alone."""
    teacher = open_teacher(corpus.teacher)
    learned, referred = list[str](), list[str]()
    for name, speaker in corpus.named().items():
        if who := teacher.about(speaker):
            (referred if speaker in corpus.unseen else learned).append(f"{name}: {who}")
    texts = "sentences of LJSpeech (public domain)"
    if corpus.kinds or corpus.spoken_by:
        texts += ", examples of WordNet (free licence), sentences of a grammar written for this project"
    by = f" (most of it by the voice {corpus.spoken_by}, which had learned from them)" if corpus.spoken_by else ""
    said = f"{texts}, spoken by free synthetic speakers{by}: {'; '.join(learned)}"
    return f"{said}. References alone: {'; '.join(referred)}" if referred else said


def _never_learned(recipe: Recipe) -> str:
    """Which speakers the net knows by their reference alone; "" where it learned from all."""
    names = [name for name, speaker in recipe.corpus.named().items() if speaker in recipe.corpus.unseen]
    return f"Of {' and '.join(names)} only a reference is known: nothing was learned from them." if names else ""
