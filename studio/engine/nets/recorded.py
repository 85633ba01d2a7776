"""Steps of fixed shapes recorded as CUDA graphs: a GPU is then told once for hundreds of kernels, not once for each.

Graphs are off unless the environment says STUDIO_GRAPHS=1, and on a CPU always: the step then runs as it is written.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

GRAPHS = "STUDIO_GRAPHS"
_WARM_UPS = 2  # libraries make their workspaces at the first runs, which must not be recorded

MOST_ROWS_ON_DEVICE = 128  # of a batch on a GPU

Body = Callable[..., Tensor]


def filled_up(rows: int) -> int:
    """How many rows a batch is filled up to: few numbers serve all, since each is recorded by itself."""
    return 1 << (rows - 1).bit_length()


class Recorded:
    """Runs steps on a device: what they are given goes there in one copy each, what they answer comes back in one.

    Args:
        graphs: whether steps are recorded; by the environment unless given.
    """

    def __init__(self, device: torch.device, *, graphs: bool | None = None) -> None:
        wanted = os.environ.get(GRAPHS) == "1" if graphs is None else graphs
        self._device, self._records = device, wanted and device.type == "cuda"
        self._graphs: dict[Hashable, _Graph] = {}
        self._pool: Any = None  # memory that all graphs share: only one of them runs at a time

    def run(self, key: Hashable, body: Body, given: Sequence[Tensor], idle: Callable[[], Sequence[Tensor]]) -> Tensor:
        """What a step answers, on the host.

        Args:
            key: tells steps apart: what they do, and the shapes of all that they touch.
            body: the step, of tensors on the device; it may change others that stay where they are. It must neither
                ask the device for a number nor do anything else on the host.
            given: what it is given, on the host.
            idle: makes the same of an utterance that is nobody's: the step runs with it before it is recorded.
        """
        if not self._records:
            return body(*(one.to(self._device) for one in given)).cpu()
        if key not in self._graphs:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[key] = _Graph(body, idle(), self._device, self._pool)
        return self._graphs[key].replay(given)


class _Graph:
    """One step, recorded."""

    def __init__(self, body: Body, idle: Sequence[Tensor], device: torch.device, pool: Any) -> None:
        self._sent = [one.pin_memory() for one in idle]
        self._given = [one.to(device) for one in idle]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                body(*self._given)
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._found = body(*self._given)
        self._told = torch.empty(self._found.shape, dtype=self._found.dtype, pin_memory=True)

    def replay(self, given: Sequence[Tensor]) -> Tensor:
        """Run it again with something else."""
        for new, sent, there in zip(given, self._sent, self._given, strict=True):
            sent.copy_(new)
            there.copy_(sent, non_blocking=True)
        self._graph.replay()
        self._told.copy_(self._found, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return self._told.clone()
