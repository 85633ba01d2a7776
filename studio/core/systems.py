"""Other people's systems as the owner of a server sees and changes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class SystemState:
    """A system and how it fared since the server began.

    Attributes:
        address: without a query; empty for programs, whose command is not shown.
        is_removable: whether it was declared in the file that the server may change.
        last_failure: why its last failed utterance failed, and ``failed_s_ago`` when; empty, and None.
    """

    name: str
    title: str
    kind: str
    address: str
    notes: str
    is_removable: bool
    speaking: int
    slots: int
    opened: int
    failed: int
    last_failure: str
    failed_s_ago: float | None


@dataclass(frozen=True)
class SystemTest:
    """How a system spoke a sentence; ``sources`` are those of its word times."""

    first_ms: float
    length_s: float
    sources: tuple[str, ...]


@runtime_checkable
class SupportsSystems(Protocol):
    """An engine whose systems the owner may change. All methods block."""

    def systems(self) -> Sequence[SystemState]:
        """All systems."""
        ...

    def system_kinds(self) -> Sequence[str]:
        """Kinds that ``add_system`` takes: those with an address."""
        ...

    def add_system(self, name: str, values: Mapping[str, Any]) -> None:
        """Declare a system of an address, and open it. Raises BadOption."""
        ...

    def remove_system(self, name: str) -> None:
        """Close a system and forget it. Raises BadOption."""
        ...

    def test_system(self, name: str) -> SystemTest:
        """Speak a sentence. Raises BadOption, StudioError: why it does not speak."""
        ...
