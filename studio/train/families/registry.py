"""Registry of trainable families: [fit] of a recipe names one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from studio.core.errors import BadOption
from studio.train.families.dsm_fit import DsmTraining
from studio.train.families.imsd_fit import DistillationTraining
from studio.train.families.ist_fit import IstTraining
from studio.train.families.richtts_fit import RichTtsTraining
from studio.train.families.s5_fit import S5Training, T5Training
from studio.train.families.speakstream_fit import SpeakStreamTraining
from studio.train.families.tacotron_fit import TacotronTraining
from studio.train.fit.resources import WEIGHT_BYTES, check_memory
from studio.train.fit.training import FamilyTraining
from studio.train.recipes.fits import (
    DsmFit,
    IstFit,
    NgramRichTtsFit,
    RichTtsFit,
    S5Fit,
    SpeakStreamFit,
    T5Fit,
    TacotronFit,
)
from studio.train.recipes.recipe import Recipe

_TRAININGS: dict[str, Callable[[Recipe], FamilyTraining[Any]]] = {
    SpeakStreamFit.family: SpeakStreamTraining,
    RichTtsFit.family: RichTtsTraining,
    NgramRichTtsFit.family: RichTtsTraining,
    T5Fit.family: T5Training,
    S5Fit.family: S5Training,
    IstFit.family: IstTraining,
    DsmFit.family: DsmTraining,
    TacotronFit.family: TacotronTraining,
}


def without_teacher(recipe: Recipe) -> Recipe:
    """The recipe without its distillation: the same net, trained on the corpus only."""
    if isinstance(recipe.fit, S5Fit) and recipe.fit.distill is not None:
        return replace(recipe, fit=replace(recipe.fit, distill=None))
    return recipe


def training_for(recipe: Recipe, teacher: Path | None = None, taught: Path | None = None) -> FamilyTraining[Any]:
    """The training of a recipe, with freshly initialised weights. Raises BadOption.

    Args:
        teacher, taught: for a recipe with [fit.distill]: the teacher's weights, and the folder of its speech.
    """
    fit = recipe.voice_fit()
    distils = without_teacher(recipe) is not recipe
    if distils != (teacher is not None) or distils != (taught is not None):
        raise BadOption(
            f"the recipe {recipe.name!r} {'distils' if distils else 'does not distil'}",
            "give --teacher, --taught and --start" if distils else "leave out --teacher and --taught",
        )
    _check_net(recipe)
    if teacher is not None and taught is not None:
        return DistillationTraining(recipe, teacher, taught)
    return _TRAININGS[fit.family](recipe)


def _check_net(recipe: Recipe) -> None:
    """Raises BadOption unless the net has the corpus' number of speakers and fits into memory."""
    fit = recipe.voice_fit()
    speakers = len(recipe.corpus.speakers)
    if (configured := fit.config.get("speakers", speakers)) != speakers:
        raise BadOption(
            f"[fit.config] has {configured!r:.40} speakers and [corpus] {speakers}",
            "write the same number: a net knows each of them",
        )
    with torch.device("meta"):  # weights without memory
        training = _TRAININGS[fit.family](recipe)
    check_memory(training.module, WEIGHT_BYTES)
