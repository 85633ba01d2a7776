"""Pack a voice folder: weights, vocoders, loss curves and a card."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from studio.core.cards import Card, find_copies, read_card, sha256_of, write_card
from studio.core.errors import BadFile, BadVoice, bad_file
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.options import default_options, merge_options
from studio.engine.families.base import FamilyInfo, family_info
from studio.engine.nets.loading import quantise_int8, weights_file
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.module import build_vocoder
from studio.train.families.registry import training_for, without_teacher
from studio.train.fit.resources import load_initial_weights, write_weights
from studio.train.recipes.recipe import CorpusRecipe, Recipe
from studio.train.teachers.registry import open_teacher

MAX_BYTES = 40_000_000
_INVALID = (ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError, BadVoice)


def pack_voice(recipe: Recipe, state: Path, vocoders: Path, out: Path, *, eight_bits: bool = False) -> Path:
    """Write ``out/<name>``: weights, card, curves. Vocoders that a neighbouring voice has are shared, not copied.

    Files are written to a temporary folder first, so a failure leaves an existing voice unchanged.

    Args:
        vocoders: output of `studio train vocoder`, or the folder of a voice with the vocoders to use.
        eight_bits: store the net's matrices as int8 instead of bfloat16, in half the space.

    Raises:
        BadFile: weights or a vocoder's configuration are missing, damaged, or of another recipe; or the voice would
            exceed 40 MB.
        BadOption: the recipe has no [fit].
    """
    info = family_info(recipe.voice_fit().family)
    weights = state / f"{info.name}.safetensors"
    if not weights.is_file():
        raise BadFile(f"there is no {weights}", "run `studio train fit` first")
    training = training_for(without_teacher(recipe))
    net = training.module.net
    load_initial_weights(net, weights)
    parts: dict[str, nn.Module] = {weights.name: net}
    configs: dict[str, dict[str, Any]] = {}
    for path, config, vocoder in _vocoders_of(vocoders):
        load_initial_weights(vocoder, path)
        configs[path.stem], parts[path.name] = config, vocoder
    if not configs:
        raise BadFile(
            f"there are no vocoders in {vocoders}", "run `studio train vocoder` first, or give the folder of a voice"
        )
    if recipe.default_vocoder and recipe.default_vocoder not in configs:
        raise BadFile(f"{vocoders} has no vocoder {recipe.default_vocoder!r:.100}", f"it has {', '.join(configs)}")
    out.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{recipe.name}-", dir=out))
    try:
        for name, part in parts.items():
            tensors = _finite(part, name)
            is_small = eight_bits and part is net
            write_weights(
                quantise_int8(tensors) if is_small else {k: _half(v) for k, v in tensors.items()}, staging / name
            )
        for name in training.voice_files:
            shutil.copyfile(state / name, staging / name)
        size = sum(path.stat().st_size for path in staging.iterdir())
        if size > MAX_BYTES:
            raise BadFile(
                f"the voice would be {size / 1e6:.1f} MB", f"it may be {MAX_BYTES / 1e6:.0f} MB; choose smaller sizes"
            )
        sha256 = {name: sha256_of(staging / name) for name in (*parts, *training.voice_files)}
        parameters = {Path(name).stem: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
        card = _card(recipe, info, net.config.to_dict(), configs, parameters, sha256)
        write_card(staging, replace(card, stored_in="int8" if eight_bits else card.stored_in))
        if (state / "metrics.jsonl").is_file():
            shutil.copyfile(state / "metrics.jsonl", staging / "curves.jsonl")
        return _install(staging, out / recipe.name, [name for name in parts if name != weights.name], sha256)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _vocoders_of(folder: Path) -> Iterator[tuple[Path, dict[str, Any], Vocoder[Any]]]:
    """Weights, configuration and net of each vocoder in a folder of trainings or of a voice. Raises BadFile."""
    if not (folder / "card.json").is_file():
        for path in sorted(folder.glob("*.safetensors")):
            sizes = path.with_suffix(".json")
            with bad_file(f"{sizes} is not a vocoder's configuration", "`studio train vocoder` writes it", *_INVALID):
                config = json.loads(read_bounded(sizes, MAX_SETTINGS_BYTES))["config"]
                vocoder = build_vocoder(path.stem, config)
            yield path, config, vocoder
        return
    with bad_file(
        f"{folder} is not a voice", "give another voice's folder, or that of `studio train vocoder`", *_INVALID
    ):
        card = read_card(folder)
    for name, config in card.vocoders.items():
        file = f"{name}.safetensors"
        with bad_file(f"the voice in {folder} lacks the {file} that its card names", "fetch it again", *_INVALID):
            path, vocoder = weights_file(folder, card, file), build_vocoder(name, config)
        yield path, config, vocoder


def _finite(part: nn.Module, name: str) -> dict[str, Tensor]:
    """A net's weights. Raises BadFile if one is not finite."""
    tensors = part.state_dict()
    if invalid := [key for key, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise BadFile(
            f"{name} has numbers that are not finite, in {invalid[0]:.80}", "train it again, at a lower peak_rate"
        )
    return tensors


def _install(staging: Path, folder: Path, vocoders: Sequence[str], sha256: Mapping[str, str]) -> Path:
    """Move the files into the voice folder, the card last, without vocoders that a neighbouring voice has."""
    folder.mkdir(exist_ok=True)

    for name in vocoders:
        there = (path for path in find_copies(folder, name, sha256[name]) if path.parent != staging)
        if any(sha256_of(path) == sha256[name] for path in there):
            (staging / name).unlink()
            (folder / name).unlink(missing_ok=True)
    for path in sorted(staging.iterdir(), key=lambda path: path.name == "card.json"):
        path.replace(folder / path.name)
    return folder


def _half(tensor: Tensor) -> Tensor:
    """Floating-point tensors as bfloat16."""
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
        notes=" ".join(filter(None, (info.notes, _reference_only_note(recipe)))),
        about=recipe.about,
        default_speaker=recipe.default_speaker,
    )


def learned_from(corpus: CorpusRecipe) -> str:
    """Description of the training data for the card: texts, speakers, and reference-only speakers."""
    teacher = open_teacher(corpus.teacher)
    learned, referred = list[str](), list[str]()
    for name, speaker in corpus.named().items():
        if who := teacher.about(speaker):
            (referred if speaker in corpus.unseen else learned).append(f"{name}: {who}")
    texts = "sentences of LJSpeech (public domain)"
    if corpus.kinds or corpus.spoken_by:
        texts += ", examples of WordNet (free licence), sentences of a grammar written for this project"
    by = f" (most of it by the voice {corpus.spoken_by}, which had learned from them)" if corpus.spoken_by else ""
    description = f"{texts}, spoken by free synthetic speakers{by}: {'; '.join(learned)}"
    return f"{description}. References alone: {'; '.join(referred)}" if referred else description


def _reference_only_note(recipe: Recipe) -> str:
    """A note on speakers that the net was not trained on; empty if there are none."""
    names = [name.title() for name, speaker in recipe.corpus.named().items() if speaker in recipe.corpus.unseen]
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb} untrained and may sound like someone else." if names else ""
