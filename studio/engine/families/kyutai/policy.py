"""Which text a step is fed (paper 002, section 4): words begin where the net asks for one, and are fed a token a step.

The second text stream has a sign where a word begins and then the tokens of the word ``look_ahead`` words later. Both
tokens of a step are one number, ``first + size * (1 + second)``. The rules are those of Kyutai's published code.
"""

from collections import deque
from dataclasses import dataclass, field

NEW_WORD, MAIN, OTHER, PAD = 0, 1, 2, 3  # tokens with a meaning of their own
_NONE = -1


@dataclass
class KyutaiPolicy:
    """The text of one stream.

    Attributes:
        size: text tokens, the initial one included (``text_card`` + 1).
        look_ahead: words between the one that begins and the one in the second stream; 0 without that stream.
        longest_pad: steps in a row without a word's beginning; ``initial_pad`` of them come first.
        ended: no more words will come.
        begun: the step in which each word began.
        end_step: where the net asked for a word after the last one; None before.
    """

    size: int
    look_ahead: int = 2
    longest_pad: int = 8
    initial_pad: int = 2
    ended: bool = False
    begun: list[int] = field(default_factory=list)
    end_step: int | None = None

    def __post_init__(self) -> None:
        self._words: deque[list[int]] = deque()
        self._queued, self._later = deque[int](), deque[int]()
        self._may_pad = self._must_pad = self.initial_pad
        self._step = 0

    def commit(self, tokens: list[int]) -> None:
        """Add a word, of at least one token."""
        assert tokens and not self.ended
        self._words.append(tokens)

    def end(self) -> None:
        """No more words will come."""
        self.ended = True

    @property
    def can_step(self) -> bool:
        """Whether the next step needs no word that is not committed yet."""
        begins_none = bool(self._queued) or self._must_pad > 0
        return self.ended or begins_none or len(self._words) > self.look_ahead

    def feed(self, wanted: int) -> int:
        """What the step is fed after the net wanted this text token."""
        if self._queued or self._must_pad > 0:
            wanted = PAD
        elif self._may_pad <= 0:
            wanted = NEW_WORD
        first = self._begin() if wanted == NEW_WORD else PAD
        if first == PAD:
            self._may_pad, self._must_pad = max(0, self._may_pad - 1), max(0, self._must_pad - 1)
            first = self._queued.popleft() if self._queued else PAD
        self._step += 1
        if not self.look_ahead:
            return first
        second = _NONE
        if first == NEW_WORD:  # the sign moves to the second stream, and the first one has a token more
            second, first = NEW_WORD, self._queued.popleft() if self._queued else PAD
        elif self._later:
            second = self._later.popleft()
        return first + self.size * (1 + second)

    def _begin(self) -> int:
        """Begin the next word; after the last one, mark the end."""
        if self._words:
            self._queued.extend(self._words.popleft())
            if len(self._words) >= self.look_ahead > 0:
                self._later.extend(self._words[self.look_ahead - 1])
            self._may_pad = self.longest_pad
            self.begun.append(self._step)
            return NEW_WORD
        is_first, self.end_step = self.end_step is None, self._step if self.end_step is None else self.end_step
        return NEW_WORD if is_first and self.look_ahead else PAD
