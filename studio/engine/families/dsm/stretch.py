"""A stretch of DSM-TTS, and the marks in it: plain Python, no torch.

It has two sides, a delay apart: what is *fed*, and what is *heard*. Where words are revised that were fed and not
heard, the feeding side returns to a place before them and its steps are done again with the sound that they drew,
while the hearing side stands still.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from studio.engine.families.dsm.rule import Options, Symbols, TextStreams


@dataclass(frozen=True)
class Begun:
    """A word of a stretch, and the step at which it began."""

    word: int
    step: int
    p: float
    forced: bool


@dataclass
class Feeding:
    """How far the text of a stretch was fed.

    Attributes:
        next_word: the first word that was not fed; words before ``seen`` were fed in either stream.
        saw_end: it was fed that no more words come.
        step: steps done.
        turn: whose it is, once a word was fed; first_turn: whose the first word was.
        is_due: a word begins at the next step; p_due, is_forced: how likely that was, and whether it had to.
        last_start: the step of the newest word.
        closed_at: the step of the text's end; p_end, end_forced: as of ``is_due``.
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

    def copied(self) -> "Feeding":
        """As it stands; what is fed from now on is not of it."""
        return replace(self, streams=self.streams.copied())

    def knows(self, word: int) -> bool:
        """Whether a word, or that none comes in its place, was fed."""
        return self.saw_end or self.seen > word


@dataclass
class Place:
    """Where a word, or the text's end, was fed.

    Attributes:
        before: how far the text was fed then; ``turn``: whose the word is.
        is_undone: other words were fed from there on since.
    """

    before: Feeding
    turn: str
    is_undone: bool = False


@dataclass(frozen=True)
class Due:
    """The step at which a word begins, whether it had to, and whose it is (empty: that is asked when it is fed)."""

    step: int
    forced: bool
    turn: str = ""


@dataclass(frozen=True)
class Again:
    """Steps are done again since words were revised.

    Attributes:
        word: the first revised one: it begins where the one in its place began, and those before it where they did.
        due: where these are; one that is not there began at no step that is done again.
    """

    word: int
    due: Mapping[int, Due]


@dataclass
class Stretch:
    """A stretch that is being fed and spoken.

    Attributes:
        first_at: steps of the utterance before this one are forgotten.
        begun: words whose sound did not begin yet.
        p_word: of steps whose sound is not there yet.
        first_groups: of frames whose other groups are not there yet.
        heard: frames told.
        speaking: the word that is heard; is_told: its end was told.
        places: of words that were fed, from the latest on that knew of none which is not heard yet.
        drawn: uint8 [80], what each step drew, from the step ``drawn_from`` on.
        is_back: the net did another step last than the one before the next.
    """

    feeding: Feeding
    first_at: int
    options: Options
    begun: deque[Begun] = field(default_factory=deque[Begun])
    p_word: deque[float] = field(default_factory=deque[float])
    first_groups: deque[np.ndarray] = field(default_factory=deque[np.ndarray])
    heard: int = 0
    speaking: Begun | None = None
    is_told: bool = False
    places: deque[Place] = field(default_factory=deque[Place])
    drawn: deque[np.ndarray] = field(default_factory=deque[np.ndarray], repr=False)
    drawn_from: int = 0
    again: Again | None = None
    is_back: bool = False

    @staticmethod
    def new(symbols: Symbols, next_word: int, first_at: int, options: Options) -> "Stretch":
        """One in which nothing was fed."""
        return Stretch(Feeding(TextStreams(symbols), next_word, next_word), first_at, options)

    def copied(self) -> "Stretch":
        """As it stands; what is fed and heard from now on is not of it. Places are shared: undone in one, in all."""
        return replace(
            self,
            feeding=self.feeding.copied(),
            begun=deque(self.begun),
            p_word=deque(self.p_word),
            first_groups=deque(self.first_groups),
            places=deque(self.places),
            drawn=deque(self.drawn),
        )

    @property
    def is_drawn(self) -> bool:
        """Whether the next step is done again: what it drew is known."""
        return self.feeding.step < self.drawn_from + len(self.drawn)

    @property
    def last(self) -> np.ndarray | None:
        """What the step before drew, uint8 [80], where the net has to be told."""
        told = self.feeding.step > 0 and (self.is_back or self.again is not None)
        return self.drawn[self.feeding.step - 1 - self.drawn_from] if told else None

    @property
    def is_ending(self) -> bool:
        """Whether the text's end is being heard: what follows is another stretch's."""
        return self.feeding.closed_at is not None and self.heard >= self.feeding.closed_at

    def due(self, word: int) -> Due | None:
        """Where a word begins that was fed before, and is fed again."""
        again = self.again
        return again.due.get(word) if again is not None and word <= again.word else None

    def stepped(self, drawn: np.ndarray) -> bool:
        """The next step was done, and drew this; answers whether it was done again, and drew what it had drawn."""
        is_again = self.is_drawn
        if not is_again:
            self.again = None
            self.drawn.append(drawn)
        self.feeding.step += 1
        self.is_back = False
        return is_again

    def says(self, begins: bool, p: float, longest_word: int) -> None:
        """Whether a word begins at the next step, as the action was drawn; some are known to, or not to."""
        feeding, again = self.feeding, self.again
        forced = not begins and feeding.step - feeding.last_start >= longest_word
        is_due = begins or forced
        if again is not None and feeding.next_word <= again.word:
            due = again.due.get(feeding.next_word)
            is_due, forced = (False, False) if due is None else (due.step <= feeding.step, due.forced)
        feeding.is_due, feeding.p_due, feeding.is_forced = is_due, p, forced

    def heard_to(self, spoken: int) -> None:
        """Words before one were heard, or are: forget what was needed to feed them again."""
        while len(self.places) > 1 and not self.places[1].before.knows(spoken):
            self.places.popleft()
        while self.drawn_from < self.places[0].before.step - 1:
            self.drawn.popleft()
            self.drawn_from += 1

    def feed_again(self, word: int) -> None:
        """Return to the latest place that did not know of a word, which was not heard yet."""
        again, now = (self.again if self.is_drawn else None), self.feeding
        due = dict(again.due) if again is not None else {}
        if now.is_due:  # and waits for the word
            due[now.next_word] = Due(now.step, now.is_forced)
        knew = True
        while knew:
            place = self.places.pop()
            knew, place.is_undone = place.before.knows(word), True
            self.feeding = before = place.before.copied()
            due[before.next_word] = Due(before.step, before.is_forced, place.turn)
        first = word if again is None else min(word, again.word)
        self.begun = deque(one for one in self.begun if one.word < first)
        for _ in range(len(self.p_word) - max(0, self.feeding.step - self.heard)):
            self.p_word.pop()
        self.again, self.is_back = Again(first, due), True


@dataclass(frozen=True)
class Mark:
    """Where a row stood, as a word's sound began or between two stretches; see ``studio.engine.families.base.Mark``."""

    spoken: int
    fed: int
    stretch: Stretch | None
    next_word: int
    segments: int
    frames: int
    at: int
