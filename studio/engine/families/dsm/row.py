"""One utterance of DSM-TTS (paper 002, section 3.3): plain Python, no net.

Text is spoken in *stretches*, each a grid of steps of its own: at step s the text of frame s is fed, and the sound of
frame s - delay is drawn. A stretch goes on while words come; the text's end, or a flush, closes it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.time import TimeBase
from studio.engine.families.base import Turn, Want
from studio.engine.families.dsm.rule import MAIN, Options, Symbols, TextStreams, next_word
from studio.engine.families.dsm.step import Drawn, Step
from studio.engine.families.reading import ReadingRow

_NO_FRAMES = np.zeros((0, 80), np.uint8)


@dataclass(frozen=True)
class Delays:
    """How streams lie to each other, and how much is remembered, in frames unless another unit is named.

    Attributes:
        sound: between a word in the text stream and its sound.
        acoustic: between the first group of channels and the others.
        first_channels: how many channels the first group has.
        look_ahead_words: between the text stream and the look-ahead stream.
        context: what a slot remembers.
        longest_word: after so many the next word begins, whatever the action stream says.
        tail: sound made after the text's end.
    """

    sound: int
    acoustic: int
    first_channels: int
    look_ahead_words: int
    context: int
    longest_word: int
    tail: int

    @property
    def all(self) -> int:
        """Between a word in the text stream and the whole of its sound."""
        return self.sound + self.acoustic


@dataclass(frozen=True)
class _Begun:
    """A word of a stretch, and the step at which it began."""

    word: int
    step: int
    p: float
    forced: bool


class _Stretch:
    """A stretch that is being fed and spoken."""

    def __init__(self, symbols: Symbols, first_at: int, options: Options) -> None:
        self.first_at, self.options = first_at, options
        self.streams = TextStreams(symbols)
        self.step = 0  # steps done
        self.turn = ""  # whose it is, once a word was fed
        self.is_due, self.p_due, self.is_forced = True, 1.0, False  # a word begins at the next step
        self.begun: deque[_Begun] = deque()  # words whose sound did not begin yet
        self.last_start = 0  # the step of the newest of them
        self.p_word: deque[float] = deque()  # of steps whose sound is not there yet
        self.first_groups: deque[np.ndarray] = deque()  # of frames whose other groups are not there yet
        self.speaking: _Begun | None = None
        self.closed_at: int | None = None  # the step of the text's end
        self.p_end, self.end_forced = 0.0, False


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two stretches."""

    next_word: int
    segments: int
    frames: int
    at: int


