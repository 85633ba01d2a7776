"""Base classes of every family's training, its optimisers, and one step with a low-precision working copy."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from studio.train.features import Sentence
from studio.train.fit.dataset import SpeechDataset, bucketed_batches, split_batches
from studio.train.fit.resources import load_shared_weights, training_dtype
from studio.train.recipes.fits import FitRecipe
from studio.train.recipes.recipe import Recipe

Fit = TypeVar("Fit", bound=FitRecipe)
Rng = np.random.Generator
Groups = Sequence[list[Sentence]]  # sentences to join, each list of one speaker


class TrainingModule(nn.Module, ABC):
    """A family's net and its training-only heads.

    Attributes:
        net: the part that is saved.
        identity_prefixes: prefixes of weights that ``load_initial_weights`` may lack: layers initialised as the
            identity.
        speaker_buffers: buffers that ``FamilyTraining.prepare`` fills for each speaker. ``load_initial_weights``
            ignores them: a voice conditioned on recordings may start from one with other speakers.
    """

    net: Any  # an nn.Module with its config
    identity_prefixes: tuple[str, ...] = ()
    speaker_buffers: tuple[str, ...] = ()

    @abstractmethod
    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Losses of a batch, and other figures to log; ``frame`` is in nats per channel."""

    @abstractmethod
    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """The loss to minimise."""

    @abstractmethod
    def own_frames(self, batch: Any, share: float, temperature: float) -> Any:
        """The batch with a share of its input frames replaced by the net's own samples."""

    @abstractmethod
    def matrices(self) -> list[nn.Parameter]:
        """Matrices of hidden layers, which Muon optimises."""


