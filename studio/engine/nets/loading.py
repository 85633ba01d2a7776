"""Nets as read from cards: configurations, with every size range-checked before anything is built, and weights.

Weights are safetensors, verified against the card before use, optionally with int8 matrices.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, get_type_hints

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from studio.core.cards import MAX_WEIGHTS_BYTES, Card, find_file, sha256_of
from studio.core.checks import FLAG, Rule, check_keys, check_values, list_of, number, whole
from studio.core.errors import BadOption, BadVoice
from studio.engine.tokenizers import dmel

# Range of a whole number by the suffix of its name; the first match counts.
_WHOLE = (
    (("layers", "blocks", "convolutions", "speakers"), (1, 256)),
    (("longest_word_frames",), (1, 1_000)),
    (("_frames", "_words"), (1, 10_000)),
    (("_tokens",), (1, 20_000)),
    (("",), (1, 200_000)),
)
_MAX_DERIVED = 4_000_000  # the paper's VocStream has 2.9 million


@dataclass(frozen=True)
class NetConfig:
    """Base of all configurations of nets and vocoders.

    Attributes:
        BOUNDS: (minimum, maximum) of fields that their name does not determine.
        MAX_LIST: length of a listed size.
    """

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {}
    MAX_LIST: ClassVar[int] = 16

    def __post_init__(self) -> None:
        rules = {name: self._rule(name, hint) for name, hint in get_type_hints(type(self)).items() if name.islower()}
        check_values(vars(self), rules, "{} cannot be")
        kept_frames, context = (getattr(self, name, 0) for name in ("kept_frames", "context_frames"))
        if kept_frames > context:
            raise BadOption("kept_frames is more than context_frames", "a drop leaves a part of the context")
        if (derived := self.derived_numbers()) > _MAX_DERIVED:
            raise BadOption(
                f"these sizes together make {derived:.3g} numbers that no file holds", f"{_MAX_DERIVED:,} are the most"
            )

    def derived_numbers(self) -> int:
        """Numbers of state and computed tables, which no weight file bounds."""
        return 0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Build from a card or a recipe. Raises BadOption: a key is unknown or missing, or a value is out of range."""
        check_keys(cls, values, "the configuration")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})

    @classmethod
    def pick(cls, name: str, sizes: Mapping[str, Self]) -> Self:
        """The configuration of a name. Raises BadOption."""
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]

    def to_dict(self) -> dict[str, Any]:
        """As stored on a card."""
        return asdict(self)

    def _rule(self, name: str, hint: Any) -> Rule:
        if hint is bool:
            return FLAG
        if hint is float:
            return number(*self.BOUNDS.get(name, (0.0, 0.99) if name.endswith("dropout") else (-1e6, 1e6)))
        size = whole(*self.BOUNDS.get(name) or next(bounds for ends, bounds in _WHOLE if name.endswith(ends)))
        return size if hint is int else list_of(size, 1, self.MAX_LIST)


SCALE = ".row_scale"  # suffix of the scales of an int8 tensor
_LARGEST = 127
_MIN_NUMBERS = 4096  # smaller tensors gain nothing


def quantise_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors for a file: matrices [R, ...] as int8 with a scale float32 [R] each, others in bfloat16.

    A net computes in the number format of its card for any file. Half the size of bfloat16.
    """
    quantised: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            quantised[name] = tensor
        elif tensor.ndim < 2 or tensor.numel() < _MIN_NUMBERS:
            quantised[name] = tensor.bfloat16()
        else:
            rows = tensor.float().flatten(1)
            scale = rows.abs().amax(1).clamp_min(1e-12) / _LARGEST
            quantised[name] = (rows / scale[:, None]).round().to(torch.int8).view_as(tensor)
            quantised[name + SCALE] = scale
    return quantised


def dequantise(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a file as float32.

    Raises:
        ValueError: an int8 tensor has no scale that fits, or a scale has no tensor.
    """
    floats: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE):
            if tensors.get(name.removesuffix(SCALE), tensor).dtype != torch.int8:
                raise ValueError(f"{name:.80} has no int8 tensor")
        elif tensor.dtype == torch.int8:
            scale = tensors.get(name + SCALE)
            if scale is None or tensor.ndim < 2 or scale.shape != tensor.shape[:1]:
                raise ValueError(f"{name:.80} has no scale for each of its rows")
            floats[name] = tensor.float() * scale.float().view(-1, *[1] * (tensor.ndim - 1))
        else:
            floats[name] = tensor.float() if tensor.is_floating_point() else tensor
    return floats


_FETCH = "fetch the voice again, or check out assets/voices from the repository"
_FLOATS = ("F32", "BF16", "F16")
_SHOWN_NAMES = 5  # in an error
_SPARE_NUMBERS = 100_000  # parameters that are registered twice, or not stored


