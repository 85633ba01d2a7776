"""SpeakStream's feeding policy and symbols (paper 000, section III.C)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from studio.core.errors import BadOption
from studio.core.options import OptionSpec, merge_options
from studio.text.inline_phonemes import without_pronunciation

LARGEST_WINDOW = 6
SCHEMES = ("S1", "S2")


@dataclass(frozen=True)
class SpeakStreamOptions:
    """Windows: S1 repeats the look-ahead words in every window, S2 feeds each word once.

    A segment sees ``m`` words (text window) and speaks ``n`` of them (speech hop), 1 <= n <= m <= 6.
    """

    scheme: str = "S1"
    m: int = 3
    n: int = 1

    def __post_init__(self) -> None:
        merge_options(OPTION_SPECS, vars(self), {})
        if self.n > self.m:
            raise BadOption(
                f"hop n = {self.n} is more than window m = {self.m}",
                f"1 <= n <= m <= {LARGEST_WINDOW}: a segment cannot speak more words than it sees",
            )

    @property
    def look_ahead_words(self) -> int:
        """Words that the first word of a segment waits for."""
        return self.m - 1


OPTION_SPECS = (
    OptionSpec(
        "scheme", "choice", "S1", "Scheme", "S1 repeats the look-ahead words, S2 feeds each once", choices=SCHEMES
    ),
    OptionSpec("m", "int", 3, "Look-ahead", "words read before speaking", low=1, high=LARGEST_WINDOW),
    OptionSpec(
        "n", "int", 1, "Words per step", "words spoken before it reads on, at most m", low=1, high=LARGEST_WINDOW
    ),
)


@dataclass(frozen=True)
class SegmentPlan:
    """One segment, by indices of spoken words from 0.

    Attributes:
        feed: words whose characters are fed (S2 may feed none).
        close: the text's end token follows them.
        speak: words spoken.
        look_ahead: number of words seen beyond the spoken ones.
    """

    scheme: str
    feed: range
    close: bool
    speak: range
    look_ahead: int

    @property
    def seen(self) -> range:
        """Words in view that were not spoken before, including those fed by an earlier window."""
        return range(self.speak.start, self.speak.stop + self.look_ahead)


class FeedingCounters(NamedTuple):
    """State of the policy: words spoken, words fed, whether the text's end was fed."""

    spoken: int
    fed: int
    closed: bool


class FeedingPolicy:
    """Plans segments from two counters: s words spoken and f words fed.

    S1 feeds w_{s+1} .. w_min(t, s+m) for every segment; S2 feeds w_{f+1} .. w_min(t, s+m), possibly nothing. This
    reproduces the paper's examples and closed forms, and also covers changes of m, n or scheme within a text. The
    text's end token closes a window exactly when fewer than m words were left (s + m > t).
    """

    def __init__(self) -> None:
        self.spoken = 0
        self.fed = 0
        self.closed = False

    def next(
        self, committed: int, options: SpeakStreamOptions, *, ended: bool = False, flushed: int = 0
    ) -> SegmentPlan | None:
        """The next segment's plan; None while its words are missing.

        Args:
            committed: words committed so far (t).
            ended: no more words will come.
            flushed: words before this one are spoken without waiting.
        """
        s, t = self.spoken, committed
        full = t >= s + options.m
        if s >= t or not (full or ended or s < flushed):
            return None
        last = min(t, s + options.m)
        start = s if options.scheme == "S1" else max(self.fed, s)
        close = ended and s + options.m > t and (options.scheme == "S1" or not self.closed)
        spoken_now = min(options.n, last - s)
        fed = max(self.fed, last)
        plan = SegmentPlan(
            options.scheme, range(start, max(start, last)), close, range(s, s + spoken_now), fed - s - spoken_now
        )
        self.spoken, self.fed = s + spoken_now, fed
        self.closed = self.closed or close
        return plan

    def replan(
        self, plan: SegmentPlan, committed: int, options: SpeakStreamOptions, *, ended: bool = False
    ) -> SegmentPlan:
        """The plan of a spoken segment after the words that follow it have changed.

        It speaks the same words and sees no more words, unless the text's end had closed its window.

        Args:
            options: the options when it was planned.
        """
        s, t = plan.speak.start, committed
        assert s == self.spoken and t >= plan.speak.stop, "spoken words are missing"
        limit = s + options.m if plan.close else max(plan.feed.stop, plan.speak.stop)
        last = min(t, limit)
        start = s if plan.scheme == "S1" else max(self.fed, s)
        close = ended and s + options.m > t and (plan.scheme == "S1" or not self.closed)
        fed = max(self.fed, last)
        new = SegmentPlan(plan.scheme, range(start, max(start, last)), close, plan.speak, fed - plan.speak.stop)
        self.advance(new)
        return new

    def advance(self, plan: SegmentPlan) -> None:
        """Set the counters to their state after a plan."""
        self.spoken = plan.speak.stop
        self.fed = plan.seen.stop
        self.closed = self.closed or plan.close

    def checkpoint(self) -> FeedingCounters:
        """The counters, for ``restore``."""
        return FeedingCounters(self.spoken, self.fed, self.closed)

    def restore(self, checkpoint: FeedingCounters) -> None:
        """Return to earlier counters."""
        self.spoken, self.fed, self.closed = checkpoint


CHARACTERS = "abcdefghijklmnopqrstuvwxyz',.?!;:"
_OTHER = ("filler", "space", "w_eos", "bos")
FILLER, SPACE, W_EOS, BOS = range(len(_OTHER))
SYMBOLS = len(_OTHER) + len(CHARACTERS)
_ID = {c: i + len(_OTHER) for i, c in enumerate(CHARACTERS)}


def spell(word: str) -> list[int]:
    """Character ids of a spoken word and its space."""
    return [_ID[c] for c in without_pronunciation(word)] + [SPACE]


@dataclass(frozen=True)
class SegmentInput:
    """Tokens of a segment, in order.

    Attributes:
        after_eos: s_eos of the segment before comes first.
        symbols: ids of characters and of the text's end.
        window: of s_bos: scheme, words spoken, look-ahead words.
        frames: uint8 [k, 80] after s_bos: the silence prompt, and the segment's own frames if it is fed again.
    """

    after_eos: bool
    symbols: Sequence[int]
    window: tuple[int, int, int]
    frames: np.ndarray = field(repr=False)

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.after_eos + len(self.symbols) + 1 + len(self.frames)


@dataclass(frozen=True)
class ReadAheadInput:
    """Text of the first segment, fed before its window is complete.

    Attributes:
        symbols: ids of characters, written to the slot from token ``at`` on.
    """

    at: int
    symbols: Sequence[int]
    speaker: int


@dataclass(frozen=True)
class SegmentPrefill:
    """Input of a segment, before its first frame.

    Attributes:
        start, at: tokens before ``start`` are dropped; the new tokens are written from ``at`` on.
        segments: earlier segments to be fed again, with their frames, because their words changed; then the new one.
        frame: index of the frame to sample.
        known: number of tokens that the slot already holds, symbols of the first segment.
    """

    start: int
    at: int
    segments: Sequence[SegmentInput]
    speaker: int
    temperature: float
    seed: int
    frame: int
    known: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(one.tokens for one in self.segments)
