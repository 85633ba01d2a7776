"""Policy of DSM-TTS (paper 002, sections 3.1 and 3.3): which text token is fed at which step. Plain Python.

A step is a frame. The text stream has WORD where a word begins, then the word's tokens, and PAD elsewhere. The
look-ahead stream has the tokens of the word that comes ``look_ahead`` words later. The action stream, an output,
decides where the next WORD goes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.core.options import OptionSpec
from studio.engine.families.common.rows import check_finite, sigmoid

MOST_SPEAKERS = 5  # that the backbone attends to
STRONGEST_GUIDANCE = 3.0
MAIN, OTHER = "main", "other"


@dataclass(frozen=True)
class DsmSymbols:
    """Ids of special symbols; they follow the encoding's tokens.

    Attributes:
        pad, word: no text; a word begins.
        main, other: who speaks from this word on; precedes its tokens.
        end: the text, or the part of it that is known, ends.
        nothing: in both streams where the net gets no text (guidance, and dropout in training).
    """

    pad: int
    word: int
    main: int
    other: int
    end: int
    nothing: int

    @staticmethod
    def after(tokens: int) -> "DsmSymbols":
        """The ids behind an encoding of so many tokens."""
        return DsmSymbols(*range(tokens, tokens + 6))

    @property
    def count(self) -> int:
        """Number of symbols, the encoding's tokens included."""
        return self.nothing + 1


# ---------------------------------------------------------------- options


@dataclass(frozen=True)
class DsmOptions:
    """Options of a DSM-TTS voice.

    Attributes:
        guidance: alpha of equation 8; 1 turns it off.
        turn: who speaks from the next word on.
        other_speaker: number of the card's speaker that is the other one, from 1; 0 for none.
    """

    guidance: float = 1.0
    turn: str = MAIN
    other_speaker: int = 0

    @staticmethod
    def reader(speakers: int) -> "Callable[..., DsmOptions]":
        """A constructor that checks options for a voice with so many speakers. Raises BadOption."""

        def read(guidance: float = 1.0, turn: str = MAIN, other_speaker: int = 0) -> DsmOptions:
            if not 1.0 <= guidance <= STRONGEST_GUIDANCE:
                raise BadOption(f"guidance {guidance!r:.40} is not allowed", f"it is from 1 to {STRONGEST_GUIDANCE:g}")
            if turn not in (MAIN, OTHER):
                raise BadOption(f"there is no turn {turn!r:.40}", f"it is {MAIN} or {OTHER}")
            if type(other_speaker) is not int or not 0 <= other_speaker <= speakers:
                raise BadOption(
                    f"there is no speaker {other_speaker!r:.40}",
                    f"other_speaker is from 1 to {speakers}, or 0 for none",
                )
            if turn == OTHER and not other_speaker:
                raise BadOption("there is no other speaker", f"choose one by other_speaker, 1 to {speakers}")
            return DsmOptions(guidance, turn, other_speaker)

        return read


OPTION_SPECS = (
    OptionSpec(
        "guidance",
        "float",
        1.0,
        "Guidance",
        "how strictly it follows text and speaker; 1 is off, more takes longer to compute. "
        "Applies from the next phrase",
        low=1.0,
        high=STRONGEST_GUIDANCE,
    ),
    OptionSpec("turn", "choice", MAIN, "Turn", "who speaks from the next word on", choices=(MAIN, OTHER)),
    OptionSpec(
        "other_speaker",
        "int",
        0,
        "Second speaker",
        "number of the speaker who has the other turns, 0 for nobody. Applies from the next phrase",
        low=0,
        high=MOST_SPEAKERS,
    ),
)


def options_of(speakers: Sequence[str]) -> tuple[OptionSpec, ...]:
    """The options of a voice, with the names of its speakers."""
    who = ", ".join(f"{number} is {name}" for number, name in enumerate(speakers, 1))
    help_text = f"who has the other turns: {who}, 0 nobody. Applies from the next phrase"
    return tuple(
        replace(one, help=help_text, high=len(speakers)) if one.name == "other_speaker" else one for one in OPTION_SPECS
    )


# ---------------------------------------------------------------- when a word may be fed

Next = Literal["word", "close"]


def next_word(spoken: int, committed: int, look_ahead: int, *, ended: bool = False, flushed: int = 0) -> Next | None:
    """What is fed when a word may begin: a word, the text's end, or None to wait.

    A word waits for the ``look_ahead`` words after it, the last of which the look-ahead stream feeds. A flush counts as
    an end unless the word after it can be fed already.

    Args:
        spoken: words fed so far.
        committed: words committed so far.
        ended: no more words will come.
        flushed: words before this one do not wait.
    """
    if spoken < committed and (ended or spoken < flushed or spoken + look_ahead < committed):
        return "word"
    return "close" if 0 < spoken == (committed if ended else flushed) else None


