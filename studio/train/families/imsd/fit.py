"""Interleaved multi-source distillation (paper 001, "Interleaved multi-source distillation"): S5-TTS taught by T5-TTS.

L_distill = lambda_h MSE(h_stu, h_tea) + lambda_z KL(z_stu || z_tea) + CE(softmax(z_stu), y). The teacher is told the
true frames, as the student is. y are frames of the corpus, or frames that the teacher spoke itself of texts without
sound, where a recogniser heard every word of them (``studio train taught``). Mini-batches of the two sources take
turns, and every step adds up the gradients of a whole cycle of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from studio.core.errors import BadFile, BadOption
from studio.engine.families.t5.net import Config as T5Config
from studio.engine.weights.eightbit import restored
from studio.train.families.s5.batches import WHOLE, Batch, Sequence5, can_align, collate, sequence
from studio.train.families.s5.fit import S5Fitter, S5Fitting, at_steps
from studio.train.families.t5.fit import T5Fitter
from studio.train.features import Sentence
from studio.train.loop.spoken import SpokenText, in_batches, join
from studio.train.recipes.fits import Distillation, S5Fit
from studio.train.recipes.recipe import Recipe


@dataclass(frozen=True)
class Taught:
    """One mini-batch as the student and as the teacher reads it: the same frames, phonemes by what each may see."""

    student: Batch
    teacher: Batch


@dataclass(frozen=True)
class Cycle:
    """The mini-batches of one step: of the corpus and of what the teacher spoke, in turn."""

    parts: list[Taught]

    @property
    def predicted(self) -> int:
        """How many frames are predicted."""
        return sum(one.student.predicted for one in self.parts)

    def to(self, device: torch.device) -> "Cycle":
        """The same on another device."""
        return Cycle([Taught(one.student.to(device), one.teacher.to(device)) for one in self.parts])


def hidden_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """MSE of hidden states [N, D]."""
    return F.mse_loss(student.float(), teacher.float())


def logit_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(z_stu || z_tea) of logits [..., V], in nats, mean of all but the last dimension.

    As printed the student's own distribution weighs: where it says what the teacher never would, it costs most.
    """
    mine, theirs = student.float().log_softmax(-1), teacher.float().log_softmax(-1)
    return (mine.exp() * (mine - theirs)).sum(-1).mean()


class DistilledFitter(S5Fitter):
    """The student with its losses; the teacher beside it is neither trained nor kept.

    Args:
        teacher: as wide as the student, of the same speakers.
    """

    def __init__(self, student: S5Fitter, teacher: T5Fitter, settings: Distillation) -> None:
        super().__init__(student.net.config, student.settings)
        self.net = student.net
        self._teacher = (teacher.eval().requires_grad_(False),)  # a tuple, so that it is no part of this module
        self._lambdas = {"hidden": settings.hidden_weight, "logit": settings.logit_weight}

    def forward(self, batch: Cycle | Batch) -> dict[str, Tensor]:
        """As ``S5Fitter``'s, and of a cycle ``hidden`` and ``logit`` as well; means of its mini-batches."""
        if isinstance(batch, Batch):
            return super().forward(batch)
        each = [self._taught(one) for one in batch.parts]
        return {name: torch.stack([one[name] for one in each]).mean() for name in each[0]}

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """L_distill, and what else the recipe weighs."""
        return super().total(losses) + sum(weight * losses[name] for name, weight in self._lambdas.items())

    @torch.no_grad()
    def own_frames(self, batch: Cycle, share: float, temperature: float) -> Cycle:
        """The cycle with a share of the frames that the student is fed drawn by itself."""
        own = [super(DistilledFitter, self).own_frames(one.student, share, temperature) for one in batch.parts]
        return Cycle([replace(one, student=mine) for one, mine in zip(batch.parts, own, strict=True)])

    def _taught(self, batch: Taught) -> dict[str, Tensor]:
        mine, theirs = batch.student, batch.teacher
        (teacher,) = self._teacher
        teacher.to(mine.k.device)
        with torch.no_grad():
            told, _ = teacher.run(theirs, teacher.words_of(theirs))
            told = at_steps(told, theirs.step_of)[theirs.predicts]
            soft, _ = teacher.net.heads(told)
        losses, hidden = self.losses(mine)
        hidden = at_steps(hidden, mine.step_of)[mine.predicts]
        logits, _ = self.net.heads(hidden)
        return {**losses, "hidden": hidden_loss(hidden, told), "logit": logit_loss(logits, soft)}


