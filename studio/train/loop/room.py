"""Whether a machine has room for a net: counted before any of it is made."""

from pathlib import Path

from torch import nn

from studio.core.errors import BadOption

MADE_BYTES = 4  # of a parameter: float32
TRAINED_BYTES = 20  # with its working copy, the gradients of both and what the optimisers keep, at most
_MOST_PARAMETERS = 2_000_000_000
_MEMINFO = Path("/proc/meminfo")


def check_room(net: nn.Module, parameter_bytes: int) -> None:
    """Raises BadOption where a net, which may be on the device ``meta``, is larger than can be trained here."""
    count = sum(parameter.numel() for parameter in net.parameters())
    if count > _MOST_PARAMETERS:
        raise BadOption(
            f"the net would have {count:,} parameters",
            f"it may have {_MOST_PARAMETERS:,}: write smaller sizes into [fit.config]",
        )
    free = _free_bytes()
    if free is not None and count * parameter_bytes > free:
        raise BadOption(
            f"the net's {count:,} parameters need {count * parameter_bytes / 1e6:,.1f} MB of memory",
            f"{free / 1e6:,.1f} MB are free: write smaller sizes into [fit.config], or end other programs",
        )


def _free_bytes() -> int | None:
    """Memory that programs can still have; None where a system does not tell."""
    text = _MEMINFO.read_text(encoding="ascii") if _MEMINFO.is_file() else ""
    lines = [line.split() for line in text.splitlines() if line.startswith("MemAvailable")]
    return 1024 * int(lines[0][1]) if lines else None
