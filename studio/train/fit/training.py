"""Base classes of every family's training, and one training step with a low-precision working copy."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.resources import training_dtype
from studio.train.fit.weights import load_shared_weights
from studio.train.recipes.recipe import Recipe


class TrainingModule(nn.Module, ABC):
    """A family's net and the heads that only training needs.

    Attributes:
        net: what is saved.
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


class FamilyTraining(ABC):
    """The training of one family by a recipe.

    Attributes:
        voice_files: files of the state folder that belong to the voice, beside its weights.
    """

    voice_files: tuple[str, ...] = ()

    def __init__(self, recipe: Recipe, module: TrainingModule) -> None:
        assert recipe.fit is not None
        self.recipe, self.settings, self.module = recipe, recipe.fit, module

    def prepare(self, data: SpeechDataset, state: Path) -> None:
        """Fill the net's speaker buffers: the silence of each speaker. Raises BadFile where something is missing."""
        silence = self.module.net.get_buffer("silence")
        for i, speaker in enumerate(data.speakers):
            silence[i] = torch.from_numpy(data.silence[speaker]).to(silence)

    def load_shared_weights(self, path: Path, state: Path) -> None:
        """Initialise the layers that the net shares with another family's. Raises BadFile."""
        load_shared_weights(self.module.net, path)

    @abstractmethod
    def batches(self, data: SpeechDataset, epoch: int) -> Iterator[Any]:
        """One epoch over all sentences; deterministic for the same number."""

    @abstractmethod
    def validate(self, data: SpeechDataset, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on validation sentences, by setting."""


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
    training: FamilyTraining,
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