class DistilledFitting(S5Fitting):
    """S5-TTS's training by a recipe with [fit.distill].

    Args:
        teacher: weights of a T5-TTS with the student's sizes.
        taught: folder of features that the teacher spoke, by speaker, as ``studio train taught`` writes them.

    Raises:
        BadOption: the recipe is none of a distillation.
        BadFile: the teacher's weights are of another net.
    """

    def __init__(self, recipe: Recipe, teacher: Path, taught: Path) -> None:
        super().__init__(recipe)
        settings = self._settings
        if settings.distill is None:
            raise BadOption(f"the recipe {recipe.name!r} has no [fit.distill]", "leave out --teacher and --taught")
        self._taught = taught
        config = T5Config.read({k: v for k, v in settings.config.items() if k not in ("encoder_mask", "decoder_mask")})
        tutor = T5Fitter(config, settings)
        try:
            tutor.net.load_state_dict(restored(load_file(teacher)))
        except (OSError, SafetensorError, RuntimeError, ValueError) as error:
            raise BadFile(
                f"{teacher} is no T5-TTS with the sizes of {recipe.name!r}: {error!s:.200}",
                "fit one by the recipe that is beside it, such as t5-tiny.toml beside s5-tiny.toml",
            ) from error
        student = self.fitter
        assert isinstance(student, S5Fitter)
        self.fitter = DistilledFitter(student, tutor, settings.distill)

    def batches(self, text: SpokenText, number: int) -> Iterator[Cycle]:
        """One pass over every sentence of the corpus; the same for the same number."""
        assert self._settings.distill is not None
        own = SpokenText(self._taught, text.speakers, 0)
        return cycles(text, own, self._settings, self.recipe.seed, number, self._settings.distill.mini_batches)


def cycles(
    text: SpokenText, taught: SpokenText, recipe: S5Fit, seed: int, number: int, mini_batches: int
) -> Iterator[Cycle]:
    """Mini-batches of both sources in turn, so many to a cycle, as long as there are new ones of the corpus.

    Raises:
        BadFile: one of the sources has too few.
    """
    corpus, own = _mini_batches(text, recipe, [seed, number, 0]), _endless(taught, recipe, [seed, number, 1])
    each, is_first = mini_batches // 2, True
    while len(mine := [*islice(corpus, each)]) == each:
        yield Cycle([part for one in mine for part in (one, next(own))])
        is_first = False
    if is_first:
        raise BadFile(f"the corpus makes {len(mine)} mini-batches, and a step needs {each}", "lower batch_tokens")


def _endless(text: SpokenText, recipe: S5Fit, seed: list[int]) -> Iterator[Taught]:
    for turn in count():
        found = _mini_batches(text, recipe, [*seed, turn])
        if (first := next(found, None)) is None:
            raise BadFile("what the teacher spoke has no sentence that fits", "make more with `studio train taught`")
        yield first
        yield from found


def _mini_batches(text: SpokenText, recipe: S5Fit, seed: list[int]) -> Iterator[Taught]:
    """One pass over every sentence of a source in random order and company; none is cut, for the teacher knows none."""
    rng = np.random.default_rng(seed)

    def make(plans: Sequence[list[Sentence]]) -> Iterator[_Sized]:
        for plan in plans:
            silence = text.silence[plan[0].speaker]
            joined, k = join(plan, silence, rng), int(rng.choice(recipe.look_ahead))
            pair = sequence(joined, silence, k), sequence(joined, silence, WHOLE)
            if all(map(can_align, pair)):
                yield _Sized(pair)

    for group in in_batches(text, recipe, rng, make):
        mine, theirs = zip(*(one.pair for one in group), strict=True)
        student = collate(mine, text.speakers, recipe.noise_share, rng)
        yield Taught(student, collate(theirs, text.speakers, 0.0, rng))


@dataclass(frozen=True)
class _Sized:
    """A pair that is as long as the longer of the two."""

    pair: tuple[Sequence5, Sequence5]

    def __len__(self) -> int:
        return max(map(len, self.pair))
