"""Steps of fixed shapes captured as CUDA graphs: one launch for hundreds of kernels.

Graphs are off unless STUDIO_GRAPHS=1 is set, and always on a CPU; the step then runs eagerly.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

GRAPHS = "STUDIO_GRAPHS"
_WARM_UPS = 2  # libraries allocate workspaces in the first runs, which must not be captured

MAX_CUDA_ROWS = 128  # of a batch

Step = Callable[..., Tensor]


def padded_rows(rows: int) -> int:
    """Batch size with padding, a power of two: each size is captured once."""
    return 1 << (rows - 1).bit_length()


class GraphRunner:
    """Runs steps on a device, with one copy of the inputs there and one of the result back.

    Args:
        graphs: whether steps are captured; by the environment unless given.
    """

    def __init__(self, device: torch.device, *, graphs: bool | None = None) -> None:
        is_wanted = os.environ.get(GRAPHS) == "1" if graphs is None else graphs
        self._device, self._captures = device, is_wanted and device.type == "cuda"
        self._graphs: dict[Hashable, _Graph] = {}
        self._pool: Any = None  # memory that all graphs share: one runs at a time

    def run(self, key: Hashable, step: Step, inputs: Sequence[Tensor], dummy: Callable[[], Sequence[Tensor]]) -> Tensor:
        """The result of a step, on the CPU.

        Args:
            key: identifies the step and the shapes of everything it touches.
            step: takes the inputs on the device; it may change other tensors there. It must neither read a number
                back from the device nor do anything else on the CPU.
            inputs: on the CPU.
            dummy: makes inputs of the same shapes for an unused slot, for the warm-up runs.
        """
        if not self._captures:
            return step(*(one.to(self._device) for one in inputs)).cpu()
        if key not in self._graphs:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[key] = _Graph(step, dummy(), self._device, self._pool)
        return self._graphs[key].replay(inputs)


class _Graph:
    """One captured step."""

    def __init__(self, step: Step, dummy: Sequence[Tensor], device: torch.device, pool: Any) -> None:
        self._pinned = [one.pin_memory() for one in dummy]
        self._inputs = [one.to(device) for one in dummy]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                step(*self._inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._output = step(*self._inputs)
        self._pinned_output = torch.empty(self._output.shape, dtype=self._output.dtype, pin_memory=True)

    def replay(self, inputs: Sequence[Tensor]) -> Tensor:
        """Run the step on other inputs."""
        for new, pinned, on_device in zip(inputs, self._pinned, self._inputs, strict=True):
            pinned.copy_(new)
            on_device.copy_(pinned, non_blocking=True)
        self._graph.replay()
        self._pinned_output.copy_(self._output, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return self._pinned_output.clone()
