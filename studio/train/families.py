"""Which families can be trained: a recipe's [fit] names one."""

from collections.abc import Callable

from studio.train.dsm.fit import DsmFitting
from studio.train.fitting import Fitting
from studio.train.ist.fit import IstFitting
from studio.train.recipe import (
    DsmFit,
    IstFit,
    NgramRichTtsFit,
    Recipe,
    RichTtsFit,
    S5Fit,
    SpeakStreamFit,
    T5Fit,
    TacotronFit,
)
from studio.train.richtts.fit import RichTtsFitting
from studio.train.s5.fit import S5Fitting
from studio.train.speakstream.fit import SpeakStreamFitting
from studio.train.t5.fit import T5Fitting
from studio.train.tacotron.fit import TacotronFitting

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


def fitting_of(recipe: Recipe) -> Fitting:
    """The training that a recipe describes, from chance."""
    assert recipe.fit is not None, "the recipe has a [fit]"
    return _FITTINGS[recipe.fit.family](recipe)
