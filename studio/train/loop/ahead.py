"""Batches made ahead by other processes, in the order in which one process would make them.

A GPU takes a step in a fraction of the time that a batch takes to be made. Each process makes whole passes: the first
0, W, 2 W and so on, the next 1, W + 1, ...; what is trained on is the same with and without them.
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
from studio.train.loop.fitting import Fitting
from studio.train.loop.spoken import SpokenText

_KEPT = 512  # batches of a pass that wait to be asked for


class Ahead:
    """Passes over a features folder, made by ``workers`` processes."""

    def __init__(self, fitting: Fitting, features: Path, workers: int) -> None:
        self._fitting, self._features, self._workers = fitting, features, workers
        self._queues: list[Queue[Any]] = []
        self._hands: list[Any] = []
        self._first = 0

    def _begin(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        maker = copy.copy(self._fitting)
        del maker.fitter  # the net, which may be on a GPU already, has no part in a batch
        self._first = number
        self._queues = [context.Queue(_KEPT) for _ in range(self._workers)]
        for k, queue in enumerate(self._queues):
            given = (maker, self._features, number + k, self._workers, queue)
            hand = context.Process(target=_make, args=given, daemon=True)
            hand.start()
            self._hands.append(hand)

    def batches(self, number: int) -> Iterator[Any]:
        """One pass; passes are asked for in order.

        Raises:
            StudioError: what the process that makes it could not make.
            RuntimeError: that process has ended.
        """
        if not self._hands:
            self._begin(number)
        place = (number - self._first) % self._workers
        while (found := self._taken(place)) is not None:
            if isinstance(found, StudioError):
                raise found
            kind, values = found
            yield kind(**{k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in values.items()})

    def _taken(self, place: int) -> Any:
        """What is next in a queue; None at a pass's end."""
        while True:
            try:
                return self._queues[place].get(timeout=5.0)
            except Empty:
                if not self._hands[place].is_alive():
                    raise RuntimeError("a process that makes batches has ended") from None

    def close(self) -> None:
        """End the processes."""
        for hand in self._hands:
            hand.terminate()


def _make(fitting: Fitting, features: Path, first: int, stride: int, queue: "Queue[Any]") -> None:
    torch.set_num_threads(1)
    try:
        _make_passes(fitting, features, first, stride, queue)
    except StudioError as error:  # who asks for the pass tells it
        queue.put(type(error)(error.what, error.do))


def _make_passes(fitting: Fitting, features: Path, first: int, stride: int, queue: "Queue[Any]") -> None:
    number = first
    while True:
        text = SpokenText.of(features, fitting.recipe.corpus)
        for batch in fitting.batches(text, number):
            values = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in vars(batch).items()}
            queue.put((type(batch), values))
        queue.put(None)
        number += stride
