"""The training loop: epochs, learning rate, validation, checkpoints and prefetched batches. A stopped run resumes."""

import copy
import json
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from studio.core.errors import BadFile, StudioError
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.resources import (
    TRAINED_BYTES,
    are_finite,
    check_finite,
    check_memory,
    diverged,
    load_checkpoint,
    load_initial_weights,
    lock_state_folder,
    save_checkpoint,
    write_weights,
)
from studio.train.fit.training import (
    FamilyTraining,
    TrainingModule,
    WorkingCopy,
    build_optimisers,
    rate_share,
    train_step,
)

_SAVE_EVERY_S = 180.0
_QUEUED_BATCHES = 512  # per worker process
_MAX_SKIPPED = 20  # steps in a row
_VALIDATE_EVERY_S = {"cpu": 420.0, "cuda": 60.0}

BatchSource = Callable[[int], Iterator[Any]]  # the batches of an epoch by its number


@dataclass
class TrainingPosition:
    """Progress of a run, stored in checkpoints: finished steps, the epoch, and its finished batches."""

    step: int = 0
    number: int = 0
    batch: int = 0
    trained_s: float = 0.0

    def progress(self, steps: int, budget_s: float | None) -> float:
        """The share of the training that is done."""
        return max(self.step / steps, self.trained_s / budget_s if budget_s else 0.0)


def run(
    training: FamilyTraining[Any],
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
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        metrics = state / "metrics.jsonl"
        with metrics.open("a", encoding="utf-8", buffering=1) as log, Progress(*columns) as bars:
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
                        raise diverged(state, f"the gradients of {skipped} batches in a row are not finite")
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
                            "make more with `studio train features`, or lower the recipe's validation_shards",
                        )
                    at.number, at.batch = at.number + 1, 0
                    data = SpeechDataset.load(features, recipe.corpus)
        return state / f"{settings.family}.safetensors"


def _save(
    state: Path, family: str, module: TrainingModule, optimisers: Sequence[torch.optim.Optimizer], at: TrainingPosition
) -> None:
    check_finite(module.parameters(), state, at.step)
    # Weights first: a run stopped between the two resumes from before them and writes them again.
    write_weights(module.net.state_dict(), state / f"{family}.safetensors")
    checkpoint = {"fitter": module.state_dict(), "optims": [o.state_dict() for o in optimisers], "at": vars(at)}
    save_checkpoint(checkpoint | {"family": family}, state / "checkpoint.pt")


def _resume(
    state: Path, family: str, module: TrainingModule, optimisers: Sequence[torch.optim.Optimizer], device: torch.device
) -> TrainingPosition:
    at = TrainingPosition()

    def restore(checkpoint: dict[str, Any]) -> None:
        nonlocal at
        if (of := checkpoint.get("family", family)) != family:  # some families have nets of the same shape
            raise ValueError(f"it is of the family {of!r:.40}")
        module.load_state_dict(checkpoint["fitter"])
        for optimiser, values in zip(optimisers, checkpoint["optims"], strict=True):
            optimiser.load_state_dict(values)
        at = TrainingPosition(**checkpoint["at"])
        if not are_finite(module.parameters()):
            raise ValueError("a weight is not finite")

    if (path := state / "checkpoint.pt").is_file():
        load_checkpoint(path, device, restore)
    return at


class BatchPrefetcher:
    """Epochs over a features folder, made ahead by ``workers`` processes, in the same order as by one process.

    A GPU step takes a fraction of the time to make a batch. Of W workers, worker k makes the epochs k, k + W, k + 2 W,
    ..., so the training data is the same with and without workers.
    """

    def __init__(self, training: FamilyTraining[Any], features: Path, workers: int) -> None:
        self._training, self._features, self._workers = training, features, workers
        self._queues: list[Queue[Any]] = []
        self._processes: list[Any] = []
        self._first = 0

    def _start(self, epoch: int) -> None:
        context = multiprocessing.get_context("spawn")
        training = copy.copy(self._training)
        del training.module  # not needed for batches, and it may be on a GPU
        self._first = epoch
        self._queues = [context.Queue(_QUEUED_BATCHES) for _ in range(self._workers)]
        for k, queue in enumerate(self._queues):
            args = (training, self._features, epoch + k, self._workers, queue)
            process = context.Process(target=_work, args=args, daemon=True)
            process.start()
            self._processes.append(process)

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch; epochs must be requested in order. Raises StudioError, RuntimeError."""
        if not self._processes:
            self._start(epoch)
        worker = (epoch - self._first) % self._workers
        while (item := self._next_item(worker)) is not None:
            if isinstance(item, StudioError):
                raise item
            kind, values = item
            yield kind(**{k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in values.items()})

    def _next_item(self, worker: int) -> Any:
        """A batch, an error, or None at an epoch's end."""
        while True:
            try:
                return self._queues[worker].get(timeout=5.0)
            except Empty:
                if not self._processes[worker].is_alive():
                    raise RuntimeError("a process that makes batches has ended") from None

    def close(self) -> None:
        """Terminate the workers."""
        for process in self._processes:
            process.terminate()


def _work(training: FamilyTraining[Any], features: Path, first: int, stride: int, queue: "Queue[Any]") -> None:
    torch.set_num_threads(1)
    epoch = first
    try:
        while True:
            data = SpeechDataset.load(features, training.recipe.corpus)
            for batch in training.batches(data, epoch):
                values = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in vars(batch).items()}
                queue.put((type(batch), values))
            queue.put(None)
            epoch += stride
    except StudioError as error:
        queue.put(type(error)(error.what, error.do))
