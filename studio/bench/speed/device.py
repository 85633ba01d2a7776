"""Timing of work on a device, and its copy bandwidth. This module needs torch only."""

import time
from collections.abc import Callable

import torch

_COPIED_BYTES = 256 * 2**20  # far larger than any cache
_COPIES = 7


def settle(device: torch.device) -> None:
    """Wait for all work on a device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall time of ``work``, on the device included."""
    settle(device)
    began_s = time.perf_counter()
    work()
    settle(device)
    return time.perf_counter() - began_s


def copy_bandwidth(device: torch.device, copied_bytes: int = _COPIED_BYTES) -> float:
    """Copy bandwidth in bytes a second, reads and writes counted, the best of several runs."""
    source = torch.ones(copied_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2.0 * copied_bytes / min(seconds(lambda: target.copy_(source), device) for _ in range(_COPIES))
