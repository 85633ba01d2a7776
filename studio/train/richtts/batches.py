"""Training sequences of RichTTS: a text, then its speech (paper 000, section III.B); whole, or in pieces of n words.

The same rule that cuts text while someone types cuts the training sequences, so the two cannot differ. They are laid
out as SpeakStream's are, with a single segment and no window.
"""

from collections.abc import Iterator

import numpy as np

from studio.engine import dmel
from studio.engine.families.richtts.rule import NGRAM, Options, symbols
from studio.train.features import Sentence
from studio.train.recipe import RichTtsFit
from studio.train.speakstream.batches import Batch, collate
from studio.train.speakstream.interleave import FRAME, SYMBOL, Interleaved
from studio.train.spoken import BUCKET, SpokenText, cut, grouped, join, words_of_frames


def options_of(words: int) -> Options:
    """The engine's own for pieces of so many words; 0 leaves the text whole."""
    return Options(NGRAM, words) if words else Options()


def pieces(sentence: Sentence, silence: np.ndarray, options: Options, prompt: int) -> list[Interleaved]:
    """A sentence as the texts that it is read in, each with its speech; a pause belongs to the mark before it.

    Args:
        silence: the speaker's, uint8 [S, 80].
        prompt: frames of silence that follow s_bos.
    """
    of_word = np.minimum(words_of_frames(sentence), len(sentence.words) - 1)
    quiet, found, first = np.resize(silence, (prompt, dmel.CHANNELS)), list[Interleaved](), 0
    while first < len(sentence.words):
        count = options.pieces.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = (of_word >= first) & (of_word < first + count)
        if here.any():
            levels, phones = sentence.levels[here], sentence.phones[here]
            found.append(_laid_out(symbols(sentence.words[first : first + count]), quiet, levels, phones, sentence))
        first += count
    return found


def _laid_out(
    text: list[int], quiet: np.ndarray, levels: np.ndarray, phones: np.ndarray, sentence: Sentence
) -> Interleaved:
    """[w_bos, w_1 .. w_t, w_eos, s_bos, silence, s_1 .. s_t]: after the last frame s_eos is due."""
    tokens, prompt, frames = len(text), len(quiet), len(levels)
    kind = np.repeat(np.array([SYMBOL, FRAME], np.uint8), [tokens, prompt + frames])
    target = np.full(len(kind), -1, np.int32)
    stop = np.full(len(kind), np.nan, np.float32)
    before = tokens + prompt - 1  # the position that predicts the first frame
    target[before : before + frames] = prompt + np.arange(frames)
    stop[before : before + frames + 1] = 0.0
    stop[-1] = 1.0
    return Interleaved(
        kind=kind,
        value=np.array([*text, *range(prompt + frames)], np.int32),
        target=target,
        stop=stop,
        windows=np.zeros((0, 3), np.int64),
        levels=np.concatenate((quiet, levels)),
        phones=np.concatenate((np.zeros(prompt, np.uint8), phones)),
        starts=[0],
        speaker=sentence.speaker,
    )


def training_batches(text: SpokenText, recipe: RichTtsFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence, cut anew each time; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    plans = grouped(text, recipe, rng)
    order = rng.permutation(len(plans))
    for start in range(0, len(order), BUCKET):
        made: list[Interleaved] = []
        for i in order[start : start + BUCKET]:
            silence = text.silence[plans[i][0].speaker]
            options = options_of(int(rng.choice(recipe.pieces)))
            made += pieces(join(plans[i], silence, rng), silence, options, int(rng.integers(8, 17)))
        groups = list(cut(sorted(made, key=len), recipe.batch_tokens))
        for i in rng.permutation(len(groups)):
            yield collate(groups[i], text.speakers, recipe.noise_share, rng)


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
