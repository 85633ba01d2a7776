"""Weights, loss curves and a card put together: a voice's folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from studio.core.cards import Card, sha256_of, write_card
from studio.core.errors import BadFile
from studio.engine import dmel
from studio.engine.eightbit import in_eight_bits
from studio.engine.families.base import FamilyInfo, family_info
from studio.engine.vocoders.registry import build_vocoder
from studio.train.families import fitting_of, untaught
from studio.train.recipe import Recipe
from studio.train.teachers.choose import open_teacher
from studio.train.weights import write_weights

MAX_BYTES = 40_000_000


def pack_voice(recipe: Recipe, state: Path, vocoders: Path, out: Path, *, eight_bits: bool = False) -> Path:
    """Write ``out/<name>``: weights, the card, the curves. A vocoder that a voice beside it has is not written again.

    Args:
        eight_bits: keep the net's matrices in int8 in place of bfloat16, in half the space.

    Raises:
        BadFile: weights are missing, or the whole would be larger than 40 MB.
    """
    assert recipe.fit is not None
    info = family_info(recipe.fit.family)
    folder = out / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    weights = state / f"{info.name}.safetensors"
    if not weights.is_file():
        raise BadFile(f"there is no {weights}", "run `studio train fit` first")
    fitting = fitting_of(untaught(recipe))
    net = fitting.fitter.net
    net.load_state_dict(load_file(weights))
    files = {weights.name: net.state_dict()}
    configs: dict[str, dict[str, Any]] = {}
    parameters = {info.name: sum(p.numel() for p in net.parameters())}
    for path in sorted(vocoders.glob("*.safetensors")):
        configs[path.stem] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["config"]
        vocoder = build_vocoder(path.stem, configs[path.stem])
        vocoder.load_state_dict(load_file(path))
        files[path.name] = vocoder.state_dict()
        parameters[path.stem] = vocoder.parameter_count()
    if not configs:
        raise BadFile(f"there are no vocoders in {vocoders}", "run `studio train vocoder` first")
    for name, tensors in files.items():
        is_small = eight_bits and name == weights.name
        write_weights(in_eight_bits(tensors) if is_small else {k: _half(v) for k, v in tensors.items()}, folder / name)
    for name in fitting.beside:
        shutil.copyfile(state / name, folder / name)
    whole = (*files, *fitting.beside)
    size = sum((folder / name).stat().st_size for name in whole)
    if size > MAX_BYTES:
        raise BadFile(
            f"the voice would be {size / 1e6:.1f} MB", f"it may be {MAX_BYTES / 1e6:.0f} MB; choose smaller sizes"
        )
    curves = state / "metrics.jsonl"
    if curves.is_file():
        shutil.copyfile(curves, folder / "curves.jsonl")
    sha256 = {name: sha256_of(folder / name) for name in whole}
    card = _card(recipe, info, net.config.to_dict(), configs, parameters, sha256)
    write_card(folder, replace(card, stored_in="int8" if eight_bits else card.stored_in))
    for name in files.keys() - {weights.name}:
        if any(sha256_of(path) == sha256[name] for path in out.glob(f"*/{name}") if path.parent != folder):
            (folder / name).unlink()
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
    teacher = open_teacher(recipe.corpus.teacher)
    named = recipe.corpus.named()
    teachers = "; ".join(f"{name}: {who}" for name, speaker in named.items() if (who := teacher.about(speaker)))
    texts = "sentences of LJSpeech (public domain)"
    if recipe.corpus.kinds:
        texts += ", examples of WordNet (free licence), sentences of a grammar written for this project"
    return Card(
        name=recipe.name,
        family=info.name,
        vocoder="sourcefilter" if "sourcefilter" in vocoders else next(iter(vocoders)),
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
        options=info.options,
        licence="Apache-2.0",
        learned_from=f"{texts}, spoken by free synthetic speakers: {teachers}",
        parameters=parameters,
        sha256=sha256,
        notes=info.notes,
        default_speaker=recipe.default_speaker,
    )
