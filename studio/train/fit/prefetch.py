"""Batches made ahead by worker processes, in the same order as one process would make them.

A GPU step takes a fraction of the time to make a batch. Of W workers, worker k makes the epochs k, k + W, k + 2 W, ...,
so the training data is the same with and without workers.
"""

import copy
import multiprocessing
from collections.abc import Iterator
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import torch

from studio.core.errors import StudioError
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.training import FamilyTraining

_QUEUED_BATCHES = 512  # per worker


class BatchPrefetcher:
    """Epochs over a features folder, made by ``workers`` processes."""

    def __init__(self, training: FamilyTraining, features: Path, workers: int) -> None:
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
        """The batches of an epoch; epochs must be requested in order.

        Raises:
            StudioError: the worker's own.
            RuntimeError: the worker died.
        """
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


def _work(training: FamilyTraining, features: Path, first: int, stride: int, queue: "Queue[Any]") -> None:
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
