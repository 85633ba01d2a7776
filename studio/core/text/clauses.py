"""Cut live text into clauses, for families that need a piece of text as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.text.typography import MARKS


@dataclass(frozen=True)
class ClauseRule:
    """A clause ends after a word with one of ``marks``, after ``most_words`` words (1 or more), or with the word that
    reaches ``most_letters`` letters.

    A committed word includes its mark, so no text after the clause is needed.
    """

    most_words: int
    most_letters: int
    marks: str = MARKS

    def length(self, words: Sequence[str], *, is_all: bool) -> int | None:
        """Number of words in the next clause; None while it may still grow.

        Args:
            words: committed words that are in no clause yet.
            is_all: the text has ended or was flushed: the rest is a clause.
        """
        letters = 0
        for count, word in enumerate(words, start=1):
            letters += len(word)
            if word[-1] in self.marks or count >= self.most_words or letters >= self.most_letters:
                return count
        return len(words) if is_all and words else None
