"""Interleaved multi-source distillation (paper 001, "Interleaved multi-source distillation"): S5-TTS taught by T5-TTS.

L_distill = lambda_h MSE(h_stu, h_tea) + lambda_z KL(z_stu || z_tea) + CE(softmax(z_stu), y). Teacher and student are
both fed the true frames. y are frames of the corpus, or frames that the teacher generated from texts without speech and
in which a recogniser found every word (``studio train taught``). Mini-batches of the two sources alternate, and each
step accumulates the gradients of a whole cycle.
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

from studio.core.errors import BadFile, BadOption, bad_file
from studio.engine.families.t5.model import T5Config
from studio.engine.nets.loading import dequantise
from studio.train.families.s5_batches import WHOLE, S5Batch, S5Sequence, can_align, collate, sequence
from studio.train.families.s5_fit import S5Training, S5TrainingModule, T5TrainingModule, at_steps
from studio.train.features import Sentence
from studio.train.fit.dataset import SpeechDataset, bucketed_batches, join_sentences
from studio.train.recipes.fits import Distillation, S5Fit
from studio.train.recipes.recipe import Recipe


@dataclass(frozen=True)
class TeacherStudentPair:
    """One mini-batch for student and teacher: the same frames, each with the phonemes of its own look-ahead."""

    student: S5Batch
    teacher: S5Batch


@dataclass(frozen=True)
class DistillationCycle:
    """The mini-batches of one step, alternately of the corpus and of the teacher's speech."""

    parts: list[TeacherStudentPair]

    @property
    def predicted(self) -> int:
        return sum(one.student.predicted for one in self.parts)

    def to(self, device: torch.device) -> "DistillationCycle":
        """The same cycle on another device."""
        return DistillationCycle(
            [TeacherStudentPair(one.student.to(device), one.teacher.to(device)) for one in self.parts]
        )


def hidden_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """MSE of hidden states [N, D]."""
    return F.mse_loss(student.float(), teacher.float())


def logit_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(z_stu || z_tea) of logits [..., V], in nats, mean over all but the last dimension.

    As in the paper, it is weighted by the student's distribution, so it is largest where the teacher's is near zero.
    """
    mine, theirs = student.float().log_softmax(-1), teacher.float().log_softmax(-1)
    return (mine.exp() * (mine - theirs)).sum(-1).mean()


class DistillationModule(S5TrainingModule):
    """The student with its losses; the teacher is neither trained nor saved.

    Args:
        teacher: of the student's width and speakers.
    """

    def __init__(self, student: S5TrainingModule, teacher: T5TrainingModule, settings: Distillation) -> None:
        super().__init__(student.net.config, student.settings)
        self.net = student.net
        self._teacher = (teacher.eval().requires_grad_(False),)  # in a tuple, so that it is not a submodule
        self._lambdas = {"hidden": settings.hidden_weight, "logit": settings.logit_weight}

    def forward(self, batch: DistillationCycle | S5Batch) -> dict[str, Tensor]:
        """Losses as in ``S5TrainingModule``, for a cycle also ``hidden`` and ``logit``; means over its mini-batches."""
        if isinstance(batch, S5Batch):
            return super().forward(batch)
        each = [self._distillation_losses(one) for one in batch.parts]
        return {name: torch.stack([one[name] for one in each]).mean() for name in each[0]}

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """L_distill and the other weighted losses."""
        return super().total(losses) + sum(weight * losses[name] for name, weight in self._lambdas.items())

    @torch.no_grad()
    def own_frames(self, batch: DistillationCycle, share: float, temperature: float) -> DistillationCycle:
        """The cycle with a share of the student's fed frames sampled from the student."""
        own = [super(DistillationModule, self).own_frames(one.student, share, temperature) for one in batch.parts]
        return DistillationCycle([replace(one, student=mine) for one, mine in zip(batch.parts, own, strict=True)])

    def _distillation_losses(self, batch: TeacherStudentPair) -> dict[str, Tensor]:
        student, theirs = batch.student, batch.teacher
        (teacher,) = self._teacher
        teacher.to(student.k.device)
        with torch.no_grad():
            target, _ = teacher.run(theirs, teacher.words_of(theirs))
            target = at_steps(target, theirs.step_of)[theirs.predicts]
            target_logits, _ = teacher.net.heads(target)
        losses, hidden = self.losses(student)
        hidden = at_steps(hidden, student.step_of)[student.predicts]
        logits, _ = self.net.heads(hidden)
        return {**losses, "hidden": hidden_loss(hidden, target), "logit": logit_loss(logits, target_logits)}


