"""Configurations of nets, as read from cards and recipes: every size is range-checked before anything is built."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self, get_type_hints

from studio.core.checks import escape_unprintable
from studio.core.errors import BadOption

# Range of a whole number by the suffix of its name; the first match counts.
_WHOLE = (
    (("layers", "blocks", "convolutions", "speakers"), (1, 256)),
    (("longest_word_frames",), (1, 1_000)),
    (("_frames", "_words"), (1, 10_000)),
    (("_tokens",), (1, 20_000)),
    (("",), (1, 200_000)),
)
_MAX_LIST = 16  # length of a listed size
_MAX_DERIVED = 4_000_000  # the paper's VocStream has 2.9 million


@dataclass(frozen=True)
class NetConfig:
    """Base of all configurations of nets and vocoders.

    Attributes:
        BOUNDS: (minimum, maximum) of fields that their name does not determine.
    """

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for one in fields(self):
            self._check(one.name, hints[one.name], getattr(self, one.name))
        kept, context = (getattr(self, name, 0) for name in ("kept_frames", "context_frames"))
        if kept > context:
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
        known = {one.name for one in fields(cls)}
        if unknown := sorted({*values} - known):
            names = escape_unprintable(", ".join(unknown)[:200])
            raise BadOption(f"unknown keys: {names}", f"known are {', '.join(sorted(known))}")
        try:
            return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
        except TypeError as error:
            raise BadOption(f"keys are missing: {error!s:.200}", f"known are {', '.join(sorted(known))}") from error

    def to_dict(self) -> dict[str, Any]:
        """As stored on a card."""
        return asdict(self)

    def _check(self, name: str, hint: Any, value: Any) -> None:
        if hint is bool:
            if type(value) is not bool:
                raise BadOption(f"{name} cannot be {value!r:.40}", "it is true or false")
            return
        if hint in (int, float):
            self._check_number(name, hint, value)
            return
        if not isinstance(value, tuple) or not 0 < len(value) <= _MAX_LIST:
            raise BadOption(f"{name} cannot be {value!r:.40}", f"it lists up to {_MAX_LIST} whole numbers")
        for one in value:
            self._check_number(name, int, one)

    def _check_number(self, name: str, kind: type, value: Any) -> None:
        is_whole = kind is int
        fits = type(value) is int if is_whole else type(value) in (int, float)
        low, high = self._bounds(name, is_whole=is_whole)
        if not fits or not low <= value <= high:
            text = f"{value!r:.40}" if type(value) is not int or abs(value) < 10**18 else "a number that long"
            kind_name = "a whole number" if is_whole else "a number"
            raise BadOption(f"{name} cannot be {text}", f"it is {kind_name} from {low:,} to {high:,}")

    def _bounds(self, name: str, *, is_whole: bool) -> tuple[float, float]:
        if name in self.BOUNDS:
            return self.BOUNDS[name]
        if not is_whole:
            return (0.0, 0.99) if name.endswith("dropout") else (-1e6, 1e6)
        return next(bounds for ends, bounds in _WHOLE if name.endswith(ends))
