"""Weight files: what a training writes, and what it is initialised from."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine.nets.weights import dequantise

_MIN_SHARED = 0.1  # share of the parameters: less is only tables that all families have


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights of a training or a voice, in any number format. Raises BadFile."""
    try:
        return dequantise(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise BadFile(f"{path} is no file of weights ({error})", "give one that a training or a voice wrote") from error


def load_initial_weights(
    net: nn.Module, path: Path, may_lack: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> None:
    """Load a file's weights into a net.

    Args:
        may_lack: prefixes of names that the file may lack: layers initialised as the identity.
        ignored: names that are not loaded and may be missing.

    Raises:
        BadFile: not a weight file, or of another net.
    """
    given, own = read_weights(path), net.state_dict()
    weights = {name: tensor for name, tensor in given.items() if name not in ignored}
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
        BadFile: not a weight file, or next to nothing matches.
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
