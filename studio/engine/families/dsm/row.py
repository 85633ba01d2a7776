"""Row of DSM-TTS (paper 002, section 3.3): plain Python, no torch.

Text is spoken in *passages*, each with a grid of steps: step s feeds the text of frame s and outputs the sound of frame
s - delay. A passage goes on while words come; the text's end, or a flush, closes it. Steps that knew words which are
revised before they are spoken are replayed with their known outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.events import Eos, Frames, Segment, WordEnd, WordStart
from studio.core.text.typography import with_final_mark
from studio.engine.families.base import ModuleInput, RowOutput
from studio.engine.families.common.rows import ALL_WORDS, RowSetup, TextRow
from studio.engine.families.dsm.passage import DsmCheckpoint, DsmPassage, FeedPoint, WordOnset
from studio.engine.families.dsm.policy import MAIN, DsmInput, DsmOptions, DsmOutput, DsmSymbols, next_word

_NO_FRAMES = np.zeros((0, 80), np.uint8)


@dataclass(frozen=True)
class DsmDelays:
    """Delays between the streams, and limits, in frames unless the name says otherwise.

    Attributes:
        sound: between a word in the text stream and its sound.
        acoustic: between the first group of channels and the others.
        first_channels: channels of the first group.
        look_ahead_words: between the text stream and the look-ahead stream.
        context: capacity of a slot.
        longest_word: after so many the next word is forced to begin.
        tail: frames after the text's end.
    """

    sound: int
    acoustic: int
    first_channels: int
    look_ahead_words: int
    context: int
    longest_word: int
    tail: int

    @property
    def total(self) -> int:
        """Between a word in the text stream and the whole of its sound."""
        return self.sound + self.acoustic


class DsmRow(TextRow[DsmOptions]):
    """Words in, one step per engine step; see ``studio.engine.families.base.RevisableRow``."""

    def __init__(
        self,
        setup: RowSetup,
        delays: DsmDelays,
        symbols: DsmSymbols,
        encode: Callable[[str, Sequence[str]], Sequence[int]],
        speakers: int,
    ) -> None:
        super().__init__(setup, DsmOptions.reader(speakers))
        self.delays, self._symbols, self._encode = delays, symbols, encode
        self._next_word = 0  # the first word after the last passage
        self._fed = 0  # as of ``fed``, between two passages
        self._passage: DsmPassage | None = None
        self._spoken = self._segments = 0
        self._at = self._reached = 0  # steps done in the utterance, and their maximum before rewinds

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._passage is None and self.unspoken == 0

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed."""
        return len(self._words) - self.words_fed

    @property
    def words_fed(self) -> int:
        """Words that were fed in the text stream."""
        return self._next_word if self._passage is None else self._passage.feeding.next_word

    @property
    def spoken(self) -> int:
        """Words whose sound began."""
        return self._spoken

    @property
    def fed(self) -> int:
        """Words that were fed in either stream; ALL_WORDS once the text's end was fed."""
        if self._passage is None:
            return self._fed
        feeding = self._passage.feeding
        return ALL_WORDS if feeding.saw_end else feeding.seen

    def is_between_words(self, symbol: int) -> bool:
        """Whether a symbol of the text stream belongs to no word."""
        return symbol in (self._symbols.pad, self._symbols.end, self._symbols.nothing)

    def next_input(self) -> ModuleInput | None:
        """The next step; None while a due word or its look-ahead is missing."""
        if self._pending is None:
            passage = self._passage
            if passage is None:
                if self._next_word_or_end() != "word":
                    return None
                self._passage = passage = DsmPassage.new(self._symbols, self._next_word, self._at, self._options)
            if passage.feeding.is_due and not self._feed(passage):
                return None
            step = self._step(passage)
            self._pending = ModuleInput("warm" if step.groups == "none" else "decode", step)
        return self._pending

    def on_output(self, outputs: DsmOutput) -> RowOutput:
        """Process a step: no frame during the delay, then one per step. Raises NotFinite."""
        self._pop_pending()
        passage, delays = self._passage, self.delays
        assert passage is not None, "no passage is being spoken"
        outputs.check()
        step, self._at = passage.feeding.step, self._at + 1
        self._reached = max(self._reached, self._at)
        is_replay = passage.advance(outputs.levels)
        self._apply_action(passage, step, outputs)
        if is_replay:
            return RowOutput(_NO_FRAMES)
        if step >= delays.sound:
            passage.first_groups.append(outputs.levels[: delays.first_channels])
        if step < delays.total:
            return RowOutput(_NO_FRAMES)
        levels = np.concatenate((passage.first_groups.popleft(), outputs.levels[delays.first_channels :]))[None]
        output = self._emit(passage, levels)
        self._frames += 1
        return output

    def checkpoint(self) -> DsmCheckpoint | None:
        """State where a word's sound begins or between two passages; None elsewhere."""
        passage = self._passage
        if self._pending is not None or (passage is not None and not self._is_between(passage)):
            return None
        saved = passage and passage.copy()
        return DsmCheckpoint(self._spoken, self.fed, saved, self._next_word, self._segments, self._frames, self._at)

    def _is_between(self, passage: DsmPassage) -> bool:
        """Whether the sound of the next step begins a word."""
        is_steady = (
            passage.feeding.step == passage.emitted + self.delays.total
        )  # neither before the first sound nor in a replay
        return is_steady and bool(passage.onsets) and passage.onsets[0].step == passage.emitted

    def can_restore(self, checkpoint: DsmCheckpoint) -> bool:
        """Whether the slot still holds at least half of its context at the checkpoint."""
        if checkpoint.passage is None:
            return True
        is_near = self._reached - checkpoint.at <= self.delays.context // 2
        return is_near and not checkpoint.passage.feed_points[-1].is_stale

    def restore(self, checkpoint: DsmCheckpoint) -> None:
        """See ``Row``."""
        assert self.can_restore(checkpoint), "the slot has overwritten what the checkpoint needs"
        self._next_word, self._spoken, self._fed = checkpoint.next_word, checkpoint.spoken, checkpoint.fed
        self._segments, self._frames, self._at = checkpoint.segments, checkpoint.frames, checkpoint.at
        self._passage, self._pending = checkpoint.passage and checkpoint.passage.copy(), None
        if self._passage is not None:
            self._passage.is_restored = True
            self._drop_overwritten(self._passage)

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which is spoken yet; the text goes on.

        Steps that knew them are replayed: their outputs stay, and so do the onsets of words before ``i``.
        """
        assert i >= self._spoken, "the word is spoken already: restore a checkpoint first"
        knew, passage = self.fed > i, self._passage
        self._replace_words(i, words)
        if passage is None:
            self._fed = min(self._fed, i)
        elif knew and passage.is_ending:
            passage.feeding.seen, passage.feeding.saw_end = i, False
        elif knew:
            self._pending = None
            self._at -= passage.feeding.step
            passage.rewind_to(i)
            self._at += passage.feeding.step
            self._drop_overwritten(passage)
            if passage.feeding.step == passage.emitted == 0:  # nothing of it was used
                self._passage, self._fed = None, self._next_word

    def _drop_overwritten(self, passage: DsmPassage) -> None:
        """Drop the positions that steps which were undone have overwritten."""
        passage.first_at = min(max(passage.first_at, self._reached - self.delays.context), self._at)

    # ------------------------------------------------------------ text

    def _next_word_or_end(self) -> str | None:
        flushed, ahead = self._flushed, self.delays.look_ahead_words
        return next_word(self.words_fed, len(self._words), ahead, ended=self._ended, flushed=flushed)

    def _feed(self, passage: DsmPassage) -> bool:
        """Put the due word or end into the streams; False while it is missing."""
        due = self._next_word_or_end()
        if due is None:
            return False
        before, feeding = passage.feeding.copy(), passage.feeding
        feeding.is_due = False
        i, later = feeding.next_word, feeding.next_word + self.delays.look_ahead_words
        if due == "close":
            feeding.streams.end()
            feeding.closed_at, feeding.saw_end = feeding.step, self._ended
            feeding.p_end, feeding.end_forced = feeding.p_due, feeding.is_forced
            passage.feed_points.append(FeedPoint(before, feeding.turn))
            return True
        there = len(self._words)
        ahead = self._encode(self._words[later], self._words_before(later)) if later < there else ()
        spelled = self._encode(self._with_mark(i), self._words_before(i))
        feeding.streams.word([*self._turn(passage, i), *spelled], ahead)
        passage.feed_points.append(FeedPoint(before, feeding.turn))
        if i >= self._spoken and i not in [one.word for one in passage.onsets]:  # else it is a replay
            passage.onsets.append(WordOnset(i, feeding.step, feeding.p_due, feeding.is_forced))
        feeding.last_start, feeding.next_word = feeding.step, i + 1
        feeding.seen = max(feeding.seen, min(later + 1, there))
        feeding.saw_end = feeding.saw_end or (self._ended and later >= there)
        return True

    def _with_mark(self, i: int) -> str:
        """Word ``i``, with a full stop if it is the text's last and has no mark: else its vowel is cut off.

        This must not depend on when the end came: a word that waits for its look-ahead is not due before the end is
        known, but a flushed one is.
        """
        waited = i >= self._flushed and self.delays.look_ahead_words > 0
        is_last = waited and self._ended and i + 1 == len(self._words)
        return with_final_mark(self._words[i]) if is_last else self._words[i]

    def _turn(self, passage: DsmPassage, i: int) -> list[int]:
        """The token of a turn that begins with word ``i``; empty where none does, or without another speaker.

        Training sequences begin with the main speaker: in a passage that begins with the other one, the two are
        swapped.
        """
        feeding, word = passage.feeding, passage.replayed_word(i)
        turn = self._options.turn if passage.options.other_speaker else MAIN
        if word is not None and passage.replay is not None and i < passage.replay.word:
            turn = word.turn or turn
        if turn == feeding.turn:
            return []
        feeding.turn, feeding.first_turn = turn, feeding.first_turn or turn
        return [self._symbols.main if turn == feeding.first_turn else self._symbols.other]

    def _step(self, passage: DsmPassage) -> DsmInput:
        text, ahead = passage.feeding.streams.step()
        options, delays, step = passage.options, self.delays, passage.feeding.step
        groups = "none" if step < delays.sound or passage.is_replayed else "first" if step < delays.total else "all"
        speakers = (self._speaker, options.other_speaker - 1) if options.other_speaker else (self._speaker,)
        return DsmInput(
            text=text,
            ahead=ahead,
            start=max(passage.first_at, self._at + 1 - delays.context),
            at=self._at,
            begins=step == 0 or passage.is_restored,
            groups=groups,
            speakers=speakers if passage.feeding.first_turn == MAIN else speakers[::-1],
            guidance=options.guidance,
            temperature=self._temperature,
            seed=self._seed,
            last=passage.last_output,
        )

    def _apply_action(self, passage: DsmPassage, step: int, outputs: DsmOutput) -> None:
        """Apply the action to the next step; no word begins while another's tokens are fed."""
        feeding = passage.feeding
        may_begin = not feeding.streams.is_feeding and feeding.closed_at is None
        if step >= passage.emitted:
            passage.p_word.append(outputs.p_word if may_begin else 0.0)
        if may_begin:
            passage.decide_next(outputs.begins, outputs.p_word, self.delays.longest_word)

    # ------------------------------------------------------------ speech

    def _emit(self, passage: DsmPassage, levels: np.ndarray) -> RowOutput:
        """A frame with the events that precede and follow it. Word onsets were decided ``sound`` frames ago."""
        output, base, feeding = RowOutput(levels), self._time_base, passage.feeding
        sample, after = base.samples(self._frames), base.samples(self._frames + 1)
        if passage.onsets and passage.onsets[0].step == passage.emitted:
            passage.current, passage.is_end_emitted = passage.onsets.popleft(), False
            i = passage.current.word
            seen = [*range(i, feeding.seen)]
            output.before = [
                Segment(index=self._segments, words=[i], seen=seen, sample=sample, frame=self._frames),
                WordStart(i=i, sample=sample, source="action"),
            ]
            self._segments, self._spoken = self._segments + 1, i + 1
            passage.trim_to(self._spoken)
        output.before.append(Frames(first_frame=self._frames, p_eos=[passage.p_word.popleft()], levels=levels))
        assert passage.current is not None, "a passage begins with a word"
        i, segment = passage.current.word, self._segments - 1
        passage.emitted += 1
        if passage.onsets and passage.onsets[0].step == passage.emitted:
            one, passage.is_end_emitted = passage.onsets[0], True
            output.after = [
                WordEnd(i=i, sample=after, source="action"),
                Eos(segment=segment, frame=self._frames + 1, p=one.p, forced=one.forced),
            ]
        elif feeding.closed_at is not None:
            if passage.emitted == feeding.closed_at:
                output.after.append(WordEnd(i=i, sample=after, source="action"))
            if passage.emitted >= feeding.closed_at + self.delays.tail:
                if not passage.is_end_emitted:  # a word that followed was revised away
                    p, forced = feeding.p_end, feeding.end_forced
                    output.after.append(Eos(segment=segment, frame=self._frames + 1, p=p, forced=forced))
                self._next_word, self._fed, self._passage = feeding.next_word, self.fed, None
        return output
