"""Whether a GPU can run the CUDA form, and how many streams its memory holds."""

import functools
import logging
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from studio.core.checks import escape_unprintable
from studio.core.errors import NeedsPackage, NoMemory

Form = Literal["cpu", "cuda"]

_log = logging.getLogger(__name__)

_MIN_CAPABILITY = (8, 0)  # the first with bfloat16
_RESERVED_BYTES = 2**30  # for activations, graphs and libraries
_ON_CPU = "--device cpu works everywhere"


def form_on(device: torch.device, form: Form | None = None) -> Form:
    """The form of modules on a device, unless given."""
    return form or ("cpu" if device.type == "cpu" else "cuda")


def usable_device(device: torch.device, *, fall_back: bool) -> torch.device:
    """The device, if the engine can run on it; else the CPU with ``fall_back``. Raises NeedsPackage."""
    if device.type == "cpu":
        return device
    try:
        check_gpu()
    except NeedsPackage as error:
        if not fall_back:
            raise
        _log.warning("the GPU is not used: %s", error)
        return torch.device("cpu")
    return device


@functools.cache
def check_gpu() -> None:
    """Raises NeedsPackage: the GPU has no bfloat16, or Triton is missing or cannot compile a kernel for it."""
    try:
        capability = torch.cuda.get_device_capability()
    except RuntimeError as error:
        raise NeedsPackage(f"the GPU does not answer: {error!s:.200}", _ON_CPU) from error
    if capability < _MIN_CAPABILITY:
        name, version = torch.cuda.get_device_name(), ".".join(map(str, capability))
        raise NeedsPackage(
            f"{name} has compute capability {version} and no bfloat16", f"8.0 or newer is needed; {_ON_CPU}"
        )
    try:
        from studio.engine.nets.cuda.kernels import square_relu

        numbers = torch.tensor([-1.0, 2.0], device="cuda")
        square_relu[(1,)](numbers, 2, 16)
        assert numbers.tolist() == [0.0, 4.0], "a kernel computes something else"
    except Exception as error:  # of the compiler, of the driver or of the import
        reason = escape_unprintable(f"{type(error).__name__}: {error!s:.300}")
        raise NeedsPackage(
            f"Triton cannot compile kernels here ({reason})", f"it needs a C compiler; {_ON_CPU}"
        ) from error


def free_bytes(device: torch.device) -> int:
    """Bytes of a GPU that new tensors can take, those that torch keeps for itself included."""
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def check_memory(device: torch.device, slots: int, slot_bytes: int) -> None:
    """Raises NoMemory unless so many slots fit into a GPU's free memory."""
    if device.type != "cuda":
        return
    free = free_bytes(device) - _RESERVED_BYTES
    if slots * slot_bytes > free:
        fitting = max(0, free // slot_bytes - 1)
        raise NoMemory(
            f"this GPU has {free / 2**30:.1f} GiB for streams, and one takes {slot_bytes / 2**20:.0f} MiB: "
            f"{slots} do not fit",
            f"choose at most {fitting} concurrency slots" if fitting else _ON_CPU,
        )


def tensor_bytes(value: Any) -> int:
    """Bytes of all tensors that an object holds, in lists and in objects of this package as well."""
    return sum(one.nbytes for one in {id(one): one for one in _tensors(value)}.values())


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif type(value).__module__.startswith("studio."):
        yield from _tensors([*vars(value).values()])
