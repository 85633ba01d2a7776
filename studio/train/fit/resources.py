"""Files and memory of a training: exclusive use of its state folder, weight files, memory, and number format."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from studio.core.errors import BadFile, BadOption, bad_file
from studio.engine.nets.loading import dequantise

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


_MIN_SHARED = 0.1  # share of the parameters; a smaller share is only the tables of every family


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights of a training or a voice, in any number format. Raises BadFile."""
    do = "give one that a training or a voice wrote"
    with bad_file(f"{path} is no file of weights", do, SafetensorError, ValueError):
        return dequantise(load_file(path))


def load_initial_weights(
    net: nn.Module, path: Path, may_lack: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> None:
    """Load a file's weights into a net. Raises BadFile.

    Args:
        may_lack: prefixes of names that the file may lack: layers initialised as the identity.
        ignored: names that are not loaded and may be missing.
    """
    tensors, own = read_weights(path), net.state_dict()
    weights = {name: tensor for name, tensor in tensors.items() if name not in ignored}
    there = {*weights, *ignored}
    lacking = [name for name in own if name not in there and not name.startswith(may_lack)]
    other = [name for name, tensor in weights.items() if name not in own or not _is_like(tensor, own[name])]
    if lacking or other:
        raise BadFile(
            f"{path} does not fit this net: {', '.join([*lacking, *other][:3])}",
            "give weights of the same kind, widths and speakers, with as many layers or fewer",
        )
    net.load_state_dict(weights, strict=False)


def _is_like(one: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape, and both are floating-point or neither is."""
    return one.shape == other.shape and one.is_floating_point() == other.is_floating_point()


def load_shared_weights(net: nn.Module, path: Path) -> list[str]:
    """Load what a net shares with another family's: tensors of the same name and shape. Returns their names.

    Raises:
        BadFile: not a weight file, or almost nothing matches.
    """
    weights = read_weights(path)
    own = {name: parameter.shape for name, parameter in net.named_parameters()}
    shared = {name: tensor for name, tensor in weights.items() if own.get(name) == tensor.shape}
    if sum(tensor.numel() for tensor in shared.values()) < _MIN_SHARED * sum(size.numel() for size in own.values()):
        raise BadFile(f"{path} has no layer of this net's sizes", "give weights of the same widths")
    net.load_state_dict(shared, strict=False)
    return sorted(shared)


def write_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a weight file atomically, readable by everyone."""
    part = path.with_suffix(".part")
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, part)
    part.chmod(0o644)  # safetensors creates files that only the owner can read
    part.rename(path)


def check_finite(parameters: Iterable[Tensor], state: Path, step: int) -> None:
    """Raises BadFile where a weight is not finite."""
    if not are_finite(parameters):
        raise diverged(state, f"a weight is not finite after {step} steps")


def are_finite(parameters: Iterable[Tensor]) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in parameters)


def diverged(state: Path, why: str) -> BadFile:
    """The error of a training that has diverged."""
    return BadFile(
        f"the training has diverged: {why}",
        f"{state} keeps the last checkpoint; lower the peak_rate (learning_rate of a vocoder)",
    )


def save_checkpoint(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint atomically."""
    part = path.with_suffix(".part")
    torch.save(checkpoint, part)
    part.rename(path)


def load_checkpoint(path: Path, device: torch.device, restore: Callable[[dict[str, Any]], None]) -> None:
    """Resume from a checkpoint. Raises BadFile where it cannot be read, or ``restore`` raises any error."""
    try:
        restore(torch.load(path, map_location=device, weights_only=True))
    except Exception as error:
        raise BadFile(
            f"{path} is damaged, or of another recipe: {' '.join(str(error).split()):.200}",
            "remove it, or name another folder with --state",
        ) from error
