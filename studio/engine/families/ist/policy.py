"""Policy of IST-LM (paper 003, section 3): n text tokens, then m speech tokens; layout and state of a passage.

Plain Python. A speech token is one dMel frame of 25 ms; the paper's last 20 ms. The ratio is in tokens: n:m gives a
text token m/n * 25 ms of speech where the paper gives it m/n * 20 ms.
"""

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass, field

import numpy as np

from studio.core.errors import BadOption
from studio.core.options import OptionSpec
from studio.engine.families.common.word_alignment import WordAlignment

PAPER_RATIOS = ("1:2", "1:3", "1:4", "3:6", "3:9", "3:12", "6:12", "6:18", "6:24", "12:24", "12:36", "12:48")
WHOLE = "whole"  # the paper's non-streaming inf:inf: all the text, then all the speech
RATIOS = (*PAPER_RATIOS, WHOLE)
_UNBOUNDED = 1 << 30
FRAME = -1  # placeholder of a frame among the symbols
END_FRAME = 18  # ``dmel.EOS``, in every channel (dmel imports torch, this module does not)
CHANNELS = 80


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
class IstOptions:
    """Options of an IST-LM voice: a ratio that it was trained with."""

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
        "Ratio",
        "pieces of text read : frames of 25 ms made; whole waits for all the text",
        choices=RATIOS,
    ),
)

Token = tuple[str, int]  # ("x", i) is text token i, ("y", j) is speech token j


def interleave(text_tokens: int, speech_tokens: int, ratio: Ratio) -> list[Token]:
    """The sequence l of equation 1: alternating chunks; after the text, the rest of the speech."""
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
    """Decides whether text or speech comes next, from counters of both.

    Attributes:
        fed, spoken: of this passage.
        is_closed: the whole text was fed, so the rest is speech; until then the end is masked.
    """

    def __init__(self, ratio: Ratio) -> None:
        self.ratio = ratio
        self.fed = self.spoken = 0
        self.is_closed = False

    @property
    def due(self) -> int:
        """Speech tokens allowed by the text fed so far, before it is closed."""
        return self.fed // self.ratio.n * self.ratio.m

    @property
    def speaks_next(self) -> bool:
        """Whether a speech token comes next, not text."""
        return self.is_closed or self.spoken < self.due

    def chunk(self, known: int, *, is_all: bool) -> range | None:
        """The text tokens to feed now, or None while some are missing.

        Args:
            known: text tokens known so far.
            is_all: no more will come, so the last chunk may be shorter.
        """
        stop = self.fed + self.ratio.n
        if stop <= known:
            return range(self.fed, stop)
        return range(self.fed, known) if is_all and known > self.fed else None

    def feed(self, chunk: range, *, is_all: bool) -> None:
        """Count a chunk; ``is_all`` when it was the last."""
        self.fed = chunk.stop
        self.is_closed = is_all


@dataclass(frozen=True)
class IstSymbols:
    """Ids of special symbols; they follow the encoding's tokens.

    Attributes:
        end: the text is complete (the paper's text EOS); flush: the known part is to be spoken.
        start: a passage begins; it carries the ratio.
        filler: padding in training.
    """

    end: int
    flush: int
    start: int
    filler: int

    @staticmethod
    def after(tokens: int) -> "IstSymbols":
        """The ids behind an encoding of so many tokens."""
        return IstSymbols(tokens, tokens + 1, tokens + 2, tokens + 3)

    @property
    def count(self) -> int:
        """Number of symbols, the encoding's tokens included."""
        return self.filler + 1


