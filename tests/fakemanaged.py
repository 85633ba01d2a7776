"""The fake engine with systems that the owner may change."""

from typing import Any

from fakes import FakeEngine

from studio.systems.managed import ManagedEngine


class ManagedFake(ManagedEngine):
    """As ``studio app`` opens it, over the fake engine; what that cannot do is no method here either."""

    recomputer: Any = None
    teacher_forcing_cards: Any = None
    compute_attention: Any = None
    teacher_force: Any = None
    stuck: Any = None
    speakers: Any = None

    def __init__(self) -> None:
        super().__init__(FakeEngine(), {})