class DistillationTraining(S5Training):
    """Training of S5-TTS by a recipe with [fit.distill]. Raises BadOption, BadFile.

    Args:
        teacher: weights of a T5-TTS with the student's sizes.
        taught: folder of features generated by the teacher, as ``studio train taught`` writes them.
    """

    def __init__(self, recipe: Recipe, teacher: Path, taught: Path) -> None:
        super().__init__(recipe)
        settings = self.settings
        if settings.distill is None:
            raise BadOption(f"the recipe {recipe.name!r} has no [fit.distill]", "leave out --teacher and --taught")
        self._taught = taught
        config = T5Config.read({k: v for k, v in settings.config.items() if k not in ("encoder_mask", "decoder_mask")})
        teacher_module = T5TrainingModule(config, settings)
        with bad_file(
            f"{teacher} is no T5-TTS with the sizes of {recipe.name!r}",
            "fit one by the recipe that is beside it, such as t5-tiny.toml beside s5-tiny.toml",
            SafetensorError,
            RuntimeError,
            ValueError,
        ):
            teacher_module.net.load_state_dict(dequantise(load_file(teacher)))
        student = self.module
        assert isinstance(student, S5TrainingModule)
        self.module = DistillationModule(student, teacher_module, settings.distill)

    def batches(self, data: SpeechDataset, epoch: int) -> Iterator[DistillationCycle]:
        """One pass over every sentence of the corpus; the same for the same number."""
        assert self.settings.distill is not None
        taught = SpeechDataset(self._taught, data.speakers, 0)
        return cycles(data, taught, self.settings, self.recipe.seed, epoch, self.settings.distill.mini_batches)


def cycles(
    text: SpeechDataset, taught: SpeechDataset, recipe: S5Fit, seed: int, number: int, mini_batches: int
) -> Iterator[DistillationCycle]:
    """Cycles of mini-batches of both sources, until the corpus is exhausted. Raises BadFile."""
    corpus, own = _mini_batches(text, recipe, [seed, number, 0]), _endless(taught, recipe, [seed, number, 1])
    each, is_first = mini_batches // 2, True
    while len(mine := [*islice(corpus, each)]) == each:
        yield DistillationCycle([part for one in mine for part in (one, next(own))])
        is_first = False
    if is_first:
        raise BadFile(f"the corpus makes {len(mine)} mini-batches, and a step needs {each}", "lower batch_tokens")


def _endless(text: SpeechDataset, recipe: S5Fit, seed: list[int]) -> Iterator[TeacherStudentPair]:
    for turn in count():
        batches = _mini_batches(text, recipe, [*seed, turn])
        if (first := next(batches, None)) is None:
            raise BadFile("what the teacher spoke has no sentence that fits", "make more with `studio train taught`")
        yield first
        yield from batches


def _mini_batches(text: SpeechDataset, recipe: S5Fit, seed: list[int]) -> Iterator[TeacherStudentPair]:
    """One pass over every sentence of a source in random order; none is cut, since the teacher reads whole texts."""
    rng = np.random.default_rng(seed)

    def make(plans: Sequence[list[Sentence]]) -> Iterator[_SequencePair]:
        for plan in plans:
            silence = text.silence[plan[0].speaker]
            joined, k = join_sentences(plan, silence, rng), int(rng.choice(recipe.look_ahead))
            pair = sequence(joined, silence, k), sequence(joined, silence, WHOLE)
            if all(map(can_align, pair)):
                yield _SequencePair(pair)

    for group in bucketed_batches(text, recipe, rng, make):
        mine, theirs = zip(*(one.pair for one in group), strict=True)
        student = collate(mine, text.speakers, recipe.noise_share, rng)
        yield TeacherStudentPair(student, collate(theirs, text.speakers, 0.0, rng))


@dataclass(frozen=True)
class _SequencePair:
    """A pair of sequences, as long as the longer one."""

    pair: tuple[S5Sequence, S5Sequence]

    def __len__(self) -> int:
        return max(map(len, self.pair))