# ---------------------------------------------------------------- the two text streams


class TextStreams:
    """The text stream and the look-ahead stream, step by step."""

    def __init__(self, symbols: DsmSymbols) -> None:
        self._symbols = symbols
        self._text: deque[int] = deque()
        self._ahead: deque[int] = deque()

    def copy(self) -> "TextStreams":
        """An independent copy."""
        other = TextStreams(self._symbols)
        other._text, other._ahead = self._text.copy(), self._ahead.copy()
        return other

    @property
    def is_feeding(self) -> bool:
        """Whether tokens of a word remain to be fed, so that no other may begin."""
        return bool(self._text)

    def word(self, tokens: Sequence[int], ahead: Sequence[int]) -> None:
        """Begin a word at the next step: its tokens, and those of the look-ahead word (may be empty)."""
        assert not self._text, "no word begins within another"
        self._text += [self._symbols.word, *tokens]
        self._ahead += ahead

    def end(self) -> None:
        """Put the text's end at the next step."""
        assert not self._text, "the end is not within a word"
        self._text.append(self._symbols.end)

    def step(self) -> tuple[int, int]:
        """Text and look-ahead symbol of the next step."""
        pad = self._symbols.pad
        return (self._text.popleft() if self._text else pad, self._ahead.popleft() if self._ahead else pad)


@dataclass(frozen=True)
class StepGrid:
    """Streams over all steps of a known passage.

    Attributes:
        text, ahead: symbols of each step.
        action: of each step, 1 if a word (or the end) begins at the next step, 0 if not, -1 if it could not.
    """

    text: list[int]
    ahead: list[int]
    action: list[int]


def lay_out(
    words: Sequence[Sequence[int]],
    starts: Sequence[int],
    end: int | None,
    steps: int,
    symbols: DsmSymbols,
    look_ahead: int,
) -> StepGrid:
    """Lay out words at the steps in which they begin (section 3.1), or as soon as the word before was fed.

    Args:
        words: tokens of each.
        starts: the frame in which each begins, in order.
        end: the frame in which the last one ends; None where the text goes on.
        steps: how many to lay out.
    """
    streams, grid, i = TextStreams(symbols), StepGrid([], [], []), 0
    is_closed = False
    for step in range(steps):
        if is_free := not streams.is_feeding:
            if i < len(words) and starts[i] <= step:
                later = i + look_ahead
                streams.word(words[i], words[later] if later < len(words) else ())
                i += 1
            elif i == len(words) and end is not None and end <= step and not is_closed:
                streams.end()
                is_closed = True
        begins = is_free and streams.is_feeding
        if step:
            grid.action.append((1 if begins else 0) if is_free and (begins or not is_closed) else -1)
        text, ahead = streams.step()
        grid.text.append(text)
        grid.ahead.append(ahead)
    grid.action.append(-1)
    return grid


ACTION_AT = 0.5  # at temperature 0


@dataclass(frozen=True)
class DsmInput:
    """One step of a row.

    Attributes:
        text, ahead: symbols of the two text streams.
        start, at: this step's index in the utterance; steps before ``start`` are dropped.
        begins: a passage begins, or the row was restored to an earlier step: the next attributes are new.
        groups: the groups of channels to sample: "none" (warm), "first", or "all".
        speakers: the main one first.
        guidance: alpha of equation 8.
        last: uint8 [80], levels of the step before; None where the net has them, or none exist.
    """

    text: int
    ahead: int
    start: int
    at: int
    begins: bool
    groups: str
    speakers: tuple[int, ...]
    guidance: float
    temperature: float
    seed: int
    last: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class DsmOutput:
    """What a step sampled.

    Attributes:
        levels: uint8 [80], of different frames (the acoustic delay); all padding where there is no sound.
        p_word: probability that a word begins at the next step; begins: the sample.
        is_finite: whether all logits were finite.
    """

    levels: np.ndarray
    p_word: float
    begins: bool
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite)

    @staticmethod
    def of(levels: np.ndarray, action: np.float32, noise: float, check: np.float32, temperature: float) -> "DsmOutput":
        """From levels and the action's logit, computed on the CPU so that rounding does not depend on the batch.

        Args:
            noise: in (0, 1), the action's own.
            check: finite if all logits were.
        """
        p = sigmoid(action)
        begins = p >= ACTION_AT if temperature == 0.0 else noise < p
        return DsmOutput(levels, p, begins, bool(np.isfinite(action) and np.isfinite(check)))
