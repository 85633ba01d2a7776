"""CUDA graphs: a step of fixed shapes is captured once and is then one launch.

Graphs are on unless STUDIO_GRAPHS=0 is set. Batches are padded to a power of two, so that few graphs serve all sizes.
"""

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

GRAPHS = "STUDIO_GRAPHS"  # environment variable: 0 turns graphs off
_WARM_UPS = 2  # kernels are compiled and libraries allocate workspaces in the first runs, which cannot be captured

MAX_ROWS = 512  # of a batch on a GPU
MAX_FRAMES = 8  # decode steps of one run

_CAPTURING = threading.Lock()


def padded_rows(rows: int) -> int:
    """Batch size with padding, a power of two: each size is captured once."""
    return 1 << (rows - 1).bit_length()


def batch_sizes(largest: int) -> Iterator[int]:
    """1, 2, 4, ... up to the padded size of ``largest``."""
    size = 1
    while size <= padded_rows(largest):
        yield size
        size *= 2


def settle(device: torch.device) -> None:
    """Wait for a GPU's queued work: the host's buffers can be read and written again."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


class GraphCache:
    """Runs launches of kernels, captured as CUDA graphs on a GPU.

    Args:
        graphs: whether launches are captured; by the environment unless given.
    """

    def __init__(self, device: torch.device, *, graphs: bool | None = None) -> None:
        is_wanted = os.environ.get(GRAPHS) != "0" if graphs is None else graphs
        self.device, self.captures = device, is_wanted and device.type == "cuda"
        self._graphs: dict[Hashable, Any] = {}
        self._pool: Any = None  # memory that all graphs share: one runs at a time

    def launch(self, key: Hashable, launch: Callable[[], None]) -> None:
        """Run a launch of static shapes over static memory, as it was captured.

        Args:
            key: identifies the launch and the shapes of everything it touches.
            launch: it must neither read a number back from the device nor depend on anything else on the CPU.
        """
        if self.captures:
            self._graphs[key].replay()
        else:
            launch()

    def needs(self, key: Hashable) -> bool:
        """Whether a launch has to be captured before it runs."""
        return self.captures and key not in self._graphs

    def capture(self, key: Hashable, launch: Callable[[], None]) -> None:
        """Capture a launch on inputs of an unused slot; without graphs, run it once, which compiles its kernels.

        It runs several times, so its effects must be harmless.
        """
        if not self.captures:
            launch()
        elif key not in self._graphs:
            self._graphs[key] = self._capture(launch)

    def _capture(self, launch: Callable[[], None]) -> Any:
        with _CAPTURING:  # one at a time in a process
            return self._captured(launch)

    def _captured(self, launch: Callable[[], None]) -> Any:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                launch()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):  # others may allocate
            launch()
        return graph


def host_buffer(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros on the CPU, pinned where the device is a GPU."""
    return torch.zeros(*shape, dtype=dtype, pin_memory=device.type == "cuda")


class StepRunner:
    """Runs a torch function of tensors as a step, with one copy of its inputs to the device and one back.

    For modules without kernels of their own: vocoders of few layers, recurrent nets.
    """

    def __init__(self, graphs: GraphCache) -> None:
        self._graphs = graphs
        self._steps: dict[Hashable, _Step] = {}

    def run(
        self,
        key: Hashable,
        step: Callable[..., Tensor],
        inputs: Sequence[Tensor],
        dummy: Callable[[], Sequence[Tensor]],
    ) -> Tensor:
        """The result of a step, on the CPU.

        Args:
            key: identifies the step and the shapes of everything it touches.
            step: takes the inputs on the device; it may change other tensors there. See ``GraphCache.launch``.
            inputs: on the CPU.
            dummy: makes inputs of the same shapes for an unused slot, for the capture.
        """
        if not self._graphs.captures:
            return step(*(one.to(self._graphs.device) for one in inputs)).cpu()
        if key not in self._steps:
            self._steps[key] = _Step(step, dummy(), self._graphs.device)
        return self._steps[key].run(key, inputs, self._graphs)


class _Step:
    """Static memory of one step."""

    def __init__(self, step: Callable[..., Tensor], dummy: Sequence[Tensor], device: torch.device) -> None:
        self._step, self._output = step, torch.empty(0)
        self._pinned = [one.pin_memory() for one in dummy]
        self._inputs = [one.to(device) for one in dummy]

    def _launch(self) -> None:
        self._output = self._step(*self._inputs)

    def run(self, key: Hashable, inputs: Sequence[Tensor], graphs: GraphCache) -> Tensor:
        if graphs.needs(key):
            graphs.capture(key, self._launch)  # on the dummy inputs
        for new, pinned, gpu_input in zip(inputs, self._pinned, self._inputs, strict=True):
            pinned.copy_(new)
            gpu_input.copy_(pinned, non_blocking=True)
        graphs.launch(key, self._launch)
        return self._output.cpu()
