"""Which families can be trained: a recipe's [fit] names one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from studio.core.errors import BadOption
from studio.train.families.dsm.fit import DsmFitting
from studio.train.families.imsd.fit import DistilledFitting
from studio.train.families.ist.fit import IstFitting
from studio.train.families.richtts.fit import RichTtsFitting
from studio.train.families.s5.fit import S5Fitting
from studio.train.families.speakstream.fit import SpeakStreamFitting
from studio.train.families.t5.fit import T5Fitting
from studio.train.families.tacotron.fit import TacotronFitting
from studio.train.loop.fitting import Fitting
from studio.train.loop.room import MADE_BYTES, check_room
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

_FITTINGS: dict[str, Callable[[Recipe], Fitting]] = {
    SpeakStreamFit.family: SpeakStreamFitting,
    RichTtsFit.family: RichTtsFitting,
    NgramRichTtsFit.family: RichTtsFitting,
    T5Fit.family: T5Fitting,
    S5Fit.family: S5Fitting,
    IstFit.family: IstFitting,
    DsmFit.family: DsmFitting,
    TacotronFit.family: TacotronFitting,
}


def untaught(recipe: Recipe) -> Recipe:
    """The recipe of the same net without a teacher: all that is asked of it but its training."""
    if isinstance(recipe.fit, S5Fit) and recipe.fit.distill is not None:
        return replace(recipe, fit=replace(recipe.fit, distill=None))
    return recipe


def fitting_of(recipe: Recipe, teacher: Path | None = None, taught: Path | None = None) -> Fitting:
    """The training that a recipe describes, from chance.

    Args:
        teacher, taught: of a recipe with [fit.distill]: the teacher's weights, and the folder of what it spoke.

    Raises:
        BadOption: they are missing, or the recipe has no use for them; or it describes no net that can be trained.
    """
    fit = recipe.of_voice()
    taught_by = untaught(recipe) is not recipe
    if taught_by != (teacher is not None) or taught_by != (taught is not None):
        raise BadOption(
            f"the recipe {recipe.name!r} {'distils' if taught_by else 'does not distil'}",
            "give --teacher, --taught and --start" if taught_by else "leave out --teacher and --taught",
        )
    _check_net(recipe)
    if teacher is not None and taught is not None:
        return DistilledFitting(recipe, teacher, taught)
    return _FITTINGS[fit.family](recipe)


def _check_net(recipe: Recipe) -> None:
    """Raises BadOption unless a net of the recipe's sizes has its speakers, and room on this machine."""
    fit = recipe.of_voice()
    speakers = len(recipe.corpus.speakers)
    if (said := fit.config.get("speakers", speakers)) != speakers:
        raise BadOption(
            f"[fit.config] has {said!r:.40} speakers and [corpus] {speakers}",
            "write the same number: a net knows each of them",
        )
    with torch.device("meta"):  # weights that take no memory
        counted = _FITTINGS[fit.family](recipe)
    check_room(counted.fitter, MADE_BYTES)
