"""Weights from disk: safetensors only, checked against the card before a byte of them is used."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from studio.core.cards import MOST_WEIGHTS_BYTES, Card, find_file, sha256_of
from studio.core.errors import BadVoice
from studio.engine.alphabets import dmel
from studio.engine.weights.eightbit import restored

_FETCH = "fetch the voice again, or check out assets/voices from the repository"
_SPARE_NUMBERS = 100_000  # of parameters that are registered twice, or kept in no file


@contextmanager
def no_larger_than(folder: Path, card: Card, name: str) -> Generator[None]:
    """Whatever net is built here may hold no more numbers than the file can that its weights are read from.

    A card says how many layers there are; what it says is not believed before there is memory for it.

    Raises:
        BadVoice: it would be larger, or the file is missing or another one.
    """
    bytes_there = weights_file(folder, card, name).stat().st_size if name in card.sha256 else 0
    left = _SPARE_NUMBERS + bytes_there  # in eight bits a number takes a byte

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal left
        left -= 0 if parameter is None else parameter.numel()
        if left < 0:
            raise BadVoice(f"the card of {card.name!r} asks for more numbers than its files hold", _FETCH)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def load_weights(net: nn.Module, folder: Path, card: Card, name: str) -> None:
    """Load ``folder/name`` into a net, strictly; where it is missing, the same file of a voice beside this one.

    Voices of one folder thus share a vocoder without a copy of it for each.

    Raises:
        BadVoice: the file is missing, is not what the card names, or does not fit the net.
    """
    path = weights_file(folder, card, name)
    try:
        tensors = restored(load_file(path))
        strange = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
        if strange:
            raise BadVoice(f"{path} holds numbers that are none, in {strange[0]:.80}", _FETCH)
        _check_kinds(net, tensors, path)
        net.load_state_dict(tensors, strict=True)
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise BadVoice(f"{path} does not fit the card's configuration: {error}", _FETCH) from error


def _check_kinds(net: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raises BadVoice: whole numbers stand where there are none, or silence is no frame."""
    wanted = {name: one.dtype for name, one in net.state_dict().items()}
    for name, tensor in tensors.items():
        dtype = wanted.get(name, tensor.dtype)
        if dtype != tensor.dtype and not (dtype.is_floating_point and tensor.dtype.is_floating_point):
            raise BadVoice(f"{path} has numbers of another kind in {name:.80}: {tensor.dtype}, not {dtype}", _FETCH)
    if (silence := tensors.get("silence")) is not None and int(silence.max()) >= dmel.LEVELS:
        raise BadVoice(f"the silence in {path} has a level of {int(silence.max())}", f"levels are below {dmel.LEVELS}")


def weights_file(folder: Path, card: Card, name: str) -> Path:
    """A file, as its card names it. Raises BadVoice."""
    path = find_file(folder, card, name)
    if path is None:
        raise BadVoice(f"voice {card.name!r} has no file {name} in {folder}", _FETCH)
    if path.stat().st_size > MOST_WEIGHTS_BYTES:
        raise BadVoice(f"{path} is larger than {MOST_WEIGHTS_BYTES:,} bytes, as no voice's file is", _FETCH)
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise BadVoice(f"{path} cannot be read: {error.strerror}", _FETCH) from error
    if card.sha256.get(name) != digest:
        raise BadVoice(f"{path} is not the file that its card names: the sha256 differs", _FETCH)
    return path
