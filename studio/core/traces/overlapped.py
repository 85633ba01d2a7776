"""A port of engines that can vocode a trace's frames anew: each segment by itself, spliced and cross-faded."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from studio.core.traces.forced import always
from studio.core.traces.trace import Trace

SOURCE = "overlapped"  # in such a trace's meta: nobody spoke it so


@runtime_checkable
class Overlaps(Protocol):
    """An engine that knows the vocoders of its voices."""

    def overlap(self, trace: Trace, wanted: Callable[[], bool] = always) -> Trace:
        """The same utterance, its frames vocoded a segment at a time and cross-faded, in place of causally.

        Args:
            wanted: asked before each segment; it gives up once nobody waits.

        Raises:
            BadVoice: the voice is not here, or has other weights than when the trace was made.
            BadFile: the trace holds no frames, no segments, or too much sound.
            Unable: its vocoder is none that could be causal.
            Busy: another one is being computed.
            Left: ``wanted`` said so.
        """
        ...
