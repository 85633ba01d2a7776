"""State of one DSM-TTS passage, and checkpoints in it: plain Python, no torch.

A passage has two sides, a delay apart: the *fed* text and the *emitted* frames. When words are revised that were fed
but not emitted, the fed side rewinds to a point before them and replays its steps with the outputs they had, while the
emitted side stands still.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from studio.engine.families.dsm.policy import DsmOptions, DsmSymbols, TextStreams


@dataclass(frozen=True)
class WordOnset:
    """A word of a passage, the step at which it began, and the action's probability."""

    word: int
    step: int
    p: float
    forced: bool


@dataclass
class FeedState:
    """How far the text of a passage was fed.

    Attributes:
        next_word: the first word that was not fed; words before ``seen`` were fed in either stream.
        saw_end: the streams know that no more words come.
        step: steps done.
        turn: of the last word that was fed; first_turn: of the first one.
        is_due: a word begins at the next step; p_due, is_forced: its probability, and whether a limit forced it.
        last_start: the step of the newest word.
        closed_at: the step of the text's end; p_end, end_forced: as ``p_due`` and ``is_forced``.
    """

    streams: TextStreams
    next_word: int
    seen: int
    saw_end: bool = False
    step: int = 0
    turn: str = ""
    first_turn: str = ""
    is_due: bool = True
    p_due: float = 1.0
    is_forced: bool = False
    last_start: int = 0
    closed_at: int | None = None
    p_end: float = 0.0
    end_forced: bool = False

    def copy(self) -> "FeedState":
        """An independent copy."""
        return replace(self, streams=self.streams.copy())

    def knows(self, word: int) -> bool:
        """Whether this word, or that none comes in its place, was fed."""
        return self.saw_end or self.seen > word


@dataclass
class FeedPoint:
    """Where a word, or the text's end, was fed.

    Attributes:
        before: the state before it; turn: whose the word is.
        is_stale: other words have been fed from there on since.
    """

    before: FeedState
    turn: str
    is_stale: bool = False


@dataclass(frozen=True)
class ReplayedWord:
    """The step at which a word begins, whether it was forced, and its turn (empty: decided when it is fed)."""

    step: int
    forced: bool
    turn: str = ""


@dataclass(frozen=True)
class Replay:
    """Steps that are replayed because words were revised.

    Attributes:
        word: the first revised one: it begins where the one in its place began, and those before it where they did.
        words: where these begin; a missing one begins at no replayed step.
    """

    word: int
    words: Mapping[int, ReplayedWord]


