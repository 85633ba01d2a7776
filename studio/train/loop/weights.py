"""Files of weights: those that a training writes, and those that it begins from instead of chance."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine.weights.eightbit import restored

_LEAST_SHARED = 0.1  # of a net's numbers: tables that all families have alike are no layer of its own


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights that a training or a voice wrote, whatever their number format. Raises BadFile."""
    try:
        return restored(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise BadFile(f"{path} is no file of weights ({error})", "give one that a training or a voice wrote") from error


def begin_from(net: nn.Module, path: Path, may_lack: tuple[str, ...] = (), passed_over: tuple[str, ...] = ()) -> None:
    """Put a file's weights into a net, whatever their number format.

    Args:
        may_lack: names by their first letters that the file may lack: layers that begin as the identity.
        passed_over: names of what is not taken from the file, and need not be there.

    Raises:
        BadFile: it is no file of weights, or not of this net's.
    """
    given, own = read_weights(path), net.state_dict()
    weights = {name: tensor for name, tensor in given.items() if name not in passed_over}
    there = {*weights, *passed_over}
    lacking = [name for name in own if name not in there and not name.startswith(may_lack)]
    other = [name for name, tensor in weights.items() if name not in own or not _is_like(tensor, own[name])]
    if lacking or other:
        raise BadFile(
            f"{path} does not fit this net: {', '.join([*lacking, *other][:3])}",
            "give weights of the same kind, widths and speakers, with as many layers or fewer",
        )
    net.load_state_dict(weights, strict=False)


def _is_like(one: Tensor, other: Tensor) -> bool:
    """Whether both have one shape, and both numbers or both whole ones."""
    return one.shape == other.shape and one.is_floating_point() == other.is_floating_point()


def begin_like(net: nn.Module, path: Path) -> list[str]:
    """Put into a net what it has in common with another family's: every tensor of the same name and shape.

    The rest begins by chance, or as the identity. Answers the names.

    Raises:
        BadFile: it is no file of weights, or next to nothing of it fits.
    """
    weights = read_weights(path)
    own = {name: parameter.shape for name, parameter in net.named_parameters()}
    shared = {name: tensor for name, tensor in weights.items() if own.get(name) == tensor.shape}
    if sum(tensor.numel() for tensor in shared.values()) < _LEAST_SHARED * sum(size.numel() for size in own.values()):
        raise BadFile(f"{path} has no layer of this net's sizes", "give weights of the same widths")
    net.load_state_dict(shared, strict=False)
    return sorted(shared)


def write_weights(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a file of weights whole or not at all, for everybody to read."""
    part = path.with_suffix(".part")
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, part)
    part.chmod(0o644)  # safetensors writes for its owner alone
    part.rename(path)
