"""How often something may happen."""

import time
from dataclasses import dataclass, field


@dataclass
class Bucket:
    """A token bucket: ``per_s`` events a second, as many at once."""

    per_s: float
    level: float = field(init=False)
    filled_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.filled_s = self.per_s, time.monotonic()

    def take(self) -> bool:
        """Whether one more event is within the rate."""
        now_s = time.monotonic()
        self.level = min(self.per_s, self.level + (now_s - self.filled_s) * self.per_s)
        self.filled_s = now_s
        self.level -= 1.0
        return self.level >= 0.0
