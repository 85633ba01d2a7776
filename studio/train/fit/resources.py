"""What a training needs of the machine: exclusive use of its state folder, memory, and a number format."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from studio.core.errors import BadFile, BadOption

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None

WEIGHT_BYTES = 4  # per parameter: float32
TRAINED_BYTES = 20  # per parameter, with the working copy, both gradients and the optimiser state, at most
_MAX_PARAMETERS = 2_000_000_000
_MEMINFO = Path("/proc/meminfo")


@contextmanager
def lock_state_folder(state: Path) -> Generator[None]:
    """Create a state folder if needed, and lock it: two trainings would overwrite each other's checkpoints.

    The system releases the lock however the process ends.

    Raises:
        BadFile: another training uses the folder.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / ".training").open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadFile(
                    f"another training is at work in {state}", "wait until it has ended, or name another --state"
                ) from error
        yield


def training_dtype(device: torch.device) -> torch.dtype:
    """bfloat16; float32 on a CPU without AVX-512, where bfloat16 products are fifty times slower (docs/adr/0022)."""
    if device.type == "cpu" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return torch.float32
    return torch.bfloat16


def check_memory(net: nn.Module, parameter_bytes: int) -> None:
    """Raises BadOption if a net, which may be on the device ``meta``, is too large for this machine."""
    count = sum(parameter.numel() for parameter in net.parameters())
    if count > _MAX_PARAMETERS:
        raise BadOption(
            f"the net would have {count:,} parameters",
            f"it may have {_MAX_PARAMETERS:,}: write smaller sizes into [fit.config]",
        )
    free = _free_bytes()
    if free is not None and count * parameter_bytes > free:
        raise BadOption(
            f"the net's {count:,} parameters need {count * parameter_bytes / 1e6:,.1f} MB of memory",
            f"{free / 1e6:,.1f} MB are free: write smaller sizes into [fit.config], or end other programs",
        )


def _free_bytes() -> int | None:
    """Available memory; None where the system does not report it."""
    text = _MEMINFO.read_text(encoding="ascii") if _MEMINFO.is_file() else ""
    lines = [line.split() for line in text.splitlines() if line.startswith("MemAvailable")]
    return 1024 * int(lines[0][1]) if lines else None
