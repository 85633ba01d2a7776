"""SpeakStream's feeding rule and alphabet (paper 000, section III.C): what to feed next, in plain Python."""

from dataclasses import dataclass
from typing import NamedTuple

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption

LARGEST_WINDOW = 6
SCHEMES = ("S1", "S2")


# ---------------------------------------------------------------- the feeding rule (section III.C)


@dataclass(frozen=True)
class Options:
    """How text is cut: S1 repeats the look-ahead words in every window, S2 feeds each word once.

    ``m`` words are seen per segment (text window), ``n`` are spoken (speech hop), 1 <= n <= m <= 6.
    """

    scheme: str = "S1"
    m: int = 3
    n: int = 1

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise BadOption(f"there is no scheme {self.scheme!r}", f"it is one of {', '.join(SCHEMES)}")
        for name, value in (("window m", self.m), ("hop n", self.n)):
            if type(value) is not int or not 1 <= value <= LARGEST_WINDOW:  # True is an int, and no number of words
                raise BadOption(
                    f"{name} = {value!r} is not allowed", f"it is a whole number from 1 to {LARGEST_WINDOW}"
                )
        if self.n > self.m:
            raise BadOption(
                f"hop n = {self.n} is more than window m = {self.m}",
                f"1 <= n <= m <= {LARGEST_WINDOW}: a segment cannot speak more words than it sees",
            )

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a segment waits for."""
        return self.m - 1


OPTION_SPECS = (
    OptionSpec(
        "scheme", "choice", "S1", "Scheme", "S1 repeats the look-ahead words, S2 feeds each once", choices=SCHEMES
    ),
    OptionSpec("m", "int", 3, "Window m", "words seen per segment", low=1, high=LARGEST_WINDOW),
    OptionSpec("n", "int", 1, "Hop n", "words spoken per segment, at most m", low=1, high=LARGEST_WINDOW),
)


@dataclass(frozen=True)
class Plan:
    """What to feed for the next segment, and which words it speaks (indices of spoken words, from 0).

    Attributes:
        feed: words whose characters enter now (S2 may feed none).
        close: the text's own end token follows them.
        speak: words of this segment.
        look_ahead: words seen beyond the ones spoken.
    """

    scheme: str
    feed: range
    close: bool
    speak: range
    look_ahead: int

    @property
    def seen(self) -> range:
        """Every word that the net has before it and has not spoken before: also one that an earlier window fed."""
        return range(self.speak.start, self.speak.stop + self.look_ahead)


class Counters(NamedTuple):
    """Where a rule stands: words spoken, words fed, and whether the text's end was fed."""

    spoken: int
    fed: int
    closed: bool


class FeedingRule:
    """What to feed next, from two counters: s words spoken and f words fed.

    S1 feeds w_{s+1} .. w_min(t, s+m) again for every segment; S2 feeds w_{f+1} .. w_min(t, s+m), perhaps nothing.
    That gives the paper's examples and closed forms, and says what a change of m, n or scheme in mid-text means.
    The text's end token closes a window exactly when fewer than m words were left before it (s + m > t).
    """

    def __init__(self) -> None:
        self.spoken = 0
        self.fed = 0
        self.closed = False

    def next(self, committed: int, options: Options, *, ended: bool = False, flushed: int = 0) -> Plan | None:
        """The next segment's plan, or None while its words are not there yet.

        Args:
            committed: words committed so far (t).
            ended: no more words will come.
            flushed: words before this one are to be spoken without waiting.
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
        plan = Plan(
            options.scheme, range(start, max(start, last)), close, range(s, s + spoken_now), fed - s - spoken_now
        )
        self.spoken, self.fed = s + spoken_now, fed
        self.closed = self.closed or close
        return plan

    def again(self, plan: Plan, committed: int, options: Options, *, ended: bool = False) -> Plan:
        """What a segment that was spoken would have been fed, now that other words follow those it spoke.

        It speaks the same words and sees no more than it saw, but where the text's end had closed its window.

        Args:
            options: in force when it was planned.
        """
        s, t = plan.speak.start, committed
        assert s == self.spoken and t >= plan.speak.stop, "words that were spoken are there"
        limit = s + options.m if plan.close else max(plan.feed.stop, plan.speak.stop)
        last = min(t, limit)
        start = s if plan.scheme == "S1" else max(self.fed, s)
        close = ended and s + options.m > t and (plan.scheme == "S1" or not self.closed)
        fed = max(self.fed, last)
        new = Plan(plan.scheme, range(start, max(start, last)), close, plan.speak, fed - plan.speak.stop)
        self.take(new)
        return new

    def take(self, plan: Plan) -> None:
        """Stand after a plan."""
        self.spoken = plan.speak.stop
        self.fed = plan.seen.stop
        self.closed = self.closed or plan.close

    def mark(self) -> Counters:
        """The counters, to come back to."""
        return Counters(self.spoken, self.fed, self.closed)

    def back(self, mark: Counters) -> None:
        """Return to earlier counters."""
        self.spoken, self.fed, self.closed = mark


# ---------------------------------------------------------------- the alphabet

CHARACTERS = "abcdefghijklmnopqrstuvwxyz',.?!;:"
_OTHER = ("filler", "space", "w_eos", "bos")
FILLER, SPACE, W_EOS, BOS = range(len(_OTHER))
SYMBOLS = len(_OTHER) + len(CHARACTERS)
_ID = {c: i + len(_OTHER) for i, c in enumerate(CHARACTERS)}


def spell(word: str) -> list[int]:
    """Character ids of a spoken word, with the space that commits it."""
    return [_ID[c] for c in word] + [SPACE]
