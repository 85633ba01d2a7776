"""Third-party systems of a server, as its owner lists and changes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class SystemState:
    """A system and its statistics since the server began.

    Attributes:
        address: without a query; empty for programs, whose command is not shown.
        is_removable: whether it was declared in the file that the server may change.
        last_failure: reason of the last failed utterance (else empty); ``failed_s_ago``: its age in s (else None).
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
    """Measurements of a spoken test sentence; ``sources`` are those of its word times."""

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
        """Kinds that ``add_system`` accepts: those with an address."""
        ...

    def add_system(self, name: str, values: Mapping[str, Any]) -> None:
        """Declare a system with an address, and open it. Raises BadOption."""
        ...

    def remove_system(self, name: str) -> None:
        """Close a system and remove its declaration. Raises BadOption."""
        ...

    def test_system(self, name: str) -> SystemTest:
        """Speak a sentence. Raises BadOption, StudioError: why it does not speak."""
        ...
