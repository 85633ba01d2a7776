"""The normaliser of a command, with the user's lexicon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from studio.core.ports import Normaliser

LexiconFile = Annotated[
    Path | None,
    typer.Option("--lexicon", help="File of lines: a word and its /IPA/, or a word and the words spoken for it."),
]


def normaliser(lexicon: Path | None) -> "Normaliser":
    """The best installed normaliser, with the lexicon's readings and pronunciations.

    Raises BadFile: the lexicon cannot be read. NeedsPackage: it has IPA, and there is no G2P.
    """
    from studio.text.normalise import best

    if lexicon is None:
        return best()
    from studio.text.lexicon import PHONEMES, LexiconNormaliser, read_lexicon
    from studio.text.phonemes import add_pronunciations

    entries = read_lexicon(lexicon.expanduser(), PHONEMES)
    if entries.phonemes:
        add_pronunciations(entries.phonemes)
    return LexiconNormaliser(entries, best())