@dataclass
class DsmPassage:
    """A passage that is being fed and spoken.

    Attributes:
        first_at: steps of the utterance before this one are dropped.
        onsets: words whose sound did not begin yet.
        p_word: of steps whose sound is not emitted yet.
        first_groups: of frames whose other groups are not there yet.
        emitted: number of frames.
        current: the word that is being spoken; is_end_emitted: its end was reported.
        feed_points: of words that were fed, from the latest one on that knew no word which is not emitted yet.
        outputs: uint8 [80], the levels of each step from ``outputs_from`` on.
        is_restored: the net's last step is not the one before the next.
    """

    feeding: FeedState
    first_at: int
    options: DsmOptions
    onsets: deque[WordOnset] = field(default_factory=deque[WordOnset])
    p_word: deque[float] = field(default_factory=deque[float])
    first_groups: deque[np.ndarray] = field(default_factory=deque[np.ndarray])
    emitted: int = 0
    current: WordOnset | None = None
    is_end_emitted: bool = False
    feed_points: deque[FeedPoint] = field(default_factory=deque[FeedPoint])
    outputs: deque[np.ndarray] = field(default_factory=deque[np.ndarray], repr=False)
    outputs_from: int = 0
    replay: Replay | None = None
    is_restored: bool = False

    @staticmethod
    def new(symbols: DsmSymbols, next_word: int, first_at: int, options: DsmOptions) -> "DsmPassage":
        """An empty passage."""
        return DsmPassage(FeedState(TextStreams(symbols), next_word, next_word), first_at, options)

    def copy(self) -> "DsmPassage":
        """An independent copy, except that feed points are shared: stale in one, stale in all."""
        return replace(
            self,
            feeding=self.feeding.copy(),
            onsets=deque(self.onsets),
            p_word=deque(self.p_word),
            first_groups=deque(self.first_groups),
            feed_points=deque(self.feed_points),
            outputs=deque(self.outputs),
        )

    @property
    def is_replayed(self) -> bool:
        """Whether the next step is a replay: its output is known."""
        return self.feeding.step < self.outputs_from + len(self.outputs)

    @property
    def last_output(self) -> np.ndarray | None:
        """The levels of the step before, uint8 [80]; None where the net still has them."""
        is_needed = self.feeding.step > 0 and (self.is_restored or self.replay is not None)
        return self.outputs[self.feeding.step - 1 - self.outputs_from] if is_needed else None

    @property
    def is_ending(self) -> bool:
        """Whether the text's end is being spoken: what follows belongs to another passage."""
        return self.feeding.closed_at is not None and self.emitted >= self.feeding.closed_at

    def replayed_word(self, word: int) -> ReplayedWord | None:
        """Where a word begins that was fed before, and is fed again."""
        replay = self.replay
        return replay.words.get(word) if replay is not None and word <= replay.word else None

    def advance(self, levels: np.ndarray) -> bool:
        """Record the output of a step; returns whether it was a replay, whose output is known."""
        is_replayed = self.is_replayed
        if not is_replayed:
            self.replay = None
            self.outputs.append(levels)
        self.feeding.step += 1
        self.is_restored = False
        return is_replayed

    def decide_next(self, begins: bool, p: float, longest_word: int) -> None:
        """Decide whether a word begins at the next step: as sampled, as replayed, or forced by the limit."""
        feeding, replay = self.feeding, self.replay
        forced = not begins and feeding.step - feeding.last_start >= longest_word
        is_due = begins or forced
        if replay is not None and feeding.next_word <= replay.word:
            word = replay.words.get(feeding.next_word)
            is_due, forced = (False, False) if word is None else (word.step <= feeding.step, word.forced)
        feeding.is_due, feeding.p_due, feeding.is_forced = is_due, p, forced

    def trim_to(self, spoken: int) -> None:
        """Drop what is only needed to feed words again that were spoken."""
        while len(self.feed_points) > 1 and not self.feed_points[1].before.knows(spoken):
            self.feed_points.popleft()
        while self.outputs_from < self.feed_points[0].before.step - 1:
            self.outputs.popleft()
            self.outputs_from += 1

    def rewind_to(self, word: int) -> None:
        """Return to the latest feed point that did not know a word, which was not spoken yet."""
        replay, now = (self.replay if self.is_replayed else None), self.feeding
        words = dict(replay.words) if replay is not None else {}
        if now.is_due:  # and waits for the word
            words[now.next_word] = ReplayedWord(now.step, now.is_forced)
        knew = True
        while knew:
            point = self.feed_points.pop()
            knew, point.is_stale = point.before.knows(word), True
            self.feeding = before = point.before.copy()
            words[before.next_word] = ReplayedWord(before.step, before.is_forced, point.turn)
        first = word if replay is None else min(word, replay.word)
        self.onsets = deque(one for one in self.onsets if one.word < first)
        for _ in range(len(self.p_word) - max(0, self.feeding.step - self.emitted)):
            self.p_word.pop()
        self.replay, self.is_restored = Replay(first, words), True


@dataclass(frozen=True)
class DsmCheckpoint:
    """State of a row where a word's sound begins or between two passages; see ``families.base.RowCheckpoint``."""

    spoken: int
    fed: int
    passage: DsmPassage | None
    next_word: int
    segments: int
    frames: int
    at: int
