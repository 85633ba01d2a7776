"""IST-LM's interleaving rule (paper 003, section 3): n text tokens, m speech tokens, in plain Python.

A speech token is one dMel frame. The paper's lasts 20 ms (50 a second), a frame 25 ms (40 a second). The ratio is kept
in tokens: n:m gives a text token m/n * 25 ms of speech where the paper gives it m/n * 20 ms.
"""

from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption

PAPER_RATIOS = ("1:2", "1:3", "1:4", "3:6", "3:9", "3:12", "6:12", "6:18", "6:24", "12:24", "12:36", "12:48")
WHOLE = "whole"  # the paper's non-streaming inf:inf: all the text, then all the speech
RATIOS = (*PAPER_RATIOS, WHOLE)
_UNBOUNDED = 1 << 30


@dataclass(frozen=True)
class Ratio:
    """Chunks of ``n`` text tokens, each followed by ``m`` speech tokens."""

    n: int
    m: int

    @staticmethod
    def parse(name: str) -> "Ratio":
        """A ratio from ``n:m`` or ``whole``. Raises BadOption unless 1 <= n <= m."""
        if name == WHOLE:
            return Ratio(_UNBOUNDED, _UNBOUNDED)
        n, colon, m = name.partition(":") if isinstance(name, str) else ("", "", "")
        allowed = "write n:m with 1 <= n <= m, such as 1:3, or whole"
        if not (colon and n.isdecimal() and m.isdecimal() and n.isascii() and m.isascii() and len(n + m) <= 8):
            raise BadOption(f"{name!r:.100} is no ratio of text to speech", allowed)
        if not 1 <= int(n) <= int(m):
            raise BadOption(f"ratio {name} feeds more text than it speaks, or none", allowed)
        return Ratio(int(n), int(m))


@dataclass(frozen=True)
class Options:
    """A ratio that a checkpoint has learned."""

    ratio: str = "1:3"

    def __post_init__(self) -> None:
        Ratio.parse(self.ratio)
        if self.ratio not in RATIOS:
            raise BadOption(f"no voice has learned the ratio {self.ratio}", f"it is one of {', '.join(RATIOS)}")


OPTION_SPECS = (
    OptionSpec(
        "ratio",
        "choice",
        "1:3",
        "Ratio n:m",
        "n text tokens are read, then m frames of 25 ms spoken; whole waits for all the text. "
        "It waits inside words while text is slow",
        choices=RATIOS,
    ),
)

Token = tuple[str, int]  # ("x", i) is text token i, ("y", j) is speech token j


def interleave(text_tokens: int, speech_tokens: int, ratio: Ratio) -> list[Token]:
    """The sequence l of equation 1: chunks in turn; once the text is consumed, the rest of the speech."""
    rule, tokens = InterleavingRule(ratio), list[Token]()
    while rule.fed < text_tokens or rule.spoken < speech_tokens:
        if rule.speaks_next:
            if rule.spoken < speech_tokens:
                tokens.append(("y", rule.spoken))
            rule.spoken += 1
        else:
            chunk = rule.chunk(text_tokens, is_all=True)
            assert chunk is not None, "the whole text is there"
            tokens += [("x", i) for i in chunk]
            rule.feed(chunk, is_all=chunk.stop == text_tokens)
    return tokens


class InterleavingRule:
    """What comes next, from two counters: text tokens fed and speech tokens spoken.

    Attributes:
        fed, spoken: of this stretch.
        is_closed: the whole text was fed, so the rest is speech; until then its end is masked.
    """

    def __init__(self, ratio: Ratio) -> None:
        self.ratio = ratio
        self.fed = self.spoken = 0
        self.is_closed = False

    @property
    def due(self) -> int:
        """Speech tokens that the text fed so far pays for; all the rest once it is closed."""
        return self.fed // self.ratio.n * self.ratio.m

    @property
    def speaks_next(self) -> bool:
        """Whether a speech token comes next, not text."""
        return self.is_closed or self.spoken < self.due

    def chunk(self, known: int, *, is_all: bool) -> range | None:
        """The text tokens to feed now, or None while they are not there yet.

        Args:
            known: text tokens known so far.
            is_all: no more will come, so that a shorter chunk is the last.
        """
        stop = self.fed + self.ratio.n
        if stop <= known:
            return range(self.fed, stop)
        return range(self.fed, known) if is_all and known > self.fed else None

    def feed(self, chunk: range, *, is_all: bool) -> None:
        """Count a chunk; ``is_all`` when it was the last."""
        self.fed = chunk.stop
        self.is_closed = is_all
