"""Train the byte-pair encoding of a voice (Sennrich et al. 2016) with the `tokenizers` library."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from studio.core.errors import NeedsPackage
from studio.core.typography import MARKS
from studio.engine.families.ist.bpe import WORD_START


def train_bpe(texts: Iterable[Sequence[str]], size: int, out: Path) -> None:
    """Learn ``size`` tokens from texts of spoken words and write the library's JSON.

    A word begins with ``▁`` and marks stand alone, so that a word's tokens never depend on its neighbours: a committed
    word is encoded at once.
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
    alphabet = [*"abcdefghijklmnopqrstuvwxyz'", WORD_START, *MARKS]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False, special_tokens=[])
    tokenizer.train_from_iterator((" ".join(words) for words in texts), trainer)
    part = out.with_name(f".{out.name}.part")
    tokenizer.save(str(part))
    part.replace(out)
