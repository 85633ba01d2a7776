"""One utterance of DSM-TTS (paper 002, section 3.3): plain Python, no net.

Text is spoken in *stretches*, each a grid of steps of its own: at step s the text of frame s is fed, and the sound of
frame s - delay is drawn. A stretch goes on while words come; the text's end, or a flush, closes it. Steps that knew of
words which were revised and not heard yet are done again with the sound that they drew, and draw none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.text.typography import closed
from studio.core.time import TimeBase
from studio.engine.families.base import Turn, Want
from studio.engine.families.dsm.rule import MAIN, Options, Symbols, next_word
from studio.engine.families.dsm.step import Drawn, Step
from studio.engine.families.dsm.stretch import Begun, Mark, Place, Stretch
from studio.engine.families.reading import EVERY_WORD, ReadingRow

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


class DsmRow(ReadingRow[Options]):
    """Words in, one step a turn; see ``studio.engine.families.base.Revisable``."""

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
        self._next_word = 0  # the first word of no stretch
        self._fed = 0  # as of ``fed``, between two stretches
        self._stretch: Stretch | None = None
        self._spoken = self._segments = self._frames = 0  # told so far
        self._at = self._reached = 0  # steps done since the utterance began, and the most that ever were

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._stretch is None and self.unspoken == 0

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed."""
        return len(self._words) - self.begun

    @property
    def begun(self) -> int:
        """Words that were fed, in the text stream."""
        return self._next_word if self._stretch is None else self._stretch.feeding.next_word

    @property
    def spoken(self) -> int:
        """Words whose sound began."""
        return self._spoken

    @property
    def fed(self) -> int:
        """Words that were fed, in either stream; past any word where it was fed that no more come."""
        if self._stretch is None:
            return self._fed
        feeding = self._stretch.feeding
        return EVERY_WORD if feeding.saw_end else feeding.seen

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
                self._stretch = stretch = Stretch.new(self._symbols, self._next_word, self._at, self._options)
            if stretch.feeding.is_due and not self._feed(stretch):
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
        step, self._at = stretch.feeding.step, self._at + 1
        self._reached = max(self._reached, self._at)
        is_again = stretch.stepped(outputs.levels)
        self._act(stretch, step, outputs)
        if is_again:
            return Turn(_NO_FRAMES)
        if step >= delays.sound:
            stretch.first_groups.append(outputs.levels[: delays.first_channels])
        if step < delays.all:
            return Turn(_NO_FRAMES)
        levels = np.concatenate((stretch.first_groups.popleft(), outputs.levels[delays.first_channels :]))[None]
        turn = self._heard(stretch, levels)
        self._frames += 1
        return turn

    def broken_off(self) -> list[Event]:
        """Nothing: every frame was told as it came."""
        return []

    def mark(self) -> Mark | None:
        """Where the row stands as a word's sound begins, or between two stretches; None elsewhere."""
        stretch = self._stretch
        if self._wanted is not None or (stretch is not None and not self._is_between(stretch)):
            return None
        held = None if stretch is None else stretch.copied()
        return Mark(self._spoken, self.fed, held, self._next_word, self._segments, self._frames, self._at)

    def _is_between(self, stretch: Stretch) -> bool:
        """Whether the sound of the next step begins a word."""
        is_steady = stretch.feeding.step == stretch.heard + self._delays.all  # not before the first sound, nor again
        return is_steady and bool(stretch.begun) and stretch.begun[0].step == stretch.heard

    def holds(self, mark: Mark) -> bool:
        """Whether a mark can be returned to: the slot holds half of what it remembered there, at least."""
        if mark.stretch is None:
            return True
        is_near = self._reached - mark.at <= self._delays.context // 2
        return is_near and not mark.stretch.places[-1].is_undone

    def back(self, mark: Mark) -> None:
        """Return to a mark; a stretch that begins there begins anew."""
        assert self.holds(mark), "the slot has written over what was marked"
        self._next_word, self._spoken, self._fed = mark.next_word, mark.spoken, mark.fed
        self._segments, self._frames, self._at = mark.segments, mark.frames, mark.at
        self._stretch, self._wanted = mark.stretch and mark.stretch.copied(), None
        if self._stretch is not None:
            self._stretch.is_back = True
            self._forget(self._stretch)

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, the sound of none of which began; the text goes on.

        Steps that knew of them are done again: what they drew stays, and with it where the words before ``i`` begin.
        """
        assert i >= self._spoken, "the word is heard already: go back first"
        knew, stretch = self.fed > i, self._stretch
        self._reword(i, words)
        if stretch is None:
            self._fed = min(self._fed, i)
        elif knew and stretch.is_ending:
            stretch.feeding.seen, stretch.feeding.saw_end = i, False
        elif knew:
            self._wanted = None
            self._at -= stretch.feeding.step
            stretch.feed_again(i)
            self._at += stretch.feeding.step
            self._forget(stretch)
            if stretch.feeding.step == stretch.heard == 0:  # nothing of it must stay
                self._stretch, self._fed = None, self._next_word

    def _forget(self, stretch: Stretch) -> None:
        """What steps that are taken back wrote over is held no more."""
        stretch.first_at = min(max(stretch.first_at, self._reached - self._delays.context), self._at)

    # ------------------------------------------------------------ text

    def _due(self) -> str | None:
        flushed, ahead = self._flushed, self._delays.look_ahead_words
        return next_word(self.begun, len(self._words), ahead, ended=self._ended, flushed=flushed)

    def _feed(self, stretch: Stretch) -> bool:
        """Put what is due into the streams; False where it is not there yet."""
        due = self._due()
        if due is None:
            return False
        before, feeding = stretch.feeding.copied(), stretch.feeding
        feeding.is_due = False
        i, later = feeding.next_word, feeding.next_word + self._delays.look_ahead_words
        if due == "close":
            feeding.streams.end()
            feeding.closed_at, feeding.saw_end = feeding.step, self._ended
            feeding.p_end, feeding.end_forced = feeding.p_due, feeding.is_forced
            stretch.places.append(Place(before, feeding.turn))
            return True
        there = len(self._words)
        ahead = self._encode(self._words[later]) if later < there else ()
        feeding.streams.word([*self._turn(stretch, i), *self._encode(self._read(i))], ahead)
        stretch.places.append(Place(before, feeding.turn))
        if i >= self._spoken and i not in [one.word for one in stretch.begun]:  # else it is fed again
            stretch.begun.append(Begun(i, feeding.step, feeding.p_due, feeding.is_forced))
        feeding.last_start, feeding.next_word = feeding.step, i + 1
        feeding.seen = max(feeding.seen, min(later + 1, there))
        feeding.saw_end = feeding.saw_end or (self._ended and later >= there)
        return True

    def _read(self, i: int) -> str:
        """Word ``i``, closed by a full stop where it is the text's last and has no mark: else its vowel is broken off.

        Which one is the last must not depend on when its end came: a word that waits for another one is not due before
        the end is known, one that was flushed is.
        """
        waited = i >= self._flushed and self._delays.look_ahead_words > 0
        is_last = waited and self._ended and i + 1 == len(self._words)
        return closed(self._words[i]) if is_last else self._words[i]

    def _turn(self, stretch: Stretch, i: int) -> list[int]:
        """The token that says whose turn begins, where one does; nobody else's where there is no other speaker.

        What the net learned begins with the main speaker: in a stretch that begins with the other one's turn, the two
        change places.
        """
        feeding, due = stretch.feeding, stretch.due(i)
        turn = self._options.turn if stretch.options.other_speaker else MAIN
        if due is not None and stretch.again is not None and i < stretch.again.word:
            turn = due.turn or turn
        if turn == feeding.turn:
            return []
        feeding.turn, feeding.first_turn = turn, feeding.first_turn or turn
        return [self._symbols.main if turn == feeding.first_turn else self._symbols.other]

    def _step(self, stretch: Stretch) -> Step:
        text, ahead = stretch.feeding.streams.step()
        options, delays, step = stretch.options, self._delays, stretch.feeding.step
        groups = "none" if step < delays.sound or stretch.is_drawn else "first" if step < delays.all else "all"
        speakers = (self._speaker, options.other_speaker - 1) if options.other_speaker else (self._speaker,)
        return Step(
            text=text,
            ahead=ahead,
            start=max(stretch.first_at, self._at + 1 - delays.context),
            at=self._at,
            begins=step == 0 or stretch.is_back,
            groups=groups,
            speakers=speakers if stretch.feeding.first_turn == MAIN else speakers[::-1],
            guidance=options.guidance,
            temperature=self._temperature,
            seed=self._seed,
            last=stretch.last,
        )

    def _act(self, stretch: Stretch, step: int, drawn: Drawn) -> None:
        """What the action stream says of the next step; no word begins while another's tokens are fed."""
        feeding = stretch.feeding
        may_begin = not feeding.streams.is_feeding and feeding.closed_at is None
        if step >= stretch.heard:
            stretch.p_word.append(drawn.p_word if may_begin else 0.0)
        if may_begin:
            stretch.says(drawn.begins, drawn.p_word, self._delays.longest_word)

    # ------------------------------------------------------------ speech

    def _heard(self, stretch: Stretch, levels: np.ndarray) -> Turn:
        """A frame of a stretch, and what begins and ends with it. A word's place was known ``sound`` frames ago."""
        turn, base, feeding = Turn(levels), self._time_base, stretch.feeding
        sample, after = base.samples(self._frames), base.samples(self._frames + 1)
        if stretch.begun and stretch.begun[0].step == stretch.heard:
            stretch.speaking, stretch.is_told = stretch.begun.popleft(), False
            i = stretch.speaking.word
            seen = [*range(i, feeding.seen)]
            turn.before = [
                Segment(index=self._segments, words=[i], seen=seen, sample=sample, frame=self._frames),
                WordStart(i=i, sample=sample, source="action"),
            ]
            self._segments, self._spoken = self._segments + 1, i + 1
            stretch.heard_to(self._spoken)
        turn.before.append(Frames(first_frame=self._frames, p_eos=[stretch.p_word.popleft()], levels=levels))
        assert stretch.speaking is not None, "a stretch begins with a word"
        i, segment = stretch.speaking.word, self._segments - 1
        stretch.heard += 1
        if stretch.begun and stretch.begun[0].step == stretch.heard:
            one, stretch.is_told = stretch.begun[0], True
            turn.after = [
                WordEnd(i=i, sample=after, source="action"),
                Eos(segment=segment, frame=self._frames + 1, p=one.p, forced=one.forced),
            ]
        elif feeding.closed_at is not None:
            if stretch.heard == feeding.closed_at:
                turn.after.append(WordEnd(i=i, sample=after, source="action"))
            if stretch.heard >= feeding.closed_at + self._delays.tail:
                if not stretch.is_told:  # as it was where a word followed, which was revised away
                    p, forced = feeding.p_end, feeding.end_forced
                    turn.after.append(Eos(segment=segment, frame=self._frames + 1, p=p, forced=forced))
                self._next_word, self._fed, self._stretch = feeding.next_word, self.fed, None
        return turn