class FamilyTraining(ABC, Generic[Fit]):
    """The training of one family by a recipe. Makes freshly initialised weights.

    Attributes:
        settings: the recipe's [fit].
        voice_files: files of the state folder that belong to the voice, beside its weights.
        validation_tokens: of a batch of validation sequences.
    """

    settings: Fit
    module: TrainingModule
    voice_files: tuple[str, ...] = ()
    validation_tokens = 8_000

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.settings = recipe, cast("Fit", recipe.voice_fit())
        torch.manual_seed(recipe.seed)
        self.module = self.build_module()

    @abstractmethod
    def build_module(self) -> TrainingModule:
        """The net of ``settings`` with its losses. Raises BadOption."""

    def prepare(self, data: SpeechDataset, state: Path) -> None:
        """Fill the net's speaker buffers: the silence of each speaker. Raises BadFile where something is missing."""
        silence = self.module.net.get_buffer("silence")
        for i, speaker in enumerate(data.speakers):
            silence[i] = torch.from_numpy(data.silence[speaker]).to(silence)

    def load_shared_weights(self, path: Path, state: Path) -> None:
        """Initialise the layers that the net shares with another family's. Raises BadFile."""
        load_shared_weights(self.module.net, path)

    @abstractmethod
    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterable[Sized]:
        """Training sequences of groups of sentences of one speaker each."""

    @abstractmethod
    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, Iterable[Sized]]]:
        """The names of settings to validate with, and the sequences of the validation sentences for each."""

    @abstractmethod
    def collate(self, group: Sequence[Any], data: SpeechDataset, rng: Rng | None) -> Any:
        """A batch of sequences: with noise for training, without a generator for validation."""

    def batches(self, data: SpeechDataset, epoch: int) -> Iterator[Any]:
        """One epoch over all sentences in random order and grouping; the same for the same seed and number."""
        rng = np.random.default_rng([self.recipe.seed, epoch])
        for group in bucketed_batches(data, self.settings, rng, lambda groups: self.draw(groups, data, rng)):
            yield self.collate(group, data, rng)

    def validation_batches(self, data: SpeechDataset, sequences: Iterable[Sized]) -> Iterator[Any]:
        """Batches without noise of some of ``validation``."""
        for group in split_batches(sorted(sequences, key=len), self.validation_tokens):
            yield self.collate(group, data, None)

    def validate(self, data: SpeechDataset, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on validation sentences, by setting."""
        self.module.eval()
        losses = {
            name: mean_losses(self.module, self.validation_batches(data, sequences), device)
            for name, sequences in self.validation(data)
        }
        self.module.train()
        return losses


class WorkingCopy:
    """A copy of a module in ``training_dtype`` for forward and backward passes; the float32 master is optimised.

    On a CPU this is a fifth faster than autocast, which casts every weight and activation again.
    """

    def __init__(self, master: TrainingModule) -> None:
        self.master = master
        self.copy = copy.deepcopy(master).to(training_dtype(next(master.parameters()).device))
        self._pairs = list(zip(master.parameters(), self.copy.parameters(), strict=True))

    def losses(self, batch: Any, own_share: float, temperature: float) -> dict[str, Tensor]:
        """Losses of a batch by the master's current weights, with a share of own frames."""
        with torch.no_grad():
            for master, working in self._pairs:
                working.copy_(master)
                working.grad = None
        if own_share:
            batch = self.copy.own_frames(batch, own_share, temperature)
        return self.copy(batch)

    def copy_gradients(self) -> None:
        """Copy the gradients of a backward pass to the master."""
        for master, working in self._pairs:
            master.grad = None if working.grad is None else working.grad.float()


def train_step(
    working_copy: WorkingCopy,
    optimisers: Sequence[torch.optim.Optimizer],
    batch: Any,
    training: FamilyTraining[Any],
    rate_share: float,
    own_share: float,
) -> dict[str, float]:
    """One step at a share of the peak learning rate; returns the losses.

    If the gradient is not finite, the step is skipped and ``skipped`` is 1.
    """
    losses = working_copy.losses(batch, own_share, training.recipe.temperature)
    working_copy.copy.total(losses).backward()
    working_copy.copy_gradients()
    logged = {k: round(float(v.detach()), 4) for k, v in losses.items() if v.isfinite()}
    if not nn.utils.clip_grad_norm_(working_copy.master.parameters(), 1.0).isfinite():
        return logged | {"skipped": 1.0}
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = training.settings.peak_rate * rate_share
        optimiser.step()
    return logged


@torch.no_grad()
def mean_losses(module: TrainingModule, batches: Iterator[Any], device: torch.device) -> dict[str, float]:
    """Mean losses over batches, weighted by the frames they predict (``batch.predicted``)."""
    sums: dict[str, float] = {}
    count = 0
    for batch in batches:
        losses = module(batch.to(device))
        count += batch.predicted
        for k, v in losses.items():
            sums[k] = sums.get(k, 0.0) + float(v) * batch.predicted
    return {k: round(v / max(count, 1), 4) for k, v in sums.items()}


def sample_levels(logits: Tensor, temperature: float) -> Tensor:
    """Sample levels uint8 [...] from logits [..., 16] with torch's generator; argmax at temperature 0."""
    if not temperature:
        return logits.argmax(-1).to(torch.uint8)
    shares = (logits.float() / temperature).softmax(-1)
    noise = torch.rand(*shares.shape[:-1], 1, device=shares.device)
    return (shares.cumsum(-1) < noise).sum(-1).clamp(max=shares.shape[-1] - 1).to(torch.uint8)


def build_optimisers(module: TrainingModule, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for tables, heads and norms."""
    matrices = module.matrices()
    chosen = {id(p) for p in matrices}
    others = [p for p in module.parameters() if id(p) not in chosen]
    muon = torch.optim.Muon if training_dtype(matrices[0].device) == torch.bfloat16 else Float32Muon
    return [
        muon(matrices, lr=recipe.peak_rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.peak_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def rate_share(progress: float, recipe: FitRecipe) -> float:
    """Share of the peak learning rate at a progress from 0 to 1: warm-up, flat, linear decay."""
    if progress < recipe.warmup_share:
        return max(progress / recipe.warmup_share, 0.02)
    if not recipe.decay_share:
        return 1.0
    return min(1.0, max(0.0, (1.0 - progress) / recipe.decay_share))


class Float32Muon(torch.optim.Muon):
    """torch's Muon with its iteration in float32.

    On a CPU without AVX-512 the bfloat16 iteration takes longer than the rest of a step. Settings, state and steps are
    the same, up to bfloat16 rounding.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; returns the loss of ``closure``."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
        return loss

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if group["adjust_lr_fn"] != "match_rms_adamw":
            raise ValueError("only adjust_lr_fn='match_rms_adamw' is implemented")
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        past, momentum = state["momentum_buffer"], group["momentum"]
        past.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(past, momentum) if group["nesterov"] else past
        update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Orthogonalise a matrix [A, B]: singular values near 1, by a quintic Newton-Schulz iteration."""
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix) / matrix.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
