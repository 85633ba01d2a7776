"""The training loop: epochs, learning rate, validation, checkpoints. A stopped run resumes."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from studio.core.errors import BadFile
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.optimisers import build_optimisers, rate_share
from studio.train.fit.resources import TRAINED_BYTES, check_memory, lock_state_folder
from studio.train.fit.training import FamilyTraining, TrainingModule, WorkingCopy, train_step
from studio.train.fit.weights import load_initial_weights, write_weights

_SAVE_EVERY_S = 180.0
_MAX_SKIPPED = 20  # steps in a row
_VALIDATE_EVERY_S = {"cpu": 420.0, "cuda": 60.0}

BatchSource = Callable[[int], Iterator[Any]]  # the batches of an epoch by its number


@dataclass
class TrainingPosition:
    """How far a run is, as checkpoints store it: steps done, the epoch, and its batches done."""

    step: int = 0
    number: int = 0
    batch: int = 0
    trained_s: float = 0.0

    def progress(self, steps: int, budget_s: float | None) -> float:
        """The share of the training that is done."""
        return max(self.step / steps, self.trained_s / budget_s if budget_s else 0.0)


def run(
    training: FamilyTraining,
    features: Path,
    state: Path,
    device: torch.device,
    threads: int | None = None,
    start: Path | None = None,
    like: Path | None = None,
    batch_source: BatchSource | None = None,
    budget_s: float | None = None,
) -> Path:
    """Train until the steps or the seconds are used up, resuming from ``state``; returns the path of the weights.

    Metrics go to ``state/metrics.jsonl``: a line every few steps, and one per validation.

    Args:
        start: initial weights, such as a shipped voice's; layers that they lack start as the identity.
        like: weights of another family; layers of the same name and shape are loaded.
        batch_source: makes the batches of an epoch; without it they are made in this process.

    Raises:
        BadFile: the training diverges (the last checkpoint is kept), there are no training sentences, the state is
            damaged or of another recipe, or another training uses it.
        BadOption: not enough memory.
    """
    if threads:
        torch.set_num_threads(threads)
    if device.type == "cpu":
        check_memory(training.module, TRAINED_BYTES)
    with lock_state_folder(state):
        return _run(training, features, state, device, start, like, batch_source, budget_s)


def _run(
    training: FamilyTraining,
    features: Path,
    state: Path,
    device: torch.device,
    start: Path | None,
    like: Path | None,
    batch_source: BatchSource | None,
    budget_s: float | None,
) -> Path:
    recipe, settings = training.recipe, training.settings
    module = training.module.to(device)
    optimisers = build_optimisers(module, settings)
    at = _resume(state, settings.family, module, optimisers, device)
    if start is not None and at.step == 0:
        load_initial_weights(module.net, start, module.identity_prefixes, module.speaker_buffers)
    data = SpeechDataset.load(features, recipe.corpus)
    training.prepare(data, state)
    if like is not None and at.step == 0:
        training.load_shared_weights(like, state)
    steps = settings.steps
    working_copy = WorkingCopy(module)
    saved = validated = last = time.monotonic()
    progress, skipped = at.progress(steps, budget_s), 0
    log = (state / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bars:
        bar = bars.add_task(f"fitting {data.hours:.1f} h", total=steps, completed=at.step)
        while progress < 1.0:
            batches = training.batches(data, at.number) if batch_source is None else batch_source(at.number)
            i = -1
            for i, batch in enumerate(batches):
                if i < at.batch:
                    continue
                share = rate_share(progress, settings)
                own_share = settings.own_share * (at.step % 2)
                losses = train_step(working_copy, optimisers, batch.to(device), training, share, own_share)
                at.step, at.batch = at.step + 1, i + 1
                skipped = skipped + 1 if "skipped" in losses else 0
                if skipped == _MAX_SKIPPED:
                    raise _diverged(state, f"the gradients of {skipped} batches in a row are not finite")
                bars.update(bar, completed=at.step, description=f"frame {losses.get('frame', math.nan):.3f}")
                if at.step % 10 == 0 or skipped:
                    log.write(json.dumps({"step": at.step, "rate": share, "hours": data.hours, **losses}) + "\n")
                now = time.monotonic()
                at.trained_s, last = at.trained_s + now - last, now
                progress = at.progress(steps, budget_s)
                if now - validated > _VALIDATE_EVERY_S[device.type] or progress >= 1.0:
                    validated = now
                    validation = training.validate(data, device)
                    log.write(json.dumps({"step": at.step, "validation": validation}) + "\n")
                if now - saved > _SAVE_EVERY_S or progress >= 1.0:
                    saved = now
                    _save(state, settings.family, module, optimisers, at)
                if progress >= 1.0:
                    break
            else:
                if i < 0:  # else this would loop forever
                    raise BadFile(
                        f"{features} leaves no sentence to train on",
                        "make more with `studio train features`, or write fewer validation_shards into the recipe's "
                        "[corpus]",
                    )
                at.number, at.batch = at.number + 1, 0
                data = SpeechDataset.load(features, recipe.corpus)
    log.close()
    return state / f"{settings.family}.safetensors"


def _diverged(state: Path, why: str) -> BadFile:
    return BadFile(f"the training has diverged: {why}", f"{state} keeps the last checkpoint; lower the peak_rate")


def _save(
    state: Path, family: str, module: TrainingModule, optimisers: Sequence[torch.optim.Optimizer], at: TrainingPosition
) -> None:
    if not all(bool(parameter.isfinite().all()) for parameter in module.parameters()):
        raise _diverged(state, f"a weight is not finite after {at.step} steps")
    # Weights first: a run stopped between the two resumes from before them and writes them again.
    write_weights(module.net.state_dict(), state / f"{family}.safetensors")
    part = state / ".checkpoint.part"
    checkpoint = {"fitter": module.state_dict(), "optims": [o.state_dict() for o in optimisers], "at": vars(at)}
    torch.save(checkpoint | {"family": family}, part)
    part.rename(state / "checkpoint.pt")


def _resume(
    state: Path,
    family: str,
    module: TrainingModule,
    optimisers: Sequence[torch.optim.Optimizer],
    device: torch.device,
) -> TrainingPosition:
    path = state / "checkpoint.pt"
    if not path.is_file():
        return TrainingPosition()
    try:
        checkpoint = torch.load(path, map_location=device, weights_only=True)
        if (of := checkpoint.get("family", family)) != family:  # some families have nets of the same shape
            raise ValueError(f"it is of the family {of!r:.40}")
        module.load_state_dict(checkpoint["fitter"])
        for optimiser, values in zip(optimisers, checkpoint["optims"], strict=True):
            optimiser.load_state_dict(values)
        at = TrainingPosition(**checkpoint["at"])
        if not all(bool(parameter.isfinite().all()) for parameter in module.parameters()):
            raise ValueError("a weight is not finite")
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise BadFile(
            f"{path} is damaged, or of another recipe: {why}", "remove it, or name another folder with --state"
        ) from error
    return at