class DsmRow(ReadingRow[Options]):
    """Words in, one step a turn; see ``studio.engine.families.base.Row``."""

    def __init__(
        self,
        slots: tuple[int, ...],
        delays: Delays,
        time_base: TimeBase,
        symbols: Symbols,
        encode: Callable[[str], Sequence[int]],
        *,
        speaker: int,
        speakers: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options.reader(speakers), options, temperature, seed)
        self._delays, self._symbols, self._encode, self._speaker = delays, symbols, encode, speaker
        self._next_word = 0  # the first word that was not fed
        self._seen = 0  # words before it were fed, in either stream
        self._stretch: _Stretch | None = None
        self._segments = self._frames = 0  # told so far
        self._at = 0  # steps done since the utterance began

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._stretch is None and self.unspoken == 0

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed."""
        return len(self._words) - self._next_word

    @property
    def fed(self) -> int:
        """Words that were fed, in the text stream."""
        return self._next_word

    def is_between_words(self, symbol: int) -> bool:
        """Whether a symbol of the text stream is no word's own."""
        return symbol in (self._symbols.pad, self._symbols.end, self._symbols.nothing)

    def want(self) -> Want | None:
        """The next step; None where a word is due that is not there yet, or its look-ahead."""
        if self._wanted is None:
            stretch = self._stretch
            if stretch is None:
                if self._due() != "word":
                    return None
                self._stretch = stretch = _Stretch(self._symbols, self._at, self._options)
            if stretch.is_due and not self._feed(stretch):
                return None
            step = self._step(stretch)
            self._wanted = Want("warm" if step.groups == "none" else "decode", step)
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A step: nothing to hear in the first ones, then a frame. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        stretch, delays = self._stretch, self._delays
        assert wanted is not None and stretch is not None, "nothing was wanted"
        outputs.check()
        step = stretch.step
        stretch.step, self._at = step + 1, self._at + 1
        self._act(stretch, step, outputs)
        if step >= delays.sound:
            stretch.first_groups.append(outputs.levels[: delays.first_channels])
        frame = step - delays.all
        if frame < 0:
            return Turn(_NO_FRAMES)
        levels = np.concatenate((stretch.first_groups.popleft(), outputs.levels[delays.first_channels :]))[None]
        turn = self._heard(stretch, frame, levels)
        self._frames += 1
        return turn

    def broken_off(self) -> list[Event]:
        """Nothing: every frame was told as it came."""
        return []

    def mark(self) -> Mark | None:
        """Where the row stands between two stretches; None within one."""
        if self._stretch is not None:
            return None
        return Mark(self._next_word, self._segments, self._frames, self._at)

    def back(self, mark: Mark) -> None:
        """Return to a mark; the next stretch begins anew in any case."""
        self._next_word = self._seen = mark.next_word
        self._segments, self._frames, self._at = mark.segments, mark.frames, mark.at
        self._stretch = self._wanted = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, which must not have been fed in either stream."""
        assert i >= self._next_word, "the word was fed already: go back first"
        assert self._stretch is None, "go back to a mark first: a stretch has seen words ahead"
        self._words[i:] = words
        self._flushed = min(self._flushed, len(self._words))

    # ------------------------------------------------------------ text

    def _due(self) -> str | None:
        flushed, ahead = self._flushed, self._delays.look_ahead_words
        return next_word(self._next_word, len(self._words), ahead, ended=self._ended, flushed=flushed)

    def _feed(self, stretch: _Stretch) -> bool:
        """Put what is due into the streams; False where it is not there yet."""
        due = self._due()
        if due is None:
            return False
        stretch.is_due = False
        if due == "close":
            stretch.streams.end()
            stretch.closed_at = stretch.step
            stretch.p_end, stretch.end_forced = stretch.p_due, stretch.is_forced
            return True
        i, later = self._next_word, self._next_word + self._delays.look_ahead_words
        ahead = self._encode(self._words[later]) if later < len(self._words) else ()
        stretch.streams.word([*self._turn(stretch), *self._encode(self._words[i])], ahead)
        stretch.begun.append(_Begun(i, stretch.step, stretch.p_due, stretch.is_forced))
        stretch.last_start = stretch.step
        self._next_word, self._seen = i + 1, max(self._seen, min(later + 1, len(self._words)))
        return True

    def _turn(self, stretch: _Stretch) -> list[int]:
        """The token that says whose turn begins, where one does; nobody else's where there is no other speaker."""
        turn = self._options.turn if stretch.options.other_speaker else MAIN
        if turn == stretch.turn:
            return []
        stretch.turn = turn
        return [self._symbols.main if turn == MAIN else self._symbols.other]

    def _step(self, stretch: _Stretch) -> Step:
        text, ahead = stretch.streams.step()
        options, delays, step = stretch.options, self._delays, stretch.step
        groups = "none" if step < delays.sound else "first" if step < delays.all else "all"
        other = (options.other_speaker - 1,) if options.other_speaker else ()
        return Step(
            text=text,
            ahead=ahead,
            start=max(stretch.first_at, self._at + 1 - delays.context),
            at=self._at,
            begins=step == 0,
            groups=groups,
            speakers=(self._speaker, *other),
            guidance=options.guidance,
            temperature=self._temperature,
            seed=self._seed,
        )

    def _act(self, stretch: _Stretch, step: int, drawn: Drawn) -> None:
        """What the action stream says of the next step; no word begins while another's tokens are fed."""
        may_begin = not stretch.streams.is_feeding and stretch.closed_at is None
        stretch.p_word.append(drawn.p_word if may_begin else 0.0)
        if may_begin:
            forced = not drawn.begins and step + 1 - stretch.last_start >= self._delays.longest_word
            stretch.is_due, stretch.p_due, stretch.is_forced = drawn.begins or forced, drawn.p_word, forced

    # ------------------------------------------------------------ speech

    def _heard(self, stretch: _Stretch, frame: int, levels: np.ndarray) -> Turn:
        """A frame of a stretch, and what begins and ends with it. A word's place was known ``sound`` frames ago."""
        turn, base = Turn(levels), self._time_base
        sample, after = base.samples(self._frames), base.samples(self._frames + 1)
        if stretch.begun and stretch.begun[0].step == frame:
            stretch.speaking = stretch.begun.popleft()
            i = stretch.speaking.word
            seen = [*range(i, self._seen)]
            turn.before = [
                Segment(index=self._segments, words=[i], seen=seen, sample=sample, frame=self._frames),
                WordStart(i=i, sample=sample, source="action"),
            ]
            self._segments += 1
        turn.before.append(Frames(first_frame=self._frames, p_eos=[stretch.p_word.popleft()], levels=levels))
        assert stretch.speaking is not None, "a stretch begins with a word"
        i, segment = stretch.speaking.word, self._segments - 1
        if stretch.begun and stretch.begun[0].step == frame + 1:
            one = stretch.begun[0]
            turn.after = [
                WordEnd(i=i, sample=after, source="action"),
                Eos(segment=segment, frame=self._frames + 1, p=one.p, forced=one.forced),
            ]
        elif stretch.closed_at is not None:
            if frame + 1 == stretch.closed_at:
                turn.after.append(WordEnd(i=i, sample=after, source="action"))
            if frame + 1 == stretch.closed_at + self._delays.tail:
                p, forced = stretch.p_end, stretch.end_forced
                turn.after.append(Eos(segment=segment, frame=self._frames + 1, p=p, forced=forced))
                self._stretch = None
        return turn
