"""Train and apply the byte-pair encoding of a voice (Sennrich et al. 2016)."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from studio.core.errors import BadFile, NeedsPackage
from studio.core.text.typography import MARKS
from studio.core.text.words import WordStream
from studio.engine.families.common.text_tokens import WORD_START, Bpe, Spelling, alphabet_of, spell_phonemes
from studio.text.normalise import best
from studio.train.corpus.texts import read_texts
from studio.train.features import phone_of


def read_spoken(path: Path) -> Iterator[list[str]]:
    """Spoken words of a corpus' texts. Raises BadFile."""
    normalise = best()
    for text in read_texts(path):
        stream = WordStream(normalise)
        changes = [*stream.feed(text.text), stream.end()]
        yield [word.word for one in changes for word in one.words]


def train_bpe(texts: Iterable[Sequence[str]], size: int, out: Path, spelling: Spelling = "letters") -> int:
    """Train an encoding of ``size`` tokens on spoken words and write it as JSON; returns the vocabulary size.

    A word begins with ``▁`` and marks are separate, so a word's tokens do not depend on its neighbours, and a committed
    word can be encoded at once. Phonemes are those of each word in isolation.

    Raises:
        BadFile: no text has a word.
        NeedsPackage: tokenizers is not installed.
    """
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    except ImportError as error:
        raise NeedsPackage(
            "training an encoding needs the package tokenizers", "pip install 'streaming-tts-studio[train]'"
        ) from error

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(f"[{MARKS}]"), "isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet_of(spelling), show_progress=False, special_tokens=[]
    )
    if spelling == "phonemes":
        texts = ([_pronounced(word) for word in words] for words in texts)
    written = [" ".join(words) for words in texts if words]
    if not written:
        raise BadFile("there is no text with a word to train an encoding on", "make some with `studio train texts`")
    tokenizer.train_from_iterator(written, trainer)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    tokenizer.save(str(part))
    part.replace(out)
    return tokenizer.get_vocab_size()


def encoded_words(
    bpe: Bpe, words: Sequence[str], dropout: float = 0.0, rng: np.random.Generator | None = None
) -> list[tuple[int, ...]]:
    """Tokens of each word; with a generator, BPE merges are skipped with probability ``dropout``.

    Without dropout, nets overfit to the texts of a few hours of speech.
    """
    if rng is None or not dropout:
        return [bpe.encode(word) for word in words]
    return [bpe.encode_at_random(word, dropout, rng.random) for word in words]


def phones_of_tokens(bpe: Bpe) -> list[tuple[int, ...]]:
    """The phones (``features.PHONES``) of each token, by its id; none for tokens of letters and marks."""
    if bpe.spelling == "letters":
        return [()] * bpe.size
    return [tuple(phone for symbol in token if (phone := _phone_of(symbol))) for token in bpe.tokens]


def _phone_of(symbol: str) -> int | None:
    return None if symbol == WORD_START else phone_of(symbol)


def _pronounced(word: str) -> str:
    """A word's phonemes and its mark."""
    bare = word.rstrip(MARKS)
    return spell_phonemes(bare) + word[len(bare) :]
