"""Words of a stretch of speech whose inner boundaries nobody knows: frames shared out by characters."""

from collections.abc import Sequence

import numpy as np

from studio.core.events import Event, WordEnd, WordStart
from studio.core.time import TimeBase


def shared_out(time_base: TimeBase, words: Sequence[int], texts: Sequence[str], first: int, frames: int) -> list[Event]:
    """Word events of a stretch that has ended, but its first word's start.

    Starts and ends inside it are estimates, in the proportion of the words' characters; its end is told by the net.

    Args:
        words: indices of the spoken words; ``texts`` are their characters.
        first, frames: the stretch's first frame, and how many it has.
    """
    sizes = np.cumsum([0] + [len(text) + 1 for text in texts])
    ends = np.rint(sizes / sizes[-1] * frames).astype(int) + first
    events: list[Event] = []
    for k, i in enumerate(words):
        if k > 0:
            events.append(WordStart(i=i, sample=time_base.samples(int(ends[k])), source="estimate"))
        source = "eos" if k + 1 == len(words) else "estimate"
        events.append(WordEnd(i=i, sample=time_base.samples(int(ends[k + 1])), source=source))
    return events
