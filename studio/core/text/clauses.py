"""Live text cut into clauses, for whoever needs a piece of text whole: at a mark, or after so many words."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.text.typography import MARKS


@dataclass(frozen=True)
class ClauseRule:
    """Where a clause ends: after the first word that has one of ``marks``, that is the last of so many, or with whose
    letters there are so many.

    A word is known with its mark as soon as it is committed, so that nothing after a clause is waited for.

    Attributes:
        most_words: of a clause, 1 or more.
        most_letters: after the word with which there are so many, a clause ends in any case.
    """

    most_words: int
    most_letters: int
    marks: str = MARKS

    def length(self, words: Sequence[str], *, is_all: bool) -> int | None:
        """How many of these spoken words are the next clause; None while it may still grow.

        Args:
            words: committed, none of them in a clause yet.
            is_all: no more will come, or nobody waits for them: what is left is a clause.
        """
        letters = 0
        for count, word in enumerate(words, start=1):
            letters += len(word)
            if word[-1] in self.marks or count >= self.most_words or letters >= self.most_letters:
                return count
        return len(words) if is_all and words else None
