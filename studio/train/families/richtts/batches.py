"""Training sequences of RichTTS: a text, then its speech (paper 000, section III.B); whole, or in pieces of n words.

The same rule that cuts text while someone types cuts the training sequences, so the two cannot differ. They are laid
out as SpeakStream's are, with a single segment and no window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.richtts.rule import NGRAM, Options, symbols
from studio.engine.families.speakstream.rule import spell
from studio.train.families.speakstream import batches as speakstream
from studio.train.families.speakstream.interleave import FRAME, SYMBOL, Interleaved
from studio.train.features import Sentence
from studio.train.loop.spoken import SpokenText, cut, in_batches, join, words_of_frames
from studio.train.recipes.fits import RichTtsFit


@dataclass(frozen=True)
class Piece(Interleaved):
    """A text of T positions with its speech.

    Attributes:
        first_letter, last_letter: int64 [F], where the word of each frame that is predicted stands.
    """

    first_letter: np.ndarray
    last_letter: np.ndarray


@dataclass(frozen=True)
class Batch(speakstream.Batch):
    """SpeakStream's, and where in its row the word of each predicted frame stands, int64 [P] each."""

    first_letter: Tensor
    last_letter: Tensor


def options_of(words: int) -> Options:
    """The engine's own for pieces of so many words; 0 leaves the text whole."""
    return Options(NGRAM, words) if words else Options()


def pieces(sentence: Sentence, silence: np.ndarray, options: Options, prompt: int) -> list[Piece]:
    """A sentence as the texts that it is read in, each with its speech; a pause belongs to the mark before it.

    Args:
        silence: the speaker's, uint8 [S, 80].
        prompt: frames of silence that follow s_bos.
    """
    of_word = np.minimum(words_of_frames(sentence), len(sentence.words) - 1)
    quiet, found, first = np.resize(silence, (prompt, dmel.CHANNELS)), list[Piece](), 0
    while first < len(sentence.words):
        count = options.pieces.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = (of_word >= first) & (of_word < first + count)
        if here.any():
            found.append(_laid_out(sentence, sentence.words[first : first + count], here, of_word[here] - first, quiet))
        first += count
    return found


def _laid_out(sentence: Sentence, words: list[str], here: np.ndarray, spoken: np.ndarray, quiet: np.ndarray) -> Piece:
    """[w_bos, w_1 .. w_t, w_eos, s_bos, silence, s_1 .. s_t]: after the last frame s_eos is due.

    Args:
        here: bool [F], the sentence's frames in which these words are spoken.
        spoken: which word in each of them.
    """
    text, levels, phones = symbols(words), sentence.levels[here], sentence.phones[here]
    ends = np.array([*accumulate((len(spell(word)) for word in words), initial=0)])  # behind w_bos
    tokens, prompt, frames = len(text), len(quiet), len(levels)
    kind = np.repeat(np.array([SYMBOL, FRAME], np.uint8), [tokens, prompt + frames])
    target = np.full(len(kind), -1, np.int32)
    stop = np.full(len(kind), np.nan, np.float32)
    before = tokens + prompt - 1  # the position that predicts the first frame
    target[before : before + frames] = prompt + np.arange(frames)
    stop[before : before + frames + 1] = 0.0
    stop[-1] = 1.0
    return Piece(
        kind=kind,
        value=np.array([*text, *range(prompt + frames)], np.int32),
        target=target,
        stop=stop,
        windows=np.zeros((0, 3), np.int64),
        levels=np.concatenate((quiet, levels)),
        phones=np.concatenate((np.zeros(prompt, np.uint8), phones)),
        starts=[0],
        speaker=sentence.speaker,
        first_letter=1 + ends[spoken],
        last_letter=ends[spoken + 1],
    )


def collate(group: list[Piece], speakers: list[str], noise_share: float, rng: np.random.Generator) -> Batch:
    """Pad pieces to the longest."""
    made = speakstream.collate([*group], speakers, noise_share, rng)
    first, last = (
        torch.from_numpy(np.concatenate([getattr(piece, name) for piece in group]))
        for name in ("first_letter", "last_letter")
    )
    return Batch(**vars(made), first_letter=first, last_letter=last)


def training_batches(text: SpokenText, recipe: RichTtsFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence, cut anew each time; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])

    def make(plans: Sequence[list[Sentence]]) -> Iterator[Piece]:
        for plan in plans:
            silence = text.silence[plan[0].speaker]
            options = options_of(int(rng.choice(recipe.pieces)))
            yield from pieces(join(plan, silence, rng), silence, options, int(rng.integers(8, 17)))

    for group in in_batches(text, recipe, rng, make):
        yield collate(group, text.speakers, recipe.noise_share, rng)


def validation_batches(text: SpokenText, words: int, batch_tokens: int, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker in pieces of so many words, without noise."""
    rng = np.random.default_rng(0)
    made = [
        piece
        for speaker in text.speakers
        for sentence in text.validation[speaker][:each]
        for piece in pieces(sentence, text.silence[speaker], options_of(words), prompt=10)
    ]
    for group in cut(sorted(made, key=len), batch_tokens):
        yield collate(group, text.speakers, 0.0, rng)
