"""Random cancels for tests of interruption: texts, played samples, and the words that were heard by then.

``STUDIO_CANCELS`` sets the number of cancels of each door: ``make cancels`` tries 1,000.
"""

import os
import random
from collections.abc import Iterator

from studio.core.ports import Engine, SpeakRequest
from studio.core.speaking import speak_once

CANCELS = int(os.environ.get("STUDIO_CANCELS", "10"))
_TEXTS = 60
_WORDS = ("Alpha", "beta,", "a", "gamma", "delta.", "I", "epsilon", "zeta!")
_AHEAD = 5  # words behind the last one that is played: the voice waits for two, and a client reads one more


def random_cancels(
    engine: Engine, voice: str, seed: int, *, apart: int = 0, count: int = CANCELS
) -> Iterator[tuple[str, int, list[int]]]:
    """Text, played sample, and the true ends of its words in samples.

    Args:
        apart: no played sample is nearer to an end, for protocols that round times. Otherwise some are the end itself.
    """
    draw = random.Random(seed)
    texts = [" ".join(draw.choice(_WORDS) for _ in range(draw.randrange(7, 12))) for _ in range(_TEXTS)]
    truth: dict[str, list[int]] = {}
    while count:
        text = draw.choice(texts)
        if text not in truth:
            trace = speak_once(engine, SpeakRequest(voice), text)
            truth[text] = [one.end for one in trace.words() if one.end is not None]
            assert len(truth[text]) == len(text.split())
        ends = truth[text]
        played = draw.randrange(1, ends[-_AHEAD])
        if not apart and draw.random() < 0.2:
            played = draw.choice([*ends[: -_AHEAD + 1], played]) + draw.randrange(-1, 2)
        if all(abs(played - end) >= apart for end in ends):
            count -= 1
            yield text, max(1, played), ends


def heard_words(ends: list[int], played: int) -> int:
    """How many words had ended where so many samples were played."""
    return sum(end <= played for end in ends)
