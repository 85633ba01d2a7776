"""How an interleaved sequence is laid out for the net: symbols, frames and their places, spoken or learned from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studio.engine.families.ist.rule import Ratio, interleave

FRAME = -1  # stands among the symbols where a frame stands
END_FRAME = 18  # dMel's id of an end frame, the same in every channel (``dmel.EOS``; dmel is torch, this is not)
CHANNELS = 80


@dataclass(frozen=True)
class Symbols:
    """Ids of what is no token of the encoding: they follow its own.

    Attributes:
        end: the text is over (the paper's text EOS); ``flush``: what is known of it is to be spoken.
        start: a stretch begins; it carries the ratio.
        filler: nothing, in training's padding.
    """

    end: int
    flush: int
    start: int
    filler: int

    @staticmethod
    def after(tokens: int) -> "Symbols":
        """Behind an encoding of so many tokens."""
        return Symbols(tokens, tokens + 1, tokens + 2, tokens + 3)

    @property
    def count(self) -> int:
        """Of all symbols, the encoding's own among them."""
        return self.filler + 1


@dataclass
class Layout:
    """Positions of an interleaved sequence, in order.

    Text and speech count their places apart (section 4.3: distinct positional encodings), anew in each stretch.

    Attributes:
        symbols: ids, ``FRAME`` where the next of ``frames`` stands.
        places: each position's index among its own kind.
        frames: uint8 [80] each.
    """

    symbols: list[int] = field(default_factory=list[int])
    places: list[int] = field(default_factory=list[int])
    frames: list[np.ndarray] = field(default_factory=list[np.ndarray], repr=False)

    def __len__(self) -> int:
        return len(self.symbols)

    def start(self, symbols: Symbols) -> None:
        """A stretch begins."""
        self.symbols.append(symbols.start)
        self.places.append(0)

    def text(self, tokens: Sequence[int], first: int) -> None:
        """Text tokens of a stretch, from its token ``first`` on."""
        self.symbols += tokens
        self.places += range(first + 1, first + 1 + len(tokens))

    def frame(self, levels: np.ndarray, place: int) -> None:
        """A frame of a stretch, uint8 [80]."""
        self.symbols.append(FRAME)
        self.places.append(place)
        self.frames.append(levels)

    def end(self, place: int) -> None:
        """The end frame of a stretch of ``place`` frames."""
        self.frame(np.full(CHANNELS, END_FRAME, np.uint8), place)

    def stretch(self, symbols: Symbols, tokens: Sequence[int], frames: np.ndarray, ratio: Ratio) -> None:
        """A whole stretch: its text with the symbol that closes it, and its frames uint8 [T, 80]."""
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