@dataclass
class IstLayout:
    """An interleaved sequence of text and speech, in order.

    Text and speech are counted separately (section 4.3: distinct positional encodings), from 0 in each passage.

    Attributes:
        symbols: ids, ``FRAME`` for the next of ``frames``.
        positions: index of each symbol among text or speech.
        frames: uint8 [80] each.
    """

    symbols: list[int] = field(default_factory=list[int])
    positions: list[int] = field(default_factory=list[int])
    frames: list[np.ndarray] = field(default_factory=list[np.ndarray], repr=False)

    def __len__(self) -> int:
        return len(self.symbols)

    def start(self, symbols: IstSymbols) -> None:
        """Append a passage's start."""
        self.symbols.append(symbols.start)
        self.positions.append(0)

    def text(self, tokens: Sequence[int], first: int) -> None:
        """Append text tokens of a passage, from its token ``first`` on."""
        self.symbols += tokens
        self.positions += range(first + 1, first + 1 + len(tokens))

    def frame(self, levels: np.ndarray, position: int) -> None:
        """Append a frame of a passage, uint8 [80]."""
        self.symbols.append(FRAME)
        self.positions.append(position)
        self.frames.append(levels)

    def end(self, position: int) -> None:
        """Append the end frame of a passage of ``position`` frames."""
        self.frame(np.full(CHANNELS, END_FRAME, np.uint8), position)

    def passage(self, symbols: IstSymbols, tokens: Sequence[int], frames: np.ndarray, ratio: Ratio) -> None:
        """Append a whole passage: its text with the closing symbol, and its frames uint8 [T, 80]."""
        self.start(symbols)
        for kind, i in interleave(len(tokens), len(frames), ratio):
            if kind == "x":
                self.text([tokens[i]], i)
            else:
                self.frame(frames[i], i)
        self.end(len(frames))

    def stacked(self) -> np.ndarray:
        """All frames, uint8 [k, 80]."""
        return np.stack(self.frames) if self.frames else np.zeros((0, CHANNELS), np.uint8)


class IstPassage:
    """State of a passage that is being read and spoken."""

    def __init__(
        self, first_word: int, first_frame: int, options: IstOptions, alignment: WordAlignment | None = None
    ) -> None:
        self.first_word, self.first_frame = first_word, first_frame
        self.alignment = alignment  # of words with frames; None where word times are estimated by letters
        self.ratio = RATIOS.index(options.ratio)
        self.rule = InterleavingRule(Ratio.parse(options.ratio))
        self.text: list[int] = []  # tokens known so far
        self.ends: list[int] = []  # for each word, the number of tokens up to its end
        self.is_closed = False  # the last token is the closing symbol
        self.is_end = False  # closed because no more words will come
        self.word, self.word_frame = 0, 0  # the spoken word, and where it began, as far as known

    def copy(self) -> "IstPassage":
        """An independent copy."""
        other = shallow_copy(self)
        other.rule, other.text, other.ends = shallow_copy(self.rule), [*self.text], [*self.ends]
        other.alignment = self.alignment and self.alignment.copy()
        return other

    def reopen(self, words: int) -> None:
        """Drop its words from index ``words`` on, and the closing symbol; none of them was fed."""
        del self.ends[words:]
        del self.text[self.ends[-1] if self.ends else 0 :]
        self.is_closed = self.is_end = False

    def word_of(self, token: int) -> int:
        """The word of a text token; -1 for the closing symbol."""
        k = bisect_right(self.ends, token)
        return self.first_word + k if k < len(self.ends) else -1

    @property
    def words_fed(self) -> int:
        """Words that were fed completely."""
        return sum(end <= self.rule.fed for end in self.ends)

    @property
    def words_started(self) -> int:
        """Words of which any token was fed."""
        return sum(begin < self.rule.fed for begin in [0, *self.ends[:-1]]) if self.ends else 0

    @property
    def is_before_word(self) -> bool:
        """Whether text comes next, and its next chunk is not certain to end within a word that was started."""
        if self.rule.speaks_next:
            return False
        started = self.words_started
        return started == 0 or self.ends[started - 1] < self.rule.fed + self.rule.ratio.n


@dataclass(frozen=True)
class IstCheckpoint:
    """State of a row between two chunks or two passages; see ``families.base.RowCheckpoint``."""

    spoken: int
    fed: int
    passage: IstPassage | None
    last: np.ndarray | None
    next_word: int
    saw_end: bool
    segments: int
    frames: int
    start: int
    length: int
    since_prompt: int | None
    owes_end: int | None