@contextmanager
def parameter_limit(folder: Path, card: Card, name: str) -> Generator[None]:
    """Limit the parameters of nets built here to what the weight file can hold.

    Sizes on a card are not trusted: a damaged one must not allocate all memory.

    Raises:
        BadVoice: the net is larger, or the file is missing or has another hash.
    """
    file_bytes = weights_file(folder, card, name).stat().st_size if name in card.sha256 else 0
    left = _SPARE_NUMBERS + file_bytes  # an int8 number takes a byte

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
    """Load ``folder/name`` into a net, strictly; where it is missing, the same file of a sibling voice.

    So voices of one folder can share a vocoder.

    Raises:
        BadVoice: the file is missing, has another hash, or does not fit the net.
    """
    from safetensors import SafetensorError  # absent on bare machines, which run random weights
    from safetensors.torch import load_file

    path = weights_file(folder, card, name)
    try:
        tensors = dequantise(load_file(path))
        not_finite = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
        if not_finite:
            raise BadVoice(f"{path} holds numbers that are not finite, in {not_finite[0]:.80}", _FETCH)
        _check_dtypes(net, tensors, path)
        net.load_state_dict(tensors, strict=True)
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise BadVoice(f"{path} does not fit the card's configuration: {error}", _FETCH) from error


def _check_dtypes(net: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raises BadVoice where a dtype is wrong or the silence prompt is no frame."""
    expected = {name: one.dtype for name, one in net.state_dict().items()}
    for name, tensor in tensors.items():
        dtype = expected.get(name, tensor.dtype)
        if dtype != tensor.dtype and not (dtype.is_floating_point and tensor.dtype.is_floating_point):
            raise BadVoice(f"{path} has numbers of another kind in {name:.80}: {tensor.dtype}, not {dtype}", _FETCH)
    if (silence := tensors.get("silence")) is not None and int(silence.max()) >= dmel.LEVELS:
        raise BadVoice(f"the silence in {path} has a level of {int(silence.max())}", f"levels are below {dmel.LEVELS}")


def load_published(
    net: nn.Module, path: Path, renamed: Mapping[str, str], dtype: torch.dtype | None = torch.float32
) -> None:
    """Load a foreign checkpoint into a net on the meta device, as ``dtype``, or as stored if that is None.

    Names, shapes and dtypes are compared with the file's header before a tensor is read.

    Args:
        renamed: endings of names in the file, and what they are in the net.

    Raises:
        BadVoice: the file is missing or no safetensors file, or a parameter is missing, unknown, of another shape, no
            floating-point number or not finite.
    """
    from safetensors import SafetensorError, safe_open

    restore = "fetch the file again, or give the configuration that belongs to it"
    if not path.is_file() or path.stat().st_size > MAX_WEIGHTS_BYTES:
        raise BadVoice(f"{path} is no file of at most {MAX_WEIGHTS_BYTES:,} bytes", restore)
    expected = {name: list(one.shape) for name, one in net.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            names = {_rename(name, renamed): name for name in file.keys()}  # noqa: SIM118 - it is no mapping
            _check_names(set(expected), set(names), path, restore)
            for name, shape in expected.items():
                part = file.get_slice(names[name])
                if part.get_shape() != shape:
                    raise BadVoice(f"{names[name]} in {path} has the shape {part.get_shape()}, not {shape}", restore)
                if part.get_dtype() not in _FLOATS:
                    raise BadVoice(
                        f"{names[name]} in {path} is {part.get_dtype()}, not one of {', '.join(_FLOATS)}", restore
                    )
            stored = {name: file.get_tensor(names[name]) for name in expected}
            tensors = {name: one.to(dtype or one.dtype) for name, one in stored.items()}
    except (SafetensorError, OSError) as error:
        raise BadVoice(f"{path} cannot be read as safetensors: {error}", restore) from error
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise BadVoice(f"{names[name]} in {path} holds numbers that are not finite", restore)
    net.load_state_dict(tensors, assign=True)


def _rename(name: str, renamed: Mapping[str, str]) -> str:
    for old, new in renamed.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _check_names(expected: set[str], names_in_file: set[str], path: Path, restore: str) -> None:
    """Raises BadVoice, with the first missing or unknown names."""
    for problem, names in (("lacks", expected - names_in_file), ("has unknown", names_in_file - expected)):
        if names:
            listed = ", ".join(f"{name:.80}" for name in sorted(names)[:_SHOWN_NAMES])
            more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
            raise BadVoice(f"{path} {problem} {listed}{more}", restore)


def weights_file(folder: Path, card: Card, name: str) -> Path:
    """The path of a verified file. Raises BadVoice."""
    path = find_file(folder, card, name)
    if path is None:
        raise BadVoice(f"voice {card.name!r} has no file {name} in {folder}", _FETCH)
    if path.stat().st_size > MAX_WEIGHTS_BYTES:
        raise BadVoice(f"{path} is larger than {MAX_WEIGHTS_BYTES:,} bytes, the limit", _FETCH)
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise BadVoice(f"{path} cannot be read: {error.strerror}", _FETCH) from error
    if card.sha256.get(name) != digest:
        raise BadVoice(f"{path} is not the file that its card names: the sha256 differs", _FETCH)
    return path
